//! Memory of an owner's own, what the system knows of it, and the atomics of clocks, which alone are shared here.
//!
//! | room | what is inside |
//! |---|---|
//! | `boxed` | a box that the allocator may refuse |
//! | `exclusive` | a value that only its owner reaches |
//! | `pages` | memory that the system can take back for a while |
//! | `piece` | memory past the allocator |
//! | `prefetch` | a hint to the processor |
//! | `system` | calls of Linux |

pub mod boxed;
pub mod exclusive;
#[cfg(feature = "std")]
pub mod pages;
pub mod piece;
pub mod prefetch;
#[cfg(all(feature = "std", target_os = "linux"))]
pub(crate) mod system;

/// Of the clocks that threads share: models explore them.
#[cfg(feature = "std")]
pub(crate) mod atomic {
    #[cfg(tickwheel_loom)]
    pub(crate) use super::watched::{AtomicU64, Ordering};
    #[cfg(not(tickwheel_loom))]
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
}

/// Loom's atomics, for all of the library.
#[cfg(tickwheel_loom)]
#[path = "../../../loom-tests/support/watched.rs"]
pub mod watched;
#[cfg(tickwheel_loom)]
#[path = "../../../loom-tests/support/weakened.rs"]
pub mod weakened;

/// Returns a size in production, and the one that models explore: small, so that they cross its border.
pub const fn bounded<T: Copy>(real: T, explored: T) -> T {
    if cfg!(tickwheel_loom) { explored } else { real }
}
