//! `Time`, a point on a scale of nanoseconds, and the contract of a clock.
//!
//! Plain data: any thread may use it, nothing here allocates, locks or panics.

use alloc::sync::{Arc, Weak};
use core::fmt;
use core::ops::{Add, Sub};
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
/// let start = Time::from_nanos(500_000_000);
/// assert_eq!((start + second).as_nanos(), 1_500_000_000);
/// assert_eq!(start + second - start, second);
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

    /// Nanoseconds since the clock's origin.
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
    pub(crate) const fn has_passed(self, now: Self) -> bool {
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
pub(crate) const fn saturating_ns(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(NANOS_PER_SECOND) {
        Some(whole) => whole.saturating_add(duration.subsec_nanos() as u64),
        None => u64::MAX,
    }
}

/// A source of [`Time`].
///
/// ```
/// use std::sync::Weak;
/// use std::time::Duration;
/// use tickwheel::{Builder, Clock, Drive, ManualClock, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// /// Another clock, a day ahead.
/// struct Tomorrow<C>(C);
///
/// impl<C: Clock> Clock for Tomorrow<C> {
///     fn now(&self) -> Time {
///         self.0.now() + Duration::from_secs(24 * 3600)
///     }
///
///     // What a clock that is made of another one must pass on:
///     fn longest_sleep(&self) -> Option<Duration> {
///         self.0.longest_sleep()
///     }
///
///     fn is_virtual(&self) -> bool {
///         self.0.is_virtual()
///     }
///
///     fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
///         self.0.on_advance(wake);
///     }
/// }
///
/// let timer = Builder::new().clock(Tomorrow(ManualClock::new())).drive(Drive::Manual).build()?;
/// assert_eq!(timer.now(), Time::from_nanos(86_400_000_000_000));
/// # Ok(()) }
/// ```
///
/// # Contract
///
/// * `now` never goes back: if one call of `now` happens before another, on the same thread or on
///   two that synchronise, the second result is not less than the first. An engine survives a clock
///   that breaks this (it keeps the latest time it has seen), but its timers are then late.
/// * `now` is called on hot paths from any thread: it should take nanoseconds, not block, not
///   panic.
/// * A clock whose time moves only by hand answers `true` to [`is_virtual`](Self::is_virtual) and
///   calls every hook given to [`on_advance`](Self::on_advance) each time after its time has moved.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no clock for timers",
    label = "does not implement `tickwheel::Clock`",
    note = "use `MonotonicClock`, a `ManualClock` for tests, or implement `Clock` for your own"
)]
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time, in nanoseconds since this clock's origin.
    fn now(&self) -> Time;

    /// Returns how long a worker, or a loop that asks for its timeout, may sleep before it reads this clock again;
    /// `None` for as long as there is nothing to do. Asked once, when a timer is built.
    ///
    /// For clocks whose time may run on faster than that by which the operating system sleeps, as a
    /// clock's does that counts a suspended machine's time.
    fn longest_sleep(&self) -> Option<Duration> {
        None
    }

    /// Returns whether time moves only by hand. Asked once, when a timer is built.
    ///
    /// Workers of such a clock sleep without a timeout and rely on the hooks to learn that time
    /// moved.
    fn is_virtual(&self) -> bool {
        false
    }

    /// Registers a hook that a virtual clock calls after each time it moved, on the thread that
    /// moved it.
    ///
    /// Who registers a hook must read `now` afterwards once, or a move in between goes unnoticed.
    /// A hook is registered as long as its owner keeps it: the clock upgrades it before each call, and
    /// forgets it when that fails. So a clock that outlives its engines does not keep theirs. Clocks that
    /// are not virtual ignore hooks, which is the default.
    fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        drop(wake);
    }
}

/// A shared clock is a clock: several engines can run on one.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Time {
        (**self).now()
    }

    fn longest_sleep(&self) -> Option<Duration> {
        (**self).longest_sleep()
    }

    fn is_virtual(&self) -> bool {
        (**self).is_virtual()
    }

    fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        (**self).on_advance(wake);
    }
}

/// Returns the time, beside a panic that may be under way: a clock that panics as well is logged, and answers `None`.
/// Without the standard library there is no net: it ends the process then.
pub(crate) fn read_quietly(clock: &(impl Clock + ?Sized)) -> Option<Time> {
    #[cfg(feature = "std")]
    return crate::contain::catch_and_log("a clock", || clock.now());
    #[cfg(not(feature = "std"))]
    return Some(clock.now());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_saturate_at_both_ends() {
        let second = Duration::from_secs(1);
        assert_eq!(Time::MAX + second, Time::MAX);
        assert_eq!(Time::from_nanos(1) + Duration::MAX, Time::MAX);
        assert_eq!(Time::ZERO - Time::MAX, Duration::ZERO);
        assert_eq!((Time::ZERO + second) - Time::ZERO, second);
        assert_eq!(Time::MAX.saturating_duration_since(Time::ZERO), Duration::from_nanos(u64::MAX));
        assert_eq!(saturating_ns(Duration::from_nanos(u64::MAX)), u64::MAX);
        assert_eq!(
            saturating_ns(Duration::from_nanos(u64::MAX) + Duration::from_nanos(1)),
            u64::MAX
        );
        assert_eq!(Time::MAX - Duration::MAX, Time::ZERO);
        assert_eq!((Time::ZERO + 2 * second) - second, Time::ZERO + second);
        assert_eq!(format!("{:?} {:?}", Time::ZERO + second, Time::MAX), "Time(1s) Time(never)");
        assert_eq!(format!("{} {}", Time::ZERO + second / 2, Time::MAX), "500ms never");
    }
}
