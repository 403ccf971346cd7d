//! Memory of an owner's own, and what the system knows of it. Nothing here is shared between threads.
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

/// Returns a size in production, and the one that models explore: small, so that they cross its border.
pub const fn bounded<T: Copy>(real: T, explored: T) -> T {
    if cfg!(tickwheel_loom) { explored } else { real }
}
