//! The sleep itself: wait until a timeout or a wake, whichever comes first.
//!
//! [`Parker`] belongs to the shard's owner and stays on its thread. `Unparker` is the other end: any thread may
//! clone it and call `wake`. A wake is never lost: one that comes before the sleep ends the next sleep at once.
//! Several wakes before a sleep end one sleep. Which wakes are worth their price is decided above, in the handshake.
//!
//! No descriptor is opened and nothing can fail: `linux` waits on a futex, `portable` parks the thread. Both keep one
//! word, the *token*, and differ in how they wait for it. Each platform has one of them; tests run both where both
//! compile. Models explore `linux`, over a futex of loom's.

mod end;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), all(test, not(tickwheel_loom))))]
mod portable;
#[cfg(all(test, not(tickwheel_loom)))]
mod tests;

pub(crate) use end::ParkEnd;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Parker, Unparker};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Parker, Unparker};
