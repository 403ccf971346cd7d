//! `Instant`: a point in time that a test can hold still and move.

#[cfg(feature = "test-util")]
use super::scale::Scale;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;
use tickwheel::{Time, When};

/// A point on the machine's monotonic clock, or on the clock of a test.
///
/// It has the methods of `tokio::time::Instant`. With the feature `test-util`, [`now`](Self::now) returns the time of
/// the calling thread's test clock, if there is one. Otherwise an `Instant` is [`std::time::Instant`] and costs the same.
///
/// Each call that takes a [`When`] takes an `Instant`.
///
/// ```
/// use tickwheel_util::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let later = start + Duration::from_secs(5);
/// assert_eq!(later - start, Duration::from_secs(5));
/// assert_eq!(start - later, Duration::ZERO, "a difference is never negative");
/// assert_eq!(Instant::from_std(start.into_std()), start);
/// ```
///
/// # Panics
///
/// `+` and `-` of a `Duration` panic like those of [`std::time::Instant`] if the result is out of its range;
/// [`checked_add`](Self::checked_add) and [`checked_sub`](Self::checked_sub) do not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// Returns the present: the machine's, or that of the calling thread's test clock.
    #[must_use]
    pub fn now() -> Self {
        #[cfg(feature = "test-util")]
        if let Some(now) = crate::test::instant() {
            return now;
        }
        #[cfg(all(feature = "test-util", feature = "tokio"))]
        return Self(crate::tokio_rt::pausable::now());
        #[cfg(not(all(feature = "test-util", feature = "tokio")))]
        Self(std::time::Instant::now())
    }

    /// Makes one from an instant of the standard library.
    #[must_use]
    pub const fn from_std(instant: std::time::Instant) -> Self {
        Self(instant)
    }

    /// Returns it as an instant of the standard library.
    #[must_use]
    pub const fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// Returns how long ago it was; zero if it lies ahead.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// Returns how long it is after `earlier`; zero if it is not.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Returns how long it is after `earlier`; zero if it is not.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }

    /// Returns how long it is after `earlier`; `None` if it is before.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// Returns the point `duration` later, if there is one.
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// Returns the point `duration` earlier, if there is one.
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }

    /// Returns the instant of a time on the machine's clock.
    pub(crate) fn of_machine(time: Time) -> Self {
        time.to_instant()
            .map_or_else(|| Self::now().far_add(Duration::MAX), Self)
    }

    /// Returns the point `duration` later, or one that no program lives to see.
    pub(super) fn far_add(self, duration: Duration) -> Self {
        // `Instant` has no greatest value.
        const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);
        let far = self.checked_add(duration).or_else(|| self.checked_add(FAR));
        far.unwrap_or(self)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

/// The time from the right one to the left one; zero if the right one is later.
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(instant: std::time::Instant) -> Self {
        Self(instant)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> Self {
        instant.0
    }
}

/// The same point on the clock of the timers that the calling thread uses.
impl From<Instant> for When {
    fn from(instant: Instant) -> Self {
        #[cfg(feature = "test-util")]
        if let Some(scale) = Scale::current() {
            return scale.time_of(instant).into();
        }
        instant.0.into()
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
