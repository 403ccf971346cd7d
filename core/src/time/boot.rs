//! A clock that goes on while the machine is suspended.
//!
//! Stateless: any thread may read it.

use super::{Clock, Time};
use std::time::Duration;

/// The time since the machine was started, suspended or not; for deadlines that mean real time, as a lease's does.
///
/// On Linux `CLOCK_BOOTTIME`, read through a system call where the kernel does not map it (some 20 ns
/// otherwise). Elsewhere it is the [`MonotonicClock`](super::MonotonicClock), which counts suspended time on
/// Windows and not on macOS; [`counts_suspended_time`](Self::counts_suspended_time) tells.
///
/// Operating systems do not count suspended time in a sleep. So a worker of an engine with this clock sleeps for a
/// second at most while timers are pending, and so does a loop that asks an event loop's timer for its timeout. Timers
/// that came due meanwhile fire within a second of the machine's awakening. A timer does not wake a suspended machine.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{BootClock, Builder, Expired};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let leases =
///     Builder::new().clock(BootClock::new()).build_with(|expired: Expired<u64>| {
///         println!("lease {} has run out", expired.payload)
///     })?;
/// let lease = leases.schedule(Duration::from_secs(3600), 17)?;
/// assert!(leases.cancel(lease).is_won());
/// println!("a suspended machine's time counts: {}", BootClock::counts_suspended_time());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock(());

impl BootClock {
    /// Creates the clock.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }

    /// Returns whether the time of a suspended machine counts on this operating system.
    #[must_use]
    pub const fn counts_suspended_time() -> bool {
        cfg!(any(target_os = "linux", windows))
    }
}

impl Clock for BootClock {
    fn now(&self) -> Time {
        #[cfg(target_os = "linux")]
        return Time::ZERO + crate::sync::system::since_boot();
        #[cfg(not(target_os = "linux"))]
        return super::MonotonicClock::new().now();
    }

    /// Returns how much later than the machine a sleeping owner wakes up at most.
    fn longest_sleep(&self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MonotonicClock;

    #[test]
    fn clocks_never_go_back_and_keep_up_with_real_time() {
        let clocks: [&dyn Clock; 2] = [&BootClock::new(), &MonotonicClock::new()];
        for clock in clocks {
            let reads: Vec<Time> = (0..10_000).map(|_| clock.now()).collect();
            assert!(reads.is_sorted() && !clock.is_virtual());
            std::thread::sleep(Duration::from_millis(3));
            assert!(clock.now() - reads[9_999] >= Duration::from_millis(3));
        }
    }
}
