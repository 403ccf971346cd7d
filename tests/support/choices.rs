//! What a random case consists of: operations by weight, lengths of time thick around the edges that matter,
//! settings that can be built.
//!
//! A case is chosen from bytes, whether libFuzzer makes them, proptest or a seed: [`case`], [`cases`]. So there
//! is one enum of operations for each subject, and one way to choose from it.

use super::ticks::{Ticks, saturated};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::time::Duration;
use tickwheel::{Budget, Settings, Time};

/// Operations of one case: enough for any bug of a timer's life, few enough to stay fast.
pub(crate) const MAX_OPS: usize = 300;

/// The case that `data` chooses; `None` where `data` is too short for one.
pub fn case<'a, C: Arbitrary<'a>>(data: &'a [u8]) -> Option<C> {
    C::arbitrary_take_rest(Unstructured::new(data)).ok()
}

/// An enum whose variants are chosen by weight, so that random bytes make cases worth running: what ends
/// everything is seldom, what fills a timer is frequent.
macro_rules! weighted {
    (
        $(#[$outer:meta])*
        $vis:vis enum $name:ident $(<$by:ident>)? {
            $(
                $(#[$inner:meta])*
                $weight:literal => $variant:ident
                    $( ( $($position:ty),+ ) )?
                    $( { $($field:ident: $type:ty),+ } )?,
            )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug)]
        $vis enum $name $(<$by>)? {
            $(
                $(#[$inner])*
                $variant $( ( $($position),+ ) )? $( { $($field: $type),+ } )?,
            )+
        }

        impl<'a $(, $by: ::arbitrary::Arbitrary<'a>)?> ::arbitrary::Arbitrary<'a>
            for $name $(<$by>)?
        {
            fn arbitrary(data: &mut ::arbitrary::Unstructured<'a>) -> ::arbitrary::Result<Self> {
                let mut left = u8::arbitrary(data)? % (0 $(+ $weight)+);
                $(
                    if left < $weight {
                        return Ok(Self::$variant
                            $( ( $(<$position>::arbitrary(data)?),+ ) )?
                            $( { $($field: <$type>::arbitrary(data)?),+ } )?);
                    }
                    #[allow(unused_assignments, reason = "after the last variant")]
                    { left -= $weight; }
                )+
                unreachable!("the remainder is below the sum of the weights")
            }
        }
    };
}
pub(crate) use weighted;

/// What one poll may fire: the largest choice stands for no limit.
pub(crate) fn budget(most: u8) -> usize {
    if most == u8::MAX {
        usize::MAX
    } else {
        small(most)
    }
}

/// A number that is seldom large, as budgets matter that cut in the middle.
pub(crate) fn small(choice: u8) -> usize {
    (choice >> (choice % 8)).into()
}

/// The operations of a case: as many as the bytes that are left make.
#[derive(Debug)]
pub(crate) struct Ops<Op>(pub(crate) Vec<Op>);

impl<'a, Op: Arbitrary<'a>> Arbitrary<'a> for Ops<Op> {
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Self> {
        let mut ops = Vec::new();
        while !data.is_empty() && ops.len() < MAX_OPS {
            ops.push(Op::arbitrary(data)?);
        }
        Ok(Self(ops))
    }
}

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

/// What every timer with ticks is built with.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) tick: TickLength,
    pub(crate) max_pending: Limit,
}

impl Shape {
    pub(crate) fn ticks(self) -> Ticks {
        Ticks::new(self.tick.duration())
    }

    pub(crate) fn settings(self) -> Settings {
        let settings = Settings::new().tick(self.tick.duration());
        self.max_pending
            .get()
            .into_iter()
            .fold(settings, Settings::max_pending)
    }
}

/// How many timers may be pending.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Limit(pub(crate) Option<u8>);

impl Limit {
    pub(crate) fn get(self) -> Option<usize> {
        self.0.map(|limit| 1 + usize::from(limit % 64))
    }
}

/// What one turn may do; `None` for ample.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Budgets {
    pub(crate) drain: Option<u8>,
    pub(crate) fire: Option<u8>,
}

impl Budgets {
    pub(crate) fn budget(self) -> Budget {
        let part = |part: Option<u8>, ample| part.map_or(ample, |part| 1 + usize::from(part % 32));
        let ample = Budget::new();
        ample
            .drain(part(self.drain, ample.drain))
            .fire(part(self.fire, ample.fire))
    }
}

weighted! {
    /// A delay, a deadline, an uptime: all of the scale, thick around ticks and powers of two of them.
    pub(crate) enum Span {
        2 => Zero,
        /// So many ticks, give or take nanoseconds.
        8 => Ticks(u8, i8),
        4 => ManyTicks(u16),
        /// A power of two of ticks, give or take nanoseconds.
        4 => PowerOfTicks(u8, i8),
        1 => Nanos(u64),
        1 => Seconds(u64),
    }
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

weighted! {
    /// How far time moves: seldom so far that nothing interesting is left.
    pub(crate) enum Step {
        5 => Ticks(u8),
        3 => Nanos(u16),
        3 => ManyTicks(u16),
        2 => PowerOfTicks(u8),
        /// To the earliest deadline, give or take nanoseconds.
        6 => ToFirst(i8),
        1 => Far(Span),
    }
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
                let first = first
                    .unwrap_or(now)
                    .as_nanos()
                    .saturating_add_signed(off.into());
                return Time::from_nanos(first).max(now);
            }
            Self::Far(span) => span,
        };
        by.from(now, false, ticks)
    }
}

weighted! {
    /// What is done to a timer; `by` says through which of several ways in.
    pub(crate) enum Act<By> {
        8 => Schedule { by: By, delay: Span },
        3 => ScheduleAt { by: By, back: bool, offset: Span },
        6 => Cancel { by: By, pick: u8 },
        5 => Reschedule { by: By, pick: u8, delay: Span },
        2 => RescheduleAt { by: By, pick: u8, back: bool, offset: Span },
        2 => Ask { by: By, pick: u8 },
    }
}
