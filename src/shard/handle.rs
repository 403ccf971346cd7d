//! The parts of a shard that several threads use: what all of them share, each thread's own part, and a message to the
//! owner.

use crate::inbox::{Inbox, Writer};
use crate::node::limit::Limit;
use crate::node::magazine::ThreadCache;
use crate::node::table::{Armed, Table};
use crate::park::{Wake, WakeCall, WakeState};
use crate::state::State;
use crate::stats::{Counter, Counters};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::segments::{Segments, Zeroable};
use crate::types::{Key, ScheduleErrorKind};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// How a producer ends the owner's sleep: the current one, or the next if the owner is not asleep yet. Says whether it
/// has: if not, the next producer tries. Neither blocks nor unwinds.
pub(crate) type WakeOwner = Box<dyn Fn() -> bool + Send + Sync>;

/// The shared half of a shard.
pub(crate) struct ShardHandle<T> {
    /// The number of the engine or loop that the shard belongs to: see `sync::way`.
    pub(super) group: u64,
    /// The number of the shard in its group.
    pub(crate) id: u16,
    pub(crate) table: Table<T>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) wake_state: WakeState,
    pub(crate) counters: Counters,
    pub(super) limit: Option<Arc<Limit>>,
    threads: Segments<CachePadded<ThreadState>>,
    /// One past the highest thread state in use.
    threads_end: AtomicU32,
    wake_owner: WakeOwner,
    /// Its time is a test's, which jumps to the end of a sleep: a cancel requests a turn, which may find a later end.
    #[cfg(feature = "__test-clock")]
    is_in_test_time: AtomicBool,
    /// The owner's own part, which is not among the threads'.
    pub(super) owner: CachePadded<ThreadState>,
}

impl<T> ShardHandle<T> {
    pub(super) fn new(
        group: u64,
        id: u16,
        inbox: Arc<Inbox>,
        wake_state: WakeState,
        limit: Option<Arc<Limit>>,
        wake_owner: WakeOwner,
    ) -> Self {
        let threads = Segments::new();
        // The places of the first threads: what some of their calls do cannot be refused.
        threads.get_or_alloc(0);
        Self {
            group,
            id,
            table: Table::new(id, u64::MAX),
            inbox,
            wake_state,
            counters: Counters::default(),
            limit,
            threads,
            threads_end: AtomicU32::new(0),
            wake_owner,
            #[cfg(feature = "__test-clock")]
            is_in_test_time: AtomicBool::new(false),
            owner: CachePadded::default(),
        }
    }

    #[cfg(all(test, not(tickwheel_loom)))]
    pub(crate) fn is_fenced(&self) -> bool {
        self.wake_state.is_fenced()
    }

    /// Returns the part of the thread that holds `slot`; `None` if there is no memory for it.
    #[inline]
    pub(super) fn thread(&self, slot: u32) -> Option<&ThreadState> {
        let thread = self.threads.try_get_or_alloc(slot)?;
        // ORDERING: Relaxed: only the slot's holder reads and writes the flag.
        if !thread.joined.load(Ordering::Relaxed) {
            self.join(slot, thread);
        }
        Some(thread)
    }

    #[cold]
    fn join(&self, slot: u32, thread: &ThreadState) {
        // ORDERING: Relaxed: as in `thread`.
        thread.joined.store(true, Ordering::Relaxed);
        // ORDERING: Relaxed: a reader that must see this thread's counts has this before it; see `threads_sum`.
        self.threads_end.fetch_max(slot + 1, Ordering::Relaxed);
    }

    /// Returns the key of a timer that was armed here.
    #[inline]
    pub(crate) fn key(&self, armed: Armed) -> Key<T> {
        self.table.key(armed.index, armed.generation)
    }

    /// Returns the key of the timer that a node is held for.
    #[inline]
    pub(crate) fn held_key(&self, index: u32) -> Key<T> {
        self.table
            .key(index, self.table.held_state(index).generation())
    }

    /// Returns the state behind a key, if it is not stale.
    #[inline]
    pub(crate) fn state(&self, key: Key<T>) -> Option<State> {
        self.table.state(key.index(), self.table.generation(key))
    }

    /// Returns whether the timer that a key names has not ended.
    #[inline]
    pub(crate) fn is_pending(&self, key: Key<T>) -> bool {
        self.state(key).is_some_and(State::is_live)
    }

    /// Returns the deadline of the timer that a key names, if it has not ended.
    pub(crate) fn deadline_of(&self, key: Key<T>) -> Option<u64> {
        self.table
            .deadline_of(key.index(), self.table.generation(key))
    }

    /// Lets time be a test's, if `is_in_test_time`, before other threads know the shard.
    #[cfg(feature = "__test-clock")]
    pub(crate) fn set_test_time(&self, is_in_test_time: bool) {
        // ORDERING: Relaxed: who shows other threads the shard orders it.
        self.is_in_test_time
            .store(is_in_test_time, Ordering::Relaxed);
    }

    /// Returns whether time is a test's, which jumps to the end of the sleep that the owner announces.
    #[inline(always)]
    pub(crate) fn is_in_test_time(&self) -> bool {
        #[cfg(feature = "__test-clock")]
        // ORDERING: Relaxed: written before other threads know the shard.
        return self.is_in_test_time.load(Ordering::Relaxed);
        #[cfg(not(feature = "__test-clock"))]
        false
    }

    /// Makes the owner turn now. For the engine, whose workers are not woken by anything of the user's.
    pub(crate) fn request_turn(&self) {
        self.wake(self.wake_state.request_turn());
    }

    #[inline]
    pub(super) fn wake(&self, wake: Wake) {
        if let Wake::Needed(call) = wake {
            self.end_sleep(call);
        }
    }

    #[cold]
    fn end_sleep(&self, call: WakeCall) {
        // Where it has not been woken no producer may rely on it: the next one calls, too.
        if (self.wake_owner)() {
            self.wake_state.called(call);
        }
    }

    /// Wakes the owner even if it does not sleep by the handshake; for a clock that was moved by hand.
    pub(crate) fn unpark(&self) {
        let _ = (self.wake_owner)();
    }

    /// Takes a permit, if there is one.
    #[inline]
    pub(crate) fn acquire_permit(&self) -> Result<(), ScheduleErrorKind> {
        match &self.limit {
            Some(limit) if !limit.acquire() => Err(limit.refusal()),
            _ => Ok(()),
        }
    }

    /// Gives a permit back.
    #[inline]
    pub(crate) fn release_permit(&self) {
        if let Some(limit) = &self.limit {
            limit.release();
        }
    }

    /// Counts a timer that the owner has returned, and gives its permit back.
    pub(crate) fn count_returned(&self) {
        self.counters.returned.add(1);
        self.release_permit();
    }

    /// Returns the sum of one counter over all threads. O(threads).
    pub(super) fn threads_sum(&self, counter: impl Fn(&ThreadState) -> u64) -> u64 {
        let mut sum = 0u64;
        // ORDERING: Relaxed: a reader that has seen an end of a timer, or that no more handles are made, is behind
        // their beginnings, and so behind the joining of the threads that count those. A thread that is missed
        // besides has counted nothing that the caller can know of.
        let end = self.threads_end.load(Ordering::Relaxed);
        self.threads.for_each(u64::from(end), |_, thread| {
            sum = sum.wrapping_add(counter(thread))
        });
        sum
    }

    /// Has the next drain read the messages of one of the shard's thread states, if it would not.
    #[inline(always)]
    pub(super) fn list(&self, thread: &ThreadState) {
        // SAFETY: thread states stay where they are as long as the shard, which the reader's owner keeps.
        unsafe { self.inbox.list(&thread.writer) };
    }
}

/// The part of a shard that belongs to one thread at a time.
///
/// A thread's slot number picks its thread state. The slot is exclusive (see `sync::slot`), so a thread state has one
/// writer: its counters need no read-modify-write, its thread cache and its writer no synchronisation. A thread
/// state whose thread has ended is inherited, nodes, open block, counts and all, by the next thread with that
/// slot.
#[derive(Default)]
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
    pub(crate) moves: Counter,
    /// Owned handles, and futures of engines that are not static, that were made through this thread state.
    pub(crate) handles_made: Counter,
    /// Those of any thread that this thread has dropped. Written as each one's last access to the engine.
    pub(crate) handles_dropped: Counter,
    /// Whether the thread state has been counted among those in use.
    pub(crate) joined: AtomicBool,
}

// SAFETY: every part is an atomic integer, bool or pointer, for which zero bytes mean zero, false or null.
unsafe impl Zeroable for CachePadded<ThreadState> {}

/// A message to the owner: an entry's node and mark in 63 bits. A mark's lowest bit is always set: the timer lives.
#[derive(Clone, Copy)]
pub(super) struct Message(pub(super) u64);

impl Message {
    #[inline]
    pub(super) fn new(index: u32, mark: u32) -> Self {
        Self(u64::from(mark >> 1) << 32 | u64::from(index))
    }

    /// Returns the node's index and the mark.
    #[inline]
    pub(super) fn entry(self) -> (u32, u32) {
        (self.0 as u32, ((self.0 >> 31) | 1) as u32)
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_any_node_and_any_living_mark() {
        for (index, mark) in [(0, u32::MAX), (1, 3), (1 << 31, 1), (u32::MAX, 5)] {
            assert_eq!(Message::new(index, mark).entry(), (index, mark));
        }
    }
}
