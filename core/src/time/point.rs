//! `Time`: a point on a scale of nanoseconds.
//!
//! Plain data and saturating arithmetic: the far end of the scale, [`Time::MAX`], means "practically never". Nothing
//! here allocates, locks or panics.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::time::Duration;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A point in time: whole nanoseconds since the origin of one clock.
///
/// The scale spans 584 years. All arithmetic saturates at its ends, so no operation panics;
/// [`Time::MAX`] stands for "practically never". Times of different clocks are not comparable.
///
/// A `Time` is 8 bytes of plain data and every operation on it is O(1).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Time;
///
/// let second = Duration::from_secs(1);
/// let start = Time::from_millis(500);
/// assert_eq!((start + second).as_nanos(), 1_500_000_000);
/// assert_eq!(start + second - start, second);
/// let mut deadline = start;
/// deadline += second;
/// assert_eq!(deadline, Time::from_micros(1_500_000));
/// // The operators saturate; so do these, which also work in constants.
/// const LATEST: Time = Time::MAX.saturating_add(Duration::from_secs(1));
/// assert_eq!((LATEST, start.saturating_sub(second)), (Time::MAX, Time::ZERO));
/// assert_eq!(start.saturating_duration_since(LATEST), Duration::ZERO);
/// assert_eq!(format!("{start} {LATEST}"), "500ms never");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// The far end of the scale, 584 years after the origin: practically never.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the clock's origin.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time `micros` microseconds after the clock's origin; [`Time::MAX`] where it leaves the scale.
    #[inline]
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns the time `millis` milliseconds after the clock's origin; [`Time::MAX`] where it leaves the scale.
    #[inline]
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the time `secs` seconds after the clock's origin; [`Time::MAX`] where it leaves the scale.
    #[inline]
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SECOND))
    }

    /// Returns the nanoseconds since the clock's origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns this time plus `duration`, or [`Time::MAX`] where the sum leaves the scale.
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturating_ns(duration)))
    }

    /// Returns the time that is `delay` later, if the delay is shorter than 34 years and not zero and the sum is on the
    /// scale: then one comparison tells all that the sum must be asked.
    #[inline(always)]
    pub(crate) const fn later_by(self, delay: Duration) -> Option<Self> {
        if delay.as_secs() >= 1 << 30 {
            return None;
        }
        let ns = delay.as_secs() * NANOS_PER_SECOND + delay.subsec_nanos() as u64;
        let later = Self(self.0.wrapping_add(ns));
        if later.0 > self.0 { Some(later) } else { None }
    }

    /// Returns this time less `duration`, or [`Time::ZERO`] where the difference leaves the scale.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_ns(duration)))
    }

    /// Returns how long after `earlier` this time is; zero where it is not after it.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns whether a clock that stands at `now` has come to this time. The end of the scale never passes.
    #[inline]
    #[doc(hidden)]
    pub const fn has_passed(self, now: Self) -> bool {
        self.0 <= now.0 && self.0 < Self::MAX.0
    }
}

/// Adds and saturates at [`Time::MAX`].
impl Add<Duration> for Time {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        self.saturating_add(duration)
    }
}

/// Adds and saturates at [`Time::MAX`].
impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Subtracts and saturates at [`Time::ZERO`].
impl SubAssign<Duration> for Time {
    #[inline]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// Subtracts and saturates at [`Time::ZERO`].
impl Sub<Duration> for Time {
    type Output = Self;

    #[inline]
    fn sub(self, duration: Duration) -> Self {
        self.saturating_sub(duration)
    }
}

/// The distance from the right time to the left one; zero where the left one is not the later.
impl Sub for Time {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// As a duration since the clock's origin, `1.5s`; `never` at the end of the scale.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX {
            f.pad("never")
        } else {
            fmt::Debug::fmt(&Duration::from_nanos(self.0), f)
        }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({self})")
    }
}

/// Returns a duration in nanoseconds, `u64::MAX` where it is longer than 584 years.
///
/// Goes by seconds and remainder: `Duration::as_nanos` would multiply in 128 bits.
#[inline]
pub const fn saturating_ns(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(NANOS_PER_SECOND) {
        Some(whole) => whole.saturating_add(duration.subsec_nanos() as u64),
        None => u64::MAX,
    }
}

/// Returns a timeout in whole milliseconds for `epoll_wait` and `poll`: rounded up; -1 for ever.
pub fn whole_ms(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_saturate_at_both_ends() {
        let (second, ns) = (Duration::from_secs(1), Duration::from_nanos);
        let at = Time::from_secs(1);
        assert_eq!(
            [at, Time::from_millis(1000), Time::from_micros(1_000_000)],
            [Time::ZERO + second; 3]
        );
        assert_eq!(
            [Time::from_secs, Time::from_millis, Time::from_micros].map(|from| from(u64::MAX)),
            [Time::MAX; 3]
        );
        let (mut up, mut down) = (Time::MAX, at);
        up += second;
        down -= 2 * second;
        assert_eq!((up, down), (Time::MAX, Time::ZERO));
        assert_eq!(
            [Time::MAX + second, Time::from_nanos(1) + Duration::MAX],
            [Time::MAX; 2]
        );
        assert_eq!(
            [Time::MAX - Duration::MAX, at - 2 * second],
            [Time::ZERO; 2]
        );
        assert_eq!((at + second) - second, at);
        assert_eq!([Time::ZERO - at, at - Time::ZERO], [Duration::ZERO, second]);
        assert_eq!(
            Time::MAX.saturating_duration_since(Time::ZERO),
            ns(u64::MAX)
        );
        assert_eq!(
            [ns(u64::MAX), ns(u64::MAX) + ns(1)].map(saturating_ns),
            [u64::MAX; 2]
        );
        assert_eq!(format!("{at:?} {:?}", Time::MAX), "Time(1s) Time(never)");
        assert_eq!(
            format!("{} {}", Time::ZERO + second / 2, Time::MAX),
            "500ms never"
        );
    }

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        let ms = |nanos| whole_ms(Some(Duration::from_nanos(nanos)));
        assert_eq!(
            [ms(0), ms(1), ms(999_999), ms(1_000_000), ms(1_000_001)],
            [0, 1, 1, 1, 2]
        );
        assert_eq!(whole_ms(None), -1);
        assert_eq!(whole_ms(Some(Duration::MAX)), i32::MAX);
    }
}
