//! The sleep itself: wait until a timeout or a wake, whichever comes first.
//!
//! [`Parker`] belongs to the shard's owner and stays on its thread. `Unparker` is the other end: any thread may
//! clone it and call `wake`. A wake is never lost: one that comes before the sleep ends the next sleep at once.
//! Several wakes before a sleep end one sleep. Which wakes are worth their price is decided above, in the handshake.
//!
//! No descriptor is opened and nothing can fail: `linux` waits on a futex, `portable` parks the thread. Both keep one
//! word, the *token*, and differ in how they wait for it. Each platform has one of them; tests run both where both
//! compile. Models explore `linux`, over a futex of loom's.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), all(test, not(tickwheel_loom))))]
mod portable;
#[cfg(all(test, not(tickwheel_loom)))]
mod tests;

#[cfg(target_os = "linux")]
pub(crate) use linux::{Parker, Unparker};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Parker, Unparker};

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
