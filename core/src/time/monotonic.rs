//! The machine's monotonic clock.
//!
//! Immutable after construction: any thread may read it, reads share no memory.
//!
//! On Linux `Instant` is the system's `CLOCK_MONOTONIC`. The time is then the system's reading less the origin's, in
//! nanoseconds, which costs a subtraction; the same by way of two instants costs three times the instructions of the
//! reading itself. `Instant` has no call that tells what it holds, but its debug text does. That is not promised, so it is
//! believed only if it lies between two readings of the system's clock, one before the instant and one after.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::saturating_ns;
use super::{Clock, Time};

/// Where the process's monotonic time begins.
static ORIGIN: OnceLock<MonotonicClock> = OnceLock::new();

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
/// use tickwheel::{MonotonicClock, Time};
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
    /// The same in nanoseconds of the system's clock, where that can be read without an `Instant`.
    origin_ns: Option<u64>,
}

/// Returns the system's clock, of which `Instant` is a reading; `None` where only `Instant` reads it.
#[inline(always)]
fn system_ns() -> Option<u64> {
    #[cfg(all(feature = "std", target_os = "linux"))]
    return Some(crate::sync::system::monotonic_ns());
    #[cfg(not(all(feature = "std", target_os = "linux")))]
    return None;
}

impl MonotonicClock {
    /// Creates the clock. Its first use in the process is its origin.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        *ORIGIN.get_or_init(Self::begin)
    }

    #[cold]
    fn begin() -> Self {
        let before = system_ns();
        let origin = Instant::now();
        let readings = before.zip(system_ns());
        let origin_ns = readings.and_then(|(before, after)| {
            let told = told_ns(&format!("{origin:?}"))?;
            (before <= told && told <= after).then_some(told)
        });
        Self { origin, origin_ns }
    }

    /// Returns the present time. One reading of the system's clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Time {
        let since = |origin| Some(system_ns()?.saturating_sub(origin));
        match self.origin_ns.and_then(since) {
            Some(nanos) => Time::from_nanos(nanos),
            None => self.time_of(Instant::now()),
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
        MonotonicClock::new().now() - self
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
        self.now()
    }
}

/// Returns the nanoseconds of an instant's debug text, if it has two numbers, of which the first are seconds.
fn told_ns(text: &str) -> Option<u64> {
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse::<u64>().ok());
    let (seconds, nanos) = (numbers.next()?, numbers.next()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
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

    /// By the system's clock and by `Instant`, which are one: so each time lies between the instants around it, to the
    /// nanosecond.
    #[test]
    fn times_that_are_read_lie_between_instants() {
        let clock = MonotonicClock::new();
        let portable = MonotonicClock {
            origin_ns: None,
            ..clock
        };
        let is_quick = cfg!(all(feature = "std", target_os = "linux", not(miri)));
        assert!(
            clock.origin_ns.is_some() || !is_quick,
            "Instant tells nothing any more"
        );
        for clock in [clock, portable] {
            for _ in 0..10_000 {
                let before = Instant::now();
                let read = clock.now();
                let after = Instant::now();
                let (before, after) = (clock.time_of(before), clock.time_of(after));
                assert!(
                    before <= read && read <= after,
                    "{before:?} {read:?} {after:?}"
                );
            }
        }
    }

    #[test]
    fn what_an_instant_tells_is_read_or_not_believed() {
        let told = |text| told_ns(text);
        assert_eq!(
            told("Instant { tv_sec: 12, tv_nsec: 34 }"),
            Some(12_000_000_034)
        );
        assert_eq!(told("Instant { t: 12.5s }"), Some(12_000_000_005));
        for text in [
            "",
            "Instant(..)",
            "Instant { t: 77 }",
            "99999999999999999 9",
        ] {
            assert_eq!(told(text), None);
        }
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
