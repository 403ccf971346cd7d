//! When a timer is to fire, as its caller says it.

use super::{TickRate, Time};
use core::time::Duration;
#[cfg(feature = "std")]
use std::time::Instant;

/// Without the standard library there is no machine's clock, and no point on it.
#[cfg(not(feature = "std"))]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Instant {}

#[cfg(not(feature = "std"))]
impl From<Instant> for Time {
    fn from(instant: Instant) -> Self {
        match instant {}
    }
}

/// When a timer is to fire: after a delay, or at a point in time.
///
/// Every call that asks for it takes `impl Into<When>`, that is
///
/// * a [`Duration`]: so long after the call, or after the `now` that the call is given;
/// * a [`Time`]: that point on the scale of the timer's clock;
/// * an [`Instant`]: that point on the machine's clock. A timer with a clock of your own takes it for the point
///   that is as far from its present as the instant is from the machine's.
///
/// All of them are rounded *up* to a tick, so a timer is never early. A point in time that has passed
/// stays what it is: the timer fires as soon as somebody looks, with that deadline and the lateness it has. (Rounded
/// up, it may still lie ahead by less than a tick.) A zero delay is due at once.
///
/// No clock is read for a point in time, except for an `Instant` on a clock of your own.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwheel::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let second = Duration::from_secs(1);
/// let after = timer.run_after(second, || println!("a second from now"))?;
/// let at = timer.run_after(timer.now() + second, || println!("the same"))?;
/// let instant = timer.run_after(Instant::now() + second, || println!("the same"))?;
/// assert!(after.deadline() <= at.deadline() && at.deadline() <= instant.deadline());
/// # Ok(()) }
/// ```
///
/// 24 bytes of plain data, and none at all where the compiler sees which of the three it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct When(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    After(Duration),
    At(Time),
    AtInstant(Instant),
}

impl When {
    /// The deadline's tick. `start` gives what a delay counts from, `time_of` translates an instant.
    #[inline(always)] // so that the usual kind, which is known at compile time, costs no branch
    pub(crate) fn tick(
        self,
        rate: &TickRate,
        start: impl FnOnce() -> Time,
        time_of: impl FnOnce(Instant) -> Time,
    ) -> u64 {
        match self.0 {
            Kind::After(delay) => rate.deadline(start(), delay),
            Kind::At(time) => rate.deadline_at(time),
            Kind::AtInstant(instant) => rate.deadline_at(time_of(instant)),
        }
    }

    /// The deadline before it is rounded to a tick.
    #[inline(always)]
    pub(crate) fn time(
        self,
        start: impl FnOnce() -> Time,
        time_of: impl FnOnce(Instant) -> Time,
    ) -> Time {
        match self.0 {
            Kind::After(delay) => start().saturating_add(delay),
            Kind::At(time) => time,
            Kind::AtInstant(instant) => time_of(instant),
        }
    }

    /// Whether this is a delay of nothing: due at once, whatever the time.
    #[cfg(feature = "futures")]
    pub(crate) fn is_now(self) -> bool {
        matches!(self.0, Kind::After(Duration::ZERO))
    }

    /// Whether this is a point in time, which may have passed.
    #[cfg(feature = "futures")]
    pub(crate) const fn is_point(self) -> bool {
        !matches!(self.0, Kind::After(_))
    }

    /// As [`time`](Self::time), for a timer without a clock: instants count on the
    /// [`MonotonicClock`](super::MonotonicClock).
    #[inline(always)]
    pub(crate) fn time_from(self, now: Time) -> Time {
        self.time(|| now, Time::from)
    }
}

impl From<Duration> for When {
    #[inline(always)]
    fn from(delay: Duration) -> Self {
        Self(Kind::After(delay))
    }
}

impl From<Time> for When {
    #[inline(always)]
    fn from(time: Time) -> Self {
        Self(Kind::At(time))
    }
}

impl From<Instant> for When {
    #[inline(always)]
    fn from(instant: Instant) -> Self {
        Self(Kind::AtInstant(instant))
    }
}

#[cfg(test)]
mod tests {
    use super::super::MonotonicClock;
    use super::*;

    fn never<R>(_: Instant) -> R {
        panic!("no instant was given")
    }

    #[test]
    fn a_delay_counts_from_the_start_and_a_time_asks_for_none() {
        let (rate, ms) = (TickRate::new(1_000_000), Duration::from_millis);
        let start = || Time::ZERO + ms(7);
        let no_start = || -> Time { panic!("no clock is read for a point in time") };
        assert_eq!(When::from(ms(5)).tick(&rate, start, never), 12);
        assert_eq!(When::from(ms(5)).time(start, never), Time::ZERO + ms(12));
        assert_eq!(When::from(Time::ZERO + ms(5)).tick(&rate, no_start, never), 5);
        assert_eq!(When::from(Time::ZERO + ms(5)).time(no_start, never), Time::ZERO + ms(5));
        let instant = Instant::now();
        let seen = When::from(instant).time(no_start, |given| {
            assert_eq!(given, instant);
            Time::ZERO + ms(9)
        });
        assert_eq!(seen, Time::ZERO + ms(9));
    }

    #[test]
    fn instants_lie_on_the_scale_of_every_monotonic_clock() {
        let clock = MonotonicClock::new();
        let instant = Instant::now() + Duration::from_secs(5);
        let time = When::from(instant).time_from(Time::ZERO);
        assert_eq!((time, clock.instant_of(time)), (clock.time_of(instant), Some(instant)));
    }
}
