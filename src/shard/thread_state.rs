//! A thread state: the part of a shard that belongs to one thread at a time.
//!
//! A thread's slot number picks its thread state. The slot is exclusive (see `sync::slot`), so a thread state has one
//! writer: its counters need no read-modify-write, its thread cache and its writer no synchronisation. A thread
//! state whose thread has ended is inherited, nodes, open block, counts and all, by the next thread with that
//! slot.

use crate::inbox::Writer;
use crate::node::magazine::ThreadCache;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::segments::Zeroable;
use crossbeam_utils::CachePadded;

/// A counter with one writer and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds one and returns the new value. Single writer.
    #[inline]
    pub(crate) fn bump(&self) -> u64 {
        self.add(1)
    }

    /// Adds `n` and returns the new value. Single writer.
    #[inline]
    pub(crate) fn add(&self, n: u64) -> u64 {
        // ORDERING: Relaxed load: only this thread writes. Release store pairs with the Acquire in `get`, so
        // that a reader of an end (fired, cancelled) and then a beginning (scheduled) sees the beginning [P11], and
        // a thread that sees a handle counted as dropped is behind everything that was done through it [P20].
        let value = self.0.load(Ordering::Relaxed).wrapping_add(n);
        self.0.store(value, Ordering::Release);
        value
    }

    /// Takes one back. Single writer.
    pub(crate) fn undo(&self) {
        self.add(u64::MAX);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // ORDERING: Acquire pairs with `add` [P11], [P20].
        self.0.load(Ordering::Acquire)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ThreadState {
    pub(crate) cache: ThreadCache,
    /// Its open block of the inbox.
    pub(crate) writer: Writer,
    /// Timers accepted through this thread state.
    pub(crate) scheduled: Counter,
    /// Timers cancelled through this thread state.
    pub(crate) cancelled: Counter,
    /// Of the deadlines moved, those of which the owner was told.
    pub(crate) moves_sent: Counter,
    /// Deadlines moved through this thread state.
    pub(crate) moved: Counter,
    /// Owned handles made of timers that were accepted through this thread state.
    pub(crate) handles_made: Counter,
    /// Owned handles, of any thread's timers, that this thread has dropped. Written as the last access to the engine.
    pub(crate) handles_dropped: Counter,
    /// Whether the thread state has been counted among those in use.
    pub(crate) joined: AtomicBool,
}

// SAFETY: every part is an atomic integer, bool or pointer, for which zero bytes mean zero, false or null.
unsafe impl Zeroable for CachePadded<ThreadState> {}
