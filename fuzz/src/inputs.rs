//! What the fuzzer chooses from: lengths of time thick around the edges that matter, settings that can be
//! built, and operations on a timer.

use crate::ticks::{Ticks, saturated};
use arbitrary::Arbitrary;
use std::time::Duration;
use tickwheel::{Budget, Time, WheelKind};

/// Operations of one case that are run: enough for any bug of a timer's life, few enough to stay fast.
pub(crate) const MAX_OPS: usize = 300;

/// A tick from 1 us to 1 h.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum TickLength {
    Milli,
    Micro,
    Odd(u16),
    Power(u8),
    Hour,
}

impl TickLength {
    pub(crate) fn duration(self) -> Duration {
        Duration::from_nanos(match self {
            Self::Milli => 1_000_000,
            Self::Micro => 1_000,
            Self::Odd(nanos) => 1_000 + u64::from(nanos),
            Self::Power(bit) => 1 << (10 + bit % 32),
            Self::Hour => 3_600_000_000_000,
        })
    }
}

/// A wheel that can be built with any tick.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Wheel {
    Hierarchical,
    Hashed(u16),
}

impl Wheel {
    pub(crate) fn kind(self) -> WheelKind {
        match self {
            Self::Hierarchical => WheelKind::Hierarchical,
            Self::Hashed(buckets) => WheelKind::Hashed { buckets: 1 + usize::from(buckets % 1024) },
        }
    }
}

/// What one turn may do; `None` for ample.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Budgets {
    pub(crate) drain: Option<u8>,
    fire: Option<u8>,
}

impl Budgets {
    pub(crate) fn budget(self) -> Budget {
        let part = |part: Option<u8>, ample| part.map_or(ample, |part| 1 + usize::from(part % 32));
        let ample = Budget::default();
        Budget { drain: part(self.drain, ample.drain), fire: part(self.fire, ample.fire), ..ample }
    }
}

/// A delay, a deadline, an uptime: all of the scale, thick around ticks and powers of two of them.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Span {
    Zero,
    /// So many ticks, give or take nanoseconds.
    Ticks(u8, i8),
    ManyTicks(u16),
    /// A power of two of ticks, give or take nanoseconds.
    PowerOfTicks(u8, i8),
    Nanos(u64),
    Seconds(u64),
}

impl Span {
    pub(crate) fn duration(self, ticks: Ticks) -> Duration {
        let tick = u128::from(ticks.0);
        let about = |nanos: u128, off: i8| saturated(nanos).saturating_add_signed(off.into());
        Duration::from_nanos(match self {
            Self::Zero => 0,
            Self::Ticks(count, off) => about(tick * u128::from(count), off),
            Self::ManyTicks(count) => saturated(tick * u128::from(count)),
            Self::PowerOfTicks(bit, off) => about(tick << (bit % 64), off),
            Self::Nanos(nanos) => nanos,
            Self::Seconds(seconds) => return Duration::from_secs(seconds),
        })
    }

    pub(crate) fn time(self, ticks: Ticks) -> Time {
        Time::from_nanos(saturated(self.duration(ticks).as_nanos()))
    }

    /// A point of time this far from `now`.
    pub(crate) fn from(self, now: Time, back: bool, ticks: Ticks) -> Time {
        let span = self.time(ticks).as_nanos();
        Time::from_nanos(if back {
            now.as_nanos().saturating_sub(span)
        } else {
            now.as_nanos().saturating_add(span)
        })
    }
}

/// How far time moves: seldom so far that nothing interesting is left.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Step {
    Ticks(u8),
    Nanos(u16),
    ManyTicks(u16),
    PowerOfTicks(u8),
    /// To the earliest deadline, give or take nanoseconds.
    ToFirst(i8),
    Far(Span),
}

impl Step {
    /// The time after this step from `now`, with `first` as the earliest deadline.
    pub(crate) fn from(self, now: Time, first: Option<Time>, ticks: Ticks) -> Time {
        let by = match self {
            Self::Ticks(count) => Span::Ticks(count, 0),
            Self::Nanos(nanos) => Span::Nanos(nanos.into()),
            Self::ManyTicks(count) => Span::ManyTicks(count),
            Self::PowerOfTicks(bit) => Span::PowerOfTicks(bit % 40, 0),
            Self::ToFirst(off) => {
                let first = first.unwrap_or(now).as_nanos().saturating_add_signed(off.into());
                return Time::from_nanos(first).max(now);
            }
            Self::Far(span) => span,
        };
        by.from(now, false, ticks)
    }
}

/// What is done to a timer; `by` says through which of several ways in.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Act<By> {
    Schedule { by: By, delay: Span },
    ScheduleAt { by: By, back: bool, offset: Span },
    Cancel { by: By, pick: u8 },
    Reschedule { by: By, pick: u8, delay: Span },
    RescheduleAt { by: By, pick: u8, back: bool, offset: Span },
    Ask { by: By, pick: u8 },
}
