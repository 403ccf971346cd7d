//! When a timer is to fire, as its caller says it.

use super::Time;
#[cfg(feature = "std")]
use super::TimeSource;
use super::slack::Grid;
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
///   that is as far from its present as the instant is from the machine's. A [`LocalTimer`](crate::LocalTimer), which
///   has no clock, takes it for [`MonotonicClock::time_of`](crate::MonotonicClock::time_of): one that is told the time
///   of another clock must not be given instants.
///
/// All of them are rounded *up* to a tick, so a timer is never early. Only what is known to be due already is not: a
/// zero delay, and a point in time that is seen to have passed, are due at once, in the next turn or poll, however long
/// a tick is. Their deadline is told as the beginning of the present tick, or of an earlier one if the point has passed
/// for longer.
///
/// A timer that is told the `now` of a call compares a point in time with that, and with what its polls were told.
/// The other fronts read their clock to see whether it has passed if a tick is 10 ms or longer. If it is shorter, no
/// clock is read for a point (except for an `Instant` on a clock of your own), and one that passed within the present
/// tick waits for the next one. Where no `now` is told and the clock is the machine's, a delay counts from the call
/// or up to two microseconds later, a zero one too.
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
/// assert!(
///     timer.deadline(after) <= timer.deadline(at)
///         && timer.deadline(at) <= timer.deadline(instant)
/// );
/// # Ok(()) }
/// ```
///
/// A timer that may be late can say by how much: [`with_slack`](Self::with_slack).
///
/// At most 24 bytes of plain data, and none at all where the compiler sees which of the three it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct When(Kind);

/// The kinds of [`When`], with the grid inside of each, where it takes no room.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    After(Grid, Duration),
    At(Grid, Time),
    AtInstant(Grid, Instant),
}

impl When {
    /// Returns the same, for a timer that may be late by as much as `slack`. Its deadline moves up to the next of the
    /// points that all timers of this slack share. So those of one thread or loop fire in one go, with one wake-up.
    ///
    /// The points lie a power of two of nanoseconds apart, the largest that is not longer than `slack`; those of a
    /// longer slack are among those of a shorter one. The deadline that the timer is asked for, and from which its
    /// lateness counts, is the point. Of a periodic timer the first deadline moves; the later ones are counted from
    /// there. A delay of zero stays due at once. Nothing is stored for it, and timers without a slack pay nothing.
    ///
    /// The slack of a builder comes on top: it lets a worker or a loop sleep longer, for all timers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{LocalTimer, Time, When};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let second = Duration::from_secs(1);
    /// let idle = When::from(30 * second).with_slack(second);
    /// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    /// for n in 0..10 {
    ///     // Ten connections within 100 ms: closed together, none of them before its 30 seconds.
    ///     timer.schedule(Time::ZERO + Duration::from_millis(1000 + 10 * n), idle, n)?;
    /// }
    /// let due = timer.next_deadline().expect("ten are pending");
    /// assert!(
    ///     due >= Time::ZERO + Duration::from_millis(31_090) && due <= Time::ZERO + 32 * second
    /// );
    /// assert_eq!(timer.poll(due, |_| ()).fired, 10);
    /// # Ok(()) }
    /// ```
    #[inline]
    #[must_use]
    pub const fn with_slack(self, slack: Duration) -> Self {
        self.on_grid(Grid::within(slack))
    }

    /// Returns the same with its deadline moved up to the next point of a grid.
    #[inline]
    #[doc(hidden)]
    pub const fn on_grid(self, grid: Grid) -> Self {
        Self(match self.0 {
            Kind::After(_, Duration::ZERO) => return self,
            Kind::After(_, delay) => Kind::After(grid, delay),
            Kind::At(_, time) => Kind::At(grid, time),
            Kind::AtInstant(_, instant) => Kind::AtInstant(grid, instant),
        })
    }

    /// Returns the same without a slack, also without the one that `timeout` gives to long delays.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::When;
    ///
    /// let minute = When::from(Duration::from_secs(60));
    /// # #[cfg(feature = "std")]
    /// let exact = tickwheel::timeout(minute.exact(), async { 17 }); // not up to 10 ms late
    /// ```
    #[inline]
    #[must_use]
    pub const fn exact(self) -> Self {
        self.with_slack(Duration::ZERO)
    }

    /// Returns the same with the slack of a `timeout`: a delay of a second or more may be late by a
    /// thousandth of itself, 10 ms at most. A slack that was chosen stays, and so does [`exact`](Self::exact); a point in
    /// time has none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::When;
    ///
    /// let ms = Duration::from_millis;
    /// assert_eq!(
    ///     When::from(ms(5000)).with_usual_slack(),
    ///     When::from(ms(5000)).with_slack(ms(5))
    /// );
    /// assert_eq!(When::from(ms(500)).with_usual_slack(), When::from(ms(500)));
    /// ```
    #[inline]
    #[must_use]
    pub fn with_usual_slack(self) -> Self {
        match self.0 {
            Kind::After(Grid::EXACT, delay) if delay.as_secs() > 0 => {
                // A thousandth, without a division of the whole.
                let thousandth = match delay.as_secs() {
                    seconds @ ..10 => seconds * 1_000_000 + u64::from(delay.subsec_micros()),
                    _ => 10_000_000,
                };
                self.on_grid(Grid::within_ns(thousandth))
            }
            _ => self,
        }
    }

    /// Returns which of the three kinds it is.
    #[inline(always)] // so that the usual kind, which is known at compile time, costs no branch
    pub(crate) const fn kind(self) -> Kind {
        self.0
    }

    /// Returns the same with a point on the machine's clock as the time that it has on `clock`.
    #[cfg(feature = "std")]
    #[inline(always)]
    #[doc(hidden)]
    pub fn on(self, clock: &TimeSource) -> Self {
        match self.0 {
            Kind::AtInstant(grid, instant) => Self(Kind::At(grid, clock.time_of(instant))),
            Kind::After(..) | Kind::At(..) => self,
        }
    }

    /// Returns the same with a delay that counts from `start`, if that is given.
    #[cfg(feature = "std")]
    #[inline]
    #[doc(hidden)]
    pub fn counted_from(self, start: Option<Instant>) -> Self {
        match (self.0, start) {
            (Kind::After(grid, delay), Some(start)) if !delay.is_zero() => {
                let end = start.checked_add(delay);
                end.map_or(self, |end| Self(Kind::AtInstant(grid, end)))
            }
            _ => self,
        }
    }

    /// Returns whether this is a delay of zero: due at once at any time.
    #[doc(hidden)]
    pub fn is_now(self) -> bool {
        matches!(self.0, Kind::After(_, Duration::ZERO))
    }

    /// Returns whether this is a point in time, which may have passed.
    #[doc(hidden)]
    pub const fn is_point(self) -> bool {
        !matches!(self.0, Kind::After(..))
    }
}

impl From<Duration> for When {
    #[inline(always)]
    fn from(delay: Duration) -> Self {
        Self(Kind::After(Grid::EXACT, delay))
    }
}

impl From<Time> for When {
    #[inline(always)]
    fn from(time: Time) -> Self {
        Self(Kind::At(Grid::EXACT, time))
    }
}

impl From<Instant> for When {
    #[inline(always)]
    fn from(instant: Instant) -> Self {
        Self(Kind::AtInstant(Grid::EXACT, instant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(
        size_of::<When>() <= 24,
        "a `When` takes no more room for its slack"
    );

    #[cfg(feature = "std")]
    #[test]
    fn the_usual_slack_is_a_thousandth_up_to_ten_milliseconds() {
        for seconds in [1, 2, 4, 8, 9, 10, 16, u64::MAX] {
            // Some thousandths are a power of two, of which one nanosecond less is another grid.
            for nanos in [0, 1, 97_151_999, 97_152_000, 388_608_000, 999_999_999] {
                let delay = Duration::new(seconds, nanos);
                let slack = (delay / 1000).min(Duration::from_millis(10));
                let when = When::from(delay);
                assert_eq!(when.with_usual_slack(), when.with_slack(slack), "{delay:?}");
            }
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn a_delay_counts_from_a_point_with_its_slack() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let long = When::from(ms(3000)).with_usual_slack();
        assert_eq!(
            long.counted_from(Some(start)),
            When::from(start + ms(3000)).with_slack(ms(3))
        );
        for when in [When::from(ms(0)), Time::MAX.into(), Duration::MAX.into()] {
            assert_eq!(when.counted_from(Some(start)), when);
        }
        assert_eq!(long.counted_from(None), long);
    }

    #[cfg(feature = "std")]
    #[test]
    fn a_long_delay_has_a_thousandth_for_slack_and_ten_milliseconds_at_most() {
        for (delay, slack) in [(1_000, 1), (3_000, 3), (3_600_000, 10), (u64::MAX, 10)] {
            let when = When::from(Duration::from_millis(delay));
            let slack = Duration::from_millis(slack);
            assert_eq!(when.with_usual_slack(), when.with_slack(slack));
            for chosen in [when.exact(), when.with_slack(2 * slack)] {
                assert_eq!(chosen.with_usual_slack(), chosen);
            }
        }
        for when in [Duration::from_millis(999).into(), When::from(Time::MAX)] {
            assert_eq!(when.with_usual_slack(), when);
        }
    }
}
