//! Ticks and periods as the documentation states them, in 128 bits and by plain division.

use arbitrary::Arbitrary;
use std::time::Duration;
use tickwheel::{MissedTicks, Period, Time};

/// The tick that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// Nanoseconds, cut off at the end of the scale.
pub(crate) fn saturated(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// The sum of a time and a delay, cut off at the end of the scale.
pub(crate) fn later(now: Time, delay: Duration) -> Time {
    Time::from_nanos(saturated(u128::from(now.as_nanos()) + delay.as_nanos()))
}

/// The length of a tick, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks(pub(crate) u64);

impl Ticks {
    pub(crate) fn new(tick: Duration) -> Self {
        Self(saturated(tick.as_nanos()))
    }

    /// The tick that `now` lies in.
    pub(crate) fn current(self, now: Time) -> u64 {
        now.as_nanos() / self.0
    }

    /// The tick of a timer for `delay`, counted from `now`: rounded up; the current one for no delay.
    pub(crate) fn deadline(self, now: Time, delay: Duration) -> u64 {
        if delay.is_zero() {
            self.current(now)
        } else {
            self.at(later(now, delay))
        }
    }

    /// The tick of a timer for `deadline`: rounded up, whether or not that has passed.
    pub(crate) fn at(self, deadline: Time) -> u64 {
        if deadline == Time::MAX {
            NEVER
        } else {
            deadline.as_nanos().div_ceil(self.0)
        }
    }

    /// The tick of a timer for `deadline` that is set at `present`: rounded up, unless that has passed, which the end
    /// of the scale never does.
    pub(crate) fn point(self, deadline: Time, present: Time) -> u64 {
        match self.at(deadline) {
            tick if tick == NEVER || deadline > present => tick,
            tick => tick.min(self.current(present)),
        }
    }

    /// The present by which an engine or a remote judges whether a point in time has passed: with a tick of less than
    /// 10 ms they do not ask.
    pub(crate) fn asked(self, now: Time) -> Time {
        if self.0 < 10_000_000 { Time::ZERO } else { now }
    }

    /// When `tick` begins.
    pub(crate) fn start(self, tick: u64) -> Time {
        Time::from_nanos(saturated(u128::from(tick) * u128::from(self.0)))
    }
}

/// What a periodic timer does about periods that went by.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rhythm {
    Skip,
    Delay,
    Burst,
    FixedDelay,
}

impl Rhythm {
    /// The library's period.
    pub(crate) fn period(self, length: Duration) -> Period {
        match self {
            Self::Skip => Period::fixed_rate(length, MissedTicks::Skip),
            Self::Delay => Period::fixed_rate(length, MissedTicks::Delay),
            Self::Burst => Period::fixed_rate(length, MissedTicks::Burst),
            Self::FixedDelay => Period::fixed_delay(length),
        }
    }

    /// The deadline after `nominal`, handled at `now`. A length of zero counts as a nanosecond.
    pub(crate) fn next(self, length: Duration, nominal: Time, now: Time) -> Time {
        let (length, nominal) = (length.as_nanos(), u128::from(nominal.as_nanos()));
        let length = u128::from(saturated(length).max(1));
        let now = u128::from(now.as_nanos());
        let missed = nominal + length <= now;
        Time::from_nanos(saturated(match self {
            Self::FixedDelay => now + length,
            Self::Delay if missed => now + length,
            Self::Skip if missed => nominal + ((now - nominal) / length + 1) * length,
            _ => nominal + length,
        }))
    }
}
