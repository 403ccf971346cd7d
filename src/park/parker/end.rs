//! What every parker says about a sleep, and the longest one.

use std::time::Duration;

/// The longest single sleep, 68 years: keeps every conversion to the system's types in range. The caller looks
/// again after any sleep, so a longer one is only cut in two.
pub(super) const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkEnd {
    /// A wake, before this sleep or during it.
    Woken,
    /// The timeout, or now and then nothing at all, a signal for instance.
    TimerHandle,
}
