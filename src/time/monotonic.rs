//! The machine's monotonic clock.
//!
//! Immutable after construction: any thread may read it, reads share no memory.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::saturating_ns;
use super::{Clock, Time};

/// Where the process's monotonic time begins.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// The machine's monotonic clock, counted from its first use in this process.
///
/// All values of this type are the same clock: their times compare, and are those of every engine and event loop
/// that was given no clock of its own.
///
/// Reads cost about as much as [`Instant::now`] (some 20 ns) and never go back. As with `Instant`,
/// whether time passes while the machine is suspended is up to the operating system; on Linux it
/// does not.
///
/// ```
/// use std::time::Instant;
/// use tickwheel::{Clock, MonotonicClock, Time};
///
/// let clock = MonotonicClock::new();
/// let instant = Instant::now();
/// let time: Time = clock.time_of(instant);
/// assert_eq!(time.to_instant(), Some(instant));
/// assert!(clock.now() >= time);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// Creates the clock. Its first use in the process is its origin.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: *ORIGIN.get_or_init(Instant::now),
        }
    }

    /// Returns the time of `instant` on this clock: [`Time::ZERO`] for an instant before the origin,
    /// [`Time::MAX`] for one 584 years after it or later. Exact to the nanosecond in between.
    #[inline]
    #[must_use]
    pub fn time_of(&self, instant: Instant) -> Time {
        Time::from_nanos(saturating_ns(
            instant.saturating_duration_since(self.origin),
        ))
    }
}

/// By the machine's clock, which every timer has that was given no clock of its own. For a time of another clock, such
/// as a `ManualClock`, these say nothing: `timer.now() - time` does.
impl Time {
    /// Returns the instant of this time on the machine's clock, for `sleep_until` or a condition variable; `None` where
    /// the platform's `Instant` cannot express it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let sleep = tickwheel::sleep(Duration::from_secs(5));
    /// let until = sleep.deadline().to_instant().expect("five seconds from now");
    /// assert_eq!(tickwheel::Time::from(until), sleep.deadline());
    /// ```
    #[must_use]
    pub fn to_instant(self) -> Option<Instant> {
        MonotonicClock::new().origin.checked_add(self - Self::ZERO)
    }

    /// Returns how long ago this time was by the machine's clock; zero if it is yet to come.
    ///
    /// ```
    /// # async fn beat(mut interval: tickwheel::Interval) {
    /// println!("{:?} late", interval.tick().await.elapsed());
    /// # }
    /// ```
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Clock::now(&MonotonicClock::new()) - self
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The time of an instant on this clock, as [`MonotonicClock::time_of`].
impl From<Instant> for Time {
    #[inline]
    fn from(instant: Instant) -> Self {
        MonotonicClock::new().time_of(instant)
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Time {
        self.time_of(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_times_convert_exactly() {
        let clock = MonotonicClock::new();
        for nanos in [0, 1, 999, 1_000_000_007, 1 << 50] {
            let time = Time::from_nanos(nanos);
            let instant = time.to_instant().unwrap();
            assert_eq!((clock.time_of(instant), Time::from(instant)), (time, time));
            assert_eq!(MonotonicClock::new().time_of(instant), time);
        }
        let before = clock.origin.checked_sub(Duration::from_nanos(1)).unwrap();
        assert_eq!(clock.time_of(before), Time::ZERO);
    }

    #[test]
    fn a_time_of_the_past_has_elapsed_and_one_to_come_has_not() {
        let start = MonotonicClock::new().now();
        std::thread::sleep(Duration::from_millis(2));
        let (least, elapsed) = (MonotonicClock::new().now() - start, start.elapsed());
        assert!(elapsed >= least && elapsed <= MonotonicClock::new().now() - start);
        assert_eq!((start + Duration::from_secs(60)).elapsed(), Duration::ZERO);
        assert_eq!(Time::MAX.elapsed(), Duration::ZERO);
    }
}
