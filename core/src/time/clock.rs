//! `Clock`: the contract of a source of time.

use super::Time;
use core::time::Duration;
#[cfg(feature = "std")]
use std::sync::{Arc, Weak};

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
/// let timer =
///     Builder::new().clock(Tomorrow(ManualClock::new())).drive(Drive::Manual).build()?;
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
    /// are not virtual ignore hooks, which is the default. Only with the feature `std`: timers of one thread are told
    /// the time and register nothing.
    #[cfg(feature = "std")]
    fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        drop(wake);
    }
}

/// A shared clock is a clock: several engines can run on one.
#[cfg(feature = "std")]
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
