//! The way: where a thread's timers go, which the thread remembers, so that most calls look nothing up.
//!
//! A way leads to the thread's part of one shard. It is a thread-local without a destructor, so that a read of it is
//! one load. `shard::way` says who sets it, and why no call takes a wrong one.

#[cfg(not(tickwheel_loom))]
use std::cell::Cell;

use super::process::{AtomicU64, Ordering};

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// The number of the shard's engine or loop; 0 if there is no way.
    pub(crate) group: u64,
    /// The number of the shard in its group.
    pub(crate) shard: u16,
    /// The shard's handle.
    pub(crate) handle: *const (),
    /// The thread's part of the shard.
    pub(crate) thread: *const (),
}

impl Way {
    pub(crate) const NONE: Self = Self {
        group: 0,
        shard: 0,
        handle: std::ptr::null(),
        thread: std::ptr::null(),
    };
}

/// Returns the number of a new group of shards: not 0, and no other group has it that this process has built, or has a
/// copy of from before a fork.
pub(crate) fn new_group() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // ORDERING: Relaxed: only the number matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(not(tickwheel_loom))]
thread_local! {
    static WAY: Cell<Way> = const { Cell::new(Way::NONE) };
}

/// Returns what the calling thread remembers. Where the system destroys thread-locals without a destructor, a thread
/// remembers nothing from then on.
#[cfg(not(tickwheel_loom))]
#[inline(always)]
pub(crate) fn current() -> Way {
    WAY.try_with(Cell::get).unwrap_or(Way::NONE)
}

/// Makes the calling thread remember a way, as long as it has its present [slot](super::slot).
#[cfg(not(tickwheel_loom))]
pub(crate) fn remember(way: Way) {
    let _ = WAY.try_with(|known| known.set(way));
}

#[cfg(tickwheel_loom)]
pub(crate) use super::explored::slot::{current, remember};

/// Makes the calling thread forget its way.
pub(crate) fn forget() {
    remember(Way::NONE);
}
