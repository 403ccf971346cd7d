//! Periods of repeating timers: pure arithmetic, in nanoseconds.
//!
//! The next deadline is always computed from the nominal one before it, never from the tick at which
//! the timer fired, so rounding to ticks does not add up: there is no drift however many periods pass.

use super::{Time, saturating_ns};
use core::num::NonZeroU64;
use core::time::Duration;

/// The treatment of missed periods of a fixed-rate timer.
///
/// A period counts as missed when the deadline after the one that fires has passed as well. Firing late
/// within its own period changes nothing: the next deadline stays where it was.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{MissedTicks, Period, Time};
///
/// // A period of 10 s, and the call for second 10 is made at second 35.
/// let (ten, at) =
///     (Duration::from_secs(10), |seconds| Time::ZERO + Duration::from_secs(seconds));
/// let next = |missed| Period::fixed_rate(ten, missed).next(at(10), at(35));
/// assert_eq!(next(MissedTicks::Skip), at(40));
/// assert_eq!(next(MissedTicks::Delay), at(45));
/// assert_eq!(next(MissedTicks::Burst), at(20)); // and 30, at once
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum MissedTicks {
    /// Leave the missed ones out and go on at the next multiple of the period. The default.
    #[default]
    Skip,
    /// Start afresh: the next deadline is one period from now.
    Delay,
    /// Make up for them: fire once for each missed period, without a pause, until caught up. An engine and an event
    /// loop make one call per turn or poll, and turn again at once, so that other timers come in between; a
    /// `LocalTimer` makes them all in one poll, within its budget.
    Burst,
}

/// Says when a periodic timer is due again after it has fired: 1 ns later at least, and 584 years at most.
///
/// A period is 16 bytes of plain data. Each call that takes one takes a [`Duration`], too: a fixed rate that leaves
/// missed periods out. Periods shorter than the timer's tick are allowed, and a length of zero counts as 1 ns. Several
/// of them then fall into one tick, of which [`MissedTicks::Skip`] fires one.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{MissedTicks, Period, Time};
///
/// let second = Duration::from_secs(1);
/// let at = |seconds| Time::ZERO + second * seconds;
///
/// let rate = Period::fixed_rate(second, MissedTicks::Skip);
/// assert_eq!(Period::from(second), rate);
/// assert_eq!(rate.next(at(1), at(1) + second / 2), at(2)); // late, but no period was missed
/// assert_eq!(rate.next(at(1), at(7) + second / 2), at(8)); // 2 to 7 are left out
///
/// let pause = Period::fixed_delay(second);
/// assert_eq!(pause.next(at(1), at(7)), at(8));
/// assert!(pause.is_fixed_delay() && pause.length() == second);
///
/// assert_eq!(Period::fixed_delay(Duration::ZERO).length(), Duration::from_nanos(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Period {
    nanos: NonZeroU64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Rate(MissedTicks),
    Delay,
}

impl Period {
    /// A timer that fires again whenever it is [rescheduled](crate::LocalTimer::reschedule), and never by itself.
    ///
    /// After each call the timer stays pending, with the same key, and its deadline is never. So one timer serves a
    /// connection or a watchdog for its whole life. Its handler may reschedule it, too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{LocalTimer, Period, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    /// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    /// let watchdog = timer.schedule_periodic(Time::ZERO, at(5), Period::NEVER, "silence")?;
    /// assert_eq!(timer.poll(at(5), |expired| assert_eq!(expired.payload, "silence")).fired, 1);
    /// assert!(timer.is_pending(watchdog) && timer.next_deadline().is_none());
    /// assert!(timer.reschedule(at(6), watchdog, Duration::from_secs(5)).is_moved());
    /// assert_eq!(timer.poll(at(11), |_| ()).fired, 1);
    /// # Ok(()) }
    /// ```
    pub const NEVER: Self = Self::fixed_delay(Duration::MAX);

    /// Creates a rate: deadlines `every` apart, whenever the timer is polled and however long its handler takes.
    #[must_use]
    pub const fn fixed_rate(every: Duration, missed: MissedTicks) -> Self {
        Self::new(every, Kind::Rate(missed))
    }

    /// Creates a pause of `pause` from the end of one handler call to the next deadline: a slow handler delays its
    /// own timer and never piles up work. A panic ends a call, too.
    ///
    /// A [`LocalTimer`](crate::LocalTimer) does not know the end of a call: its pause counts from the `now` of the poll.
    /// [`poll_with_clock`](crate::LocalTimer::poll_with_clock) knows it. If your clock panics at the end of a call, the
    /// pause counts from the latest time that is known, and for a local timer from its next poll.
    #[must_use]
    pub const fn fixed_delay(pause: Duration) -> Self {
        Self::new(pause, Kind::Delay)
    }

    const fn new(length: Duration, kind: Kind) -> Self {
        let nanos = match NonZeroU64::new(saturating_ns(length)) {
            Some(nanos) => nanos,
            None => NonZeroU64::MIN,
        };
        Self { nanos, kind }
    }

    /// Returns the length of the period or pause; 584 years at most.
    #[must_use]
    pub const fn length(&self) -> Duration {
        Duration::from_nanos(self.nanos.get())
    }

    /// Returns whether the next period begins when the handler ends.
    #[must_use]
    pub const fn is_fixed_delay(&self) -> bool {
        matches!(self.kind, Kind::Delay)
    }

    /// Returns the deadline after the one at `nominal`, which is handled at `now`.
    ///
    /// Later than `now` except with [`MissedTicks::Burst`], and later than `nominal`: with a fixed delay, if `now` is not
    /// before it. [`Time::MAX`], which is never, where it leaves the scale. O(1).
    #[must_use]
    pub fn next(&self, nominal: Time, now: Time) -> Time {
        let following = nominal + self.length();
        match self.kind {
            Kind::Delay => now + self.length(),
            Kind::Rate(MissedTicks::Burst) => following,
            Kind::Rate(_) if following > now => following,
            Kind::Rate(MissedTicks::Delay) => now + self.length(),
            Kind::Rate(MissedTicks::Skip) => {
                let elapsed = now.as_nanos() - nominal.as_nanos();
                // At most `now`: the multiple of the period at or before it.
                let passed = elapsed - elapsed % self.nanos;
                Time::from_nanos(nominal.as_nanos() + passed) + self.length()
            }
        }
    }
}

/// Creates a fixed rate that leaves missed periods out.
impl From<Duration> for Period {
    fn from(every: Duration) -> Self {
        Self::fixed_rate(every, MissedTicks::Skip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [MissedTicks; 3] = [MissedTicks::Skip, MissedTicks::Delay, MissedTicks::Burst];

    fn rate(nanos: u64, missed: MissedTicks) -> Period {
        Period::fixed_rate(Duration::from_nanos(nanos), missed)
    }

    fn time(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn missed_periods_follow_the_policy() {
        // Less than one late, all count from the nominal deadline.
        for (now, expected) in [
            (100, [110; 3]),
            (109, [110; 3]),
            (110, [120, 120, 110]),
            (111, [120, 121, 110]),
            (139, [140, 149, 110]),
            (140, [150, 150, 110]),
        ] {
            assert_eq!(
                ALL.map(|it| rate(10, it).next(time(100), time(now))),
                expected.map(time)
            );
        }
    }

    #[test]
    fn a_fixed_delay_counts_from_the_end_of_the_handler() {
        let pause = Period::fixed_delay(Duration::from_nanos(10));
        assert_eq!(pause.next(time(100), time(100)), time(110));
        assert_eq!(pause.next(time(100), time(777)), time(787));
        assert!(pause.is_fixed_delay() && !rate(1, MissedTicks::Skip).is_fixed_delay());
    }

    #[test]
    fn a_duration_is_a_fixed_rate_that_skips_and_no_period_is_zero() {
        assert_eq!(
            Period::from(Duration::from_nanos(10)),
            rate(10, MissedTicks::Skip)
        );
        assert_eq!(Period::from(Duration::ZERO), rate(1, MissedTicks::Skip));
        assert_eq!(ALL.map(|it| rate(0, it)), ALL.map(|it| rate(1, it)));
        assert_eq!(
            Period::fixed_delay(Duration::ZERO),
            Period::fixed_delay(Duration::from_nanos(1))
        );
    }

    #[test]
    fn the_end_of_the_scale_is_never() {
        let ever = Period::fixed_rate(Duration::MAX, MissedTicks::Burst);
        assert_eq!(ever.length(), Duration::from_nanos(u64::MAX));
        assert_eq!(ever.next(time(1), time(1)), Time::MAX);
        for missed in ALL {
            assert_eq!(
                rate(u64::MAX / 2, missed).next(time(u64::MAX - 1), Time::MAX),
                Time::MAX
            );
            assert_eq!(rate(1, missed).next(Time::MAX, Time::MAX), Time::MAX);
        }
    }

    proptest! {
        #[test]
        fn the_next_deadline_is_in_the_future_and_on_the_grid(
            nanos in 1..=u64::MAX, nominal in 0..u64::MAX, late in any::<u64>(),
        ) {
            let (nominal, now) = (time(nominal), time(nominal.saturating_add(late)));
            for missed in ALL {
                let next = rate(nanos, missed).next(nominal, now);
                prop_assert!(next > nominal);
                prop_assert!(missed == MissedTicks::Burst || next > now || next == Time::MAX);
                if missed != MissedTicks::Delay && next != Time::MAX {
                    prop_assert_eq!((next.as_nanos() - nominal.as_nanos()) % nanos, 0);
                }
                if missed == MissedTicks::Skip && next > nominal + Duration::from_nanos(nanos) {
                    prop_assert!((next - now).as_nanos() <= u128::from(nanos));
                }
            }
        }
    }
}
