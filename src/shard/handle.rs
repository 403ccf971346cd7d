//! What any thread may do with a shard.

use super::counters::Counters;
use super::limit::Limit;
use super::thread_state::ThreadState;
use crate::drive::too_many;
use crate::inbox::Inbox;
use crate::node::exchange::NotExchanged;
use crate::node::moves::Rescheduled;
use crate::node::table::{Armed, Table};
use crate::park::WakeState;
use crate::state::{Phase, State};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::segments::{MAX_SLOTS, Segments};
use crate::types::{Key, ScheduleError, ScheduleErrorKind};
use crossbeam_utils::CachePadded;
use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;

/// A thread looks at the zombie bound every so many of its cancels.
pub(super) const CANCELS_PER_LOOK: u64 = 4096;

/// How a producer ends the owner's sleep: the current one, or the next if the owner is not asleep yet. Says whether it
/// has: if not, others try. Neither blocks nor unwinds.
pub(crate) type WakeOwner = Box<dyn Fn() -> bool + Send + Sync>;

/// Beginnings and ends of a shard's timers: no end is among them without its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    pub(crate) scheduled: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) returned: u64,
}

impl Sums {
    /// Those that have not ended. Exact when nothing is going on; otherwise it may count timers that ended while the
    /// sums were taken.
    pub(crate) const fn pending(self) -> u64 {
        self.scheduled.saturating_sub(self.fired + self.cancelled + self.returned)
    }
}

/// See the module.
pub(crate) struct ShardHandle<T> {
    pub(super) id: u16,
    pub(super) table: Table<T>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) wake_state: WakeState,
    pub(super) counters: Counters,
    pub(super) limit: Option<Arc<Limit>>,
    threads: Segments<CachePadded<ThreadState>>,
    /// One past the highest thread state in use.
    threads_end: AtomicU32,
    pub(super) wake_owner: WakeOwner,
}

impl<T> ShardHandle<T> {
    pub(super) fn new(
        id: u16,
        inbox: Arc<Inbox>,
        limit: Option<Arc<Limit>>,
        wake_owner: WakeOwner,
    ) -> Self {
        let threads = Segments::new();
        // The places of the first threads: what some of their calls do cannot be refused.
        threads.get_or_alloc(0);
        Self {
            id,
            table: Table::new(id, u64::MAX),
            inbox,
            wake_state: WakeState::new(),
            counters: Counters::default(),
            limit,
            threads,
            threads_end: AtomicU32::new(0),
            wake_owner,
        }
    }

    /// Whether a key can be one of this shard's. The engine looks keys up by their shard and need not ask.
    #[inline]
    pub(crate) fn owns(&self, key: Key<T>) -> bool {
        key.shard() == usize::from(self.id)
    }

    /// The name of one of this shard's timers.
    #[inline]
    pub(super) fn key(&self, index: u32, generation: u64) -> Key<T> {
        self.table.key(index, generation)
    }

    /// The thread state of the thread that holds `slot`. Ends the process if there is no memory for it, which only
    /// threads beyond the first ones need: where nothing can be refused.
    #[inline]
    pub(crate) fn thread(&self, slot: u32) -> &ThreadState {
        self.try_thread(slot).unwrap_or_else(|| handle_alloc_error(Layout::new::<ThreadState>()))
    }

    /// As [`thread`](Self::thread); `None` if there is no memory.
    #[inline]
    pub(crate) fn try_thread(&self, slot: u32) -> Option<&ThreadState> {
        let thread = self.threads.try_get_or_alloc(slot)?;
        // ORDERING: Relaxed: only the slot's holder reads and writes the flag.
        if !thread.joined.load(Ordering::Relaxed) {
            self.join(slot, thread);
        }
        Some(thread)
    }

    #[cold]
    fn join(&self, slot: u32, thread: &ThreadState) {
        // ORDERING: Relaxed: as in `try_thread`.
        thread.joined.store(true, Ordering::Relaxed);
        // ORDERING: Relaxed: whoever must know of what this thread counts has this before it; see `threads_sum`.
        self.threads_end.fetch_max(slot + 1, Ordering::Relaxed);
    }

    /// As [`schedule`](Self::schedule), on the thread that holds `slot`.
    #[inline]
    pub(crate) fn schedule_by(
        &self,
        slot: u32,
        deadline: u64,
        payload: T,
        held: bool,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let Some(thread) = self.try_thread(slot) else {
            return Err(ScheduleError::no_memory(payload));
        };
        self.schedule(thread, deadline, payload, held)
    }

    /// Arms a timer for `deadline`. Lock-free; allocates only while the table grows.
    #[inline(always)] // or what comes back goes through memory
    pub(crate) fn schedule(
        &self,
        thread: &ThreadState,
        deadline: u64,
        payload: T,
        held: bool,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let armed = self.arm(thread, deadline, payload, held)?;
        if !self.send(thread, deadline, armed.index, armed.mark) {
            if let Some(payload) = self.take_back(thread, armed, held) {
                return Err(ScheduleError::new(ScheduleErrorKind::Stopped, payload));
            }
            // `stop` has found the timer and returned it: it was accepted after all.
        }
        Ok(self.key(armed.index, armed.generation))
    }

    /// The first part of a schedule: there is a timer, and a slot for its message to the owner.
    #[inline(always)]
    pub(super) fn arm(
        &self,
        thread: &ThreadState,
        deadline: u64,
        payload: T,
        held: bool,
    ) -> Result<Armed, ScheduleError<T>> {
        if let Err(kind) = self.acquire_permit().and_then(|()| self.prepare(thread)) {
            return Err(ScheduleError::new(kind, payload));
        }
        // Counted before anybody can see the timer: the owner may fire it, or `stop` return it, at once.
        let count = || _ = thread.scheduled.bump();
        self.table
            .arm(&thread.cache, deadline, payload, held, count)
            .map_err(|payload| self.no_node(payload))
    }

    /// There was no node for a timer; gives its permit back.
    #[cold]
    pub(super) fn no_node(&self, payload: T) -> ScheduleError<T> {
        self.release_permit();
        if !self.table.is_full() {
            return ScheduleError::no_memory(payload);
        }
        let shard = usize::from(self.id);
        ScheduleError::new(ScheduleErrorKind::OutOfNodes { shard, limit: MAX_SLOTS }, payload)
    }

    /// The shard is closed: take the timer's payload back, unless `stop` has returned it already.
    #[cold]
    pub(super) fn take_back(&self, thread: &ThreadState, armed: Armed, held: bool) -> Option<T> {
        let payload = if held {
            let payload = self.table.cancel_held(&thread.cache, armed.index)?;
            self.table.release(&thread.cache, armed.index);
            payload
        } else {
            self.table.end(&thread.cache, armed.index, armed.generation, Phase::Cancelled)?
        };
        thread.scheduled.undo();
        self.release_permit();
        Some(payload)
    }

    /// Cancels the timer that `key` names: its payload, if the caller won. One compare-and-swap.
    #[inline]
    pub(crate) fn cancel(&self, thread: &ThreadState, key: Key<T>) -> Option<T> {
        let (index, generation) = (key.index(), self.table.generation(key));
        let payload = self.table.end(&thread.cache, index, generation, Phase::Cancelled);
        if payload.is_some() {
            self.count_cancel(thread);
        }
        payload
    }

    /// As [`ShardHandle::cancel`] for the `Timeout` that holds the node.
    #[inline]
    pub(crate) fn cancel_held(&self, thread: &ThreadState, index: u32) -> Option<T> {
        let payload = self.table.cancel_held(&thread.cache, index);
        if payload.is_some() {
            self.count_cancel(thread);
        }
        payload
    }

    /// Gives the timer behind a handle, if it is pending, another payload; the earlier one.
    pub(crate) fn exchange(
        &self,
        thread: &ThreadState,
        key: Key<T>,
        payload: T,
    ) -> Result<T, NotExchanged<T>> {
        let exchanged = self.table.exchange(key.index(), self.table.generation(key), payload);
        if let Err(NotExchanged { left: Some(_), .. }) = &exchanged {
            // Whoever has ended the timer got nothing for it: its end is counted here.
            self.count_cancel(thread);
        }
        exchanged
    }

    #[inline]
    fn count_cancel(&self, thread: &ThreadState) {
        self.release_permit();
        if thread.cancelled.bump() % CANCELS_PER_LOOK == 0 {
            self.look_at_zombies(thread);
        }
    }

    /// The owner may sleep for an hour while everything it holds is cancelled: call it before that.
    #[cold]
    fn look_at_zombies(&self, thread: &ThreadState) {
        let pending = self.pending();
        if too_many(self.counters.entries.get(), || pending) {
            self.request_turn_by(thread);
        }
    }

    /// A `Timeout` lets go of its node.
    #[inline]
    pub(crate) fn release(&self, thread: &ThreadState, index: u32) {
        self.table.release(&thread.cache, index);
    }

    /// The state of the timer that a node is held for.
    #[inline]
    pub(crate) fn held_state(&self, index: u32) -> State {
        self.table.held_state(index)
    }

    /// The key of the timer that a node is held for.
    #[inline]
    pub(crate) fn held_key(&self, index: u32) -> Key<T> {
        self.key(index, self.held_state(index).generation())
    }

    /// Moves a deadline; whether the timer was pending. Later deadlines cost no message.
    #[inline]
    pub(crate) fn reschedule(&self, thread: &ThreadState, key: Key<T>, deadline: u64) -> bool {
        match self.table.reschedule(
            &thread.cache,
            key.index(),
            self.table.generation(key),
            deadline,
        ) {
            Rescheduled::Gone => return false,
            Rescheduled::Later | Rescheduled::Overtaken => {}
            Rescheduled::Earlier { mark } => self.send_move(thread, deadline, key.index(), mark),
        }
        thread.moved.bump();
        true
    }

    /// The state behind a key, if it is not stale.
    #[inline]
    pub(crate) fn state(&self, key: Key<T>) -> Option<State> {
        self.table.state(key.index(), self.table.generation(key))
    }

    /// The deadline of the timer that a key names, if it has not ended.
    pub(crate) fn deadline_of(&self, key: Key<T>) -> Option<u64> {
        self.table.deadline_of(key.index(), self.table.generation(key))
    }

    /// The deadline of a timer whose node the caller holds.
    pub(crate) fn deadline(&self, index: u32) -> u64 {
        self.table.deadline(index)
    }

    /// Takes a permit, if there is one.
    #[inline]
    pub(super) fn acquire_permit(&self) -> Result<(), ScheduleErrorKind> {
        match &self.limit {
            Some(limit) if !limit.acquire() => Err(limit.refusal()),
            _ => Ok(()),
        }
    }

    /// Gives a permit back.
    #[inline]
    pub(super) fn release_permit(&self) {
        if let Some(limit) = &self.limit {
            limit.release();
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sum of one counter over all threads. O(threads).
    fn threads_sum(&self, counter: impl Fn(&ThreadState) -> u64) -> u64 {
        let mut sum = 0u64;
        // ORDERING: Relaxed: whoever has seen an end of a timer, or that no more handles are made, is behind their
        // beginnings, and so behind the joining of the threads that count those. A thread that is missed besides has
        // counted nothing that the caller can know of.
        let end = self.threads_end.load(Ordering::Relaxed);
        self.threads.for_each(u64::from(end), |_, thread| sum = sum.wrapping_add(counter(thread)));
        sum
    }

    /// Timers accepted so far. O(threads).
    fn scheduled(&self) -> u64 {
        self.threads_sum(|thread| thread.scheduled.get()) + self.counters.own_scheduled.get()
    }

    /// Timers cancelled so far. O(threads).
    fn cancelled(&self) -> u64 {
        self.threads_sum(|thread| thread.cancelled.get()) + self.counters.own_cancelled.get()
    }

    /// Deadlines moved so far. O(threads).
    pub(crate) fn moved(&self) -> u64 {
        self.threads_sum(|thread| thread.moved.get()) + self.counters.own_moved.get()
    }

    /// Beginnings and ends so far. O(threads).
    pub(crate) fn sums(&self) -> Sums {
        // Ends before beginnings, so that no timer's end is counted without its beginning. [P11]
        let (fired, returned) = (self.counters.fired.get(), self.counters.returned.get());
        let cancelled = self.cancelled();
        Sums { fired, returned, cancelled, scheduled: self.scheduled() }
    }

    /// Timers that have been accepted and have not ended. O(threads).
    pub(crate) fn pending(&self) -> u64 {
        self.sums().pending()
    }

    /// Messages sent and not drained. O(threads).
    pub(super) fn unread(&self) -> u64 {
        let drained = self.counters.drained.get();
        let sent = self.threads_sum(|thread| thread.scheduled.get() + thread.moves_sent.get());
        sent.saturating_sub(drained)
    }

    /// The earliest tick that the owner, as of its last turn, or the inbox knows of; `u64::MAX` for none.
    pub(super) fn earliest(&self) -> u64 {
        if self.wake_state.is_closed() {
            return u64::MAX;
        }
        // A zero asks for a turn, and is no deadline.
        let inbox_due = self.wake_state.inbox_due().wrapping_sub(1).saturating_add(1);
        inbox_due.min(!self.counters.next.get())
    }

    /// Owned handles made and not dropped. Exact once no more are made; before that it may be too large. O(threads).
    pub(crate) fn handles_left(&self) -> u64 {
        let dropped = self.threads_sum(|thread| thread.handles_dropped.get());
        self.threads_sum(|thread| thread.handles_made.get()).wrapping_sub(dropped)
    }

    /// Bytes held by nodes, magazines and, as of the last turn, the wheel.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.table.held_bytes() as u64 + self.counters.wheel_bytes.get()
    }
}
