//! Where the owner is in its turn: threads that wait for the end of a handler ask for it.
//!
//! The owner names each entry before it decides about it, and the next one only when the handler of this one has
//! returned. So a thread that has found a timer ended, and then finds another entry here, or none, is behind that
//! timer's handler. The owner pays a store for that, and threads that never wait pay nothing.

use super::word::unpack;
use crate::state::is_mark_of;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread;

/// Tells an entry of node 0 from no entry.
const IS_SET: u64 = 1 << 63;

/// See the module.
#[derive(Default)]
pub(crate) struct Current {
    /// Mark and node of the entry; 0 for none.
    entry: AtomicU64,
    /// The number of the thread that takes the turn; 0 between turns. A loop has no other mark of it. A berth has one of
    /// its own, because ends and hooks count as inside of an engine, too.
    thread: AtomicU64,
}

impl Current {
    /// Notes that the calling thread begins a turn.
    pub(super) fn begin_turn(&self) {
        // ORDERING: Relaxed, here and below: a thread asks for its own number only, which it has written itself.
        self.thread.store(thread::number(), Ordering::Relaxed);
    }

    /// Names the entry that the owner is about to decide, by the 63 bits of a message; what came before it is done.
    #[inline]
    pub(super) fn begin(&self, word: u64) {
        self.set(IS_SET | word);
    }

    /// Notes that the turn is over, if there is one.
    pub(super) fn end_turn(&self) {
        self.set(0);
        // ORDERING: Relaxed: as in `begin_turn`.
        self.thread.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn set(&self, entry: u64) {
        // ORDERING: Release pairs with `at`: a thread that finds this is behind the handler before it. [P47]
        self.entry.store(entry, Ordering::Release);
    }

    /// Returns what the owner is at, if it is an entry of this node's timer, by as much of the generation as a mark has.
    /// The next entry of the node differs from it.
    pub(super) fn at(&self, index: u32, generation: u64) -> Option<u64> {
        // ORDERING: Acquire pairs with `set`. [P47]
        let entry = self.entry.load(Ordering::Acquire);
        let (node, mark) = unpack(entry);
        let is_its = entry & IS_SET != 0 && node == index && is_mark_of(mark, generation);
        is_its.then_some(entry)
    }

    /// Returns whether the calling thread takes the turn: one of its handlers may be what asks.
    pub(super) fn is_inside(&self) -> bool {
        // ORDERING: Relaxed: as in `begin_turn`.
        self.thread.load(Ordering::Relaxed) == thread::number()
    }
}
