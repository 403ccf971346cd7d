//! The end of a sleep, for every parker, and the longest sleep.

use std::time::Duration;

/// The longest single sleep, 68 years: keeps every conversion to the system's types in range. The caller looks
/// again after any sleep, so a longer one is only cut in two.
pub(super) const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

/// The cause of a sleep's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkEnd {
    /// A wake, before this sleep or during it.
    Woken,
    /// The timeout, or now and then nothing at all, a signal for instance.
    Timeout,
}
