//! The only switch between std and loom, and the only place that names either's atomics.
//!
//! Everything else imports from here, so that one `cfg` turns the whole library into something that
//! loom can explore; loom's side of it lies in `loom-tests/support`. Under `--cfg tickwheel_loom` the flag
//! `--cfg crossbeam_loom` must be set as well: without it crossbeam-epoch silently keeps std's atomics and the models
//! would prove nothing about it.
//!
//! | room | what is inside |
//! |---|---|
//! | `cell` | an `UnsafeCell` whose accesses loom can check |
//! | `epoch` | memory reclamation |
//! | `fence` | a pair of fences of which one side is nearly free |
//! | `forks` | a count of forks |
//! | `segments` | tables whose slots never move |
//! | `signals` | which signals a thread takes |
//! | `slot` | small dense numbers for threads, which serve again after their end |
//! | `stack` | a lock-free stack of numbers |
//! | `system` | calls of Linux |
//! | `thread` | threads: their start, and numbers that are never used twice |
//! | `way` | what a thread remembers of the shard that its timers go to |

pub(crate) use tickwheel_core::sync::{bounded, boxed, pages, piece, prefetch};

pub(crate) mod cell;
pub(crate) mod epoch;
#[cfg(tickwheel_loom)]
#[path = "../../loom-tests/support/mod.rs"]
#[cfg_attr(not(test), allow(dead_code, reason = "asked for by models"))]
pub(crate) mod explored;
pub(crate) mod fence;
pub(crate) mod forks;
pub(crate) mod segments;
#[cfg(all(unix, not(tickwheel_loom)))]
mod signals;
#[cfg(not(tickwheel_loom))]
pub(crate) mod slot;
pub(crate) mod stack;
#[cfg(target_os = "linux")]
pub(crate) mod system;
pub(crate) mod thread;
pub(crate) mod way;

#[cfg(not(tickwheel_loom))]
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, fence};
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
}

#[cfg(tickwheel_loom)]
pub(crate) use explored::slot;

#[cfg(tickwheel_loom)]
pub(crate) mod atomic {
    pub(crate) use super::explored::watched::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// The lock of what is rare.
pub(crate) mod lock {
    #[cfg(tickwheel_loom)]
    pub(crate) use super::explored::rw_lock::RwLock;
    #[cfg(tickwheel_loom)]
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    #[cfg(not(tickwheel_loom))]
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock};
}

/// Atomics of process-wide statics and of the sleep itself, which loom cannot model: its atomics belong to one
/// execution, and it knows no futex and no timed park. Without threads the library needs no 64-bit atomics, which small
/// processors lack.
pub(crate) mod process {
    pub(crate) use core::sync::atomic::AtomicU64;
    #[cfg(any(not(target_os = "linux"), all(test, not(tickwheel_loom))))]
    pub(crate) use core::sync::atomic::{AtomicBool, fence};
    pub(crate) use core::sync::atomic::{AtomicUsize, Ordering};
}
