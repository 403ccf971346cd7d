//! A producer: one thread's access to a shard.
//!
//! `Timer` routes to one, a `Remote` has the one of its shard, handles and futures find theirs
//! by the place of their timer. The owner has one, too, for the nodes that it frees.

use super::handle::{Message, ShardHandle, ThreadState};
use crate::node::moves::Move;
#[cfg(any(feature = "futures", test))]
use crate::node::moves::MoveAlone;
#[cfg(any(feature = "futures", test))]
use crate::node::offer::offer;
use crate::node::offer::{Offer, Refusal};
use crate::node::table::{Armed, Due};
use crate::park::Announced;
use crate::state::Phase;
use crate::sync::segments::MAX_SLOTS;
use crate::time::Repeat;
use crate::types::{Cancel, Key, ScheduleError, ScheduleErrorKind, Scheduled};
use crate::wheel::{Entry, Fate, Records, TimerStore, too_many};
use std::alloc::{Layout, handle_alloc_error};

/// A thread looks at the zombie bound every so many of its cancels.
const CANCELS_PER_LOOK: u64 = 4096;

/// Ends the process, because there is no memory for a thread's part of a shard.
#[cold]
pub(super) fn no_memory() -> ! {
    handle_alloc_error(Layout::new::<ThreadState>())
}

/// A shard, and the calling thread's part of it.
pub(crate) struct Producer<'a, T> {
    pub(crate) shard: &'a ShardHandle<T>,
    pub(crate) thread: &'a ThreadState,
}

impl<T> Clone for Producer<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Producer<'_, T> {}

impl<T> ShardHandle<T> {
    /// Returns the way to this shard of the thread that holds `slot`. Ends the process if there is no memory for it,
    /// which only threads beyond the first ones need: where nothing can be refused.
    #[inline]
    pub(crate) fn producer(&self, slot: u32) -> Producer<'_, T> {
        self.try_producer(slot).unwrap_or_else(|| no_memory())
    }

    /// Like [`producer`](Self::producer); `None` if there is no memory.
    #[inline]
    pub(crate) fn try_producer(&self, slot: u32) -> Option<Producer<'_, T>> {
        let thread = self.thread(slot)?;
        Some(Producer {
            shard: self,
            thread,
        })
    }

    /// Returns the owner's way to its own shard.
    #[inline]
    pub(crate) fn of_owner(&self) -> Producer<'_, T> {
        Producer {
            shard: self,
            thread: &self.owner,
        }
    }
}

impl<T> Producer<'_, T> {
    /// Arms a timer for `deadline`. Lock-free; allocates only while the table grows.
    #[inline(always)] // or what comes back goes through memory
    pub(crate) fn schedule(
        self,
        deadline: u64,
        payload: Offer<'_, T>,
        held: bool,
    ) -> Result<Armed, Refusal> {
        let armed = self.arm(deadline, payload, held)?;
        self.announce(deadline, armed, held)
    }

    /// Ends the schedule of an offered payload: tells the owner of the timer. Fails if the shard is closed, unless `stop`
    /// has found the timer and returned it: then it was accepted.
    #[inline(always)]
    fn announce(self, deadline: u64, armed: Armed, held: bool) -> Result<Armed, Refusal> {
        let Armed {
            index,
            generation,
            mark,
        } = armed;
        if !self.send(deadline, index, mark) {
            if let Some(refusal) = self.refuse_closed(index, generation, held) {
                return Err(refusal);
            }
        }
        if held {
            self.thread.handles_made.add(1);
        }
        Ok(armed)
    }

    /// Takes a timer back, because the shard is closed; `None` if `stop` has returned it already.
    #[cold]
    fn refuse_closed(self, index: u32, generation: u64, held: bool) -> Option<Refusal> {
        let payload = self.take_back(index, generation, held)?;
        Some(Refusal::of_taken_back(payload, ScheduleErrorKind::Stopped))
    }

    /// Begins a schedule: from then on there is a timer, and a slot for its message to the owner.
    #[inline(always)]
    fn arm(self, deadline: u64, payload: Offer<'_, T>, held: bool) -> Result<Armed, Refusal> {
        if self.shard.limit.is_some() || !self.thread.writer.is_ready() {
            if let Err(kind) = self.admit() {
                return Err(payload.refuse(kind));
            }
        }
        self.arm_admitted(deadline, payload, held)
    }

    /// Like [`arm`](Self::arm), once there are a slot for a message and a permit, which goes back if there is no node.
    #[inline(always)]
    fn arm_admitted(
        self,
        deadline: u64,
        payload: Offer<'_, T>,
        held: bool,
    ) -> Result<Armed, Refusal> {
        // Counted before any other thread can see the timer: the owner may fire it, or `stop` return it, at once.
        let count = || _ = self.thread.scheduled.add(1);
        self.shard
            .table
            .arm(&self.thread.cache, deadline, payload, held, count)
            .map_err(|payload| payload.refuse(self.no_node()))
    }

    /// Gives back the permit of a timer for which there was no node.
    #[cold]
    fn no_node(self) -> ScheduleErrorKind {
        self.shard.release_permit();
        if !self.shard.table.is_full() {
            return ScheduleErrorKind::OutOfMemory;
        }
        ScheduleErrorKind::OutOfNodes {
            shard: usize::from(self.shard.id),
            limit: MAX_SLOTS,
        }
    }

    /// Takes the payload of a timer back that is refused after all; `None` if another thread has ended it.
    #[cold]
    fn take_back(self, index: u32, generation: u64, held: bool) -> Option<T> {
        let Self { shard, thread } = self;
        let cancel = if held {
            shard.table.cancel_held(&thread.cache, index)
        } else {
            let cancelled = Phase::Cancelled;
            shard.table.end(&thread.cache, index, generation, cancelled)
        };
        let payload = cancel.into_payload()?;
        if held {
            shard.table.release(&thread.cache, index);
        }
        thread.scheduled.add(u64::MAX);
        shard.release_permit();
        Some(payload)
    }

    /// Ends the timer that `key` names: its payload, if the caller won. One compare-and-swap.
    #[inline]
    fn end(self, key: Key<T>) -> Cancel<T> {
        let Self { shard, thread } = self;
        shard.table.end(
            &thread.cache,
            key.index(),
            shard.table.generation(key),
            Phase::Cancelled,
        )
    }

    /// Cancels the timer that `key` names: its payload, if the caller won.
    #[inline]
    pub(crate) fn cancel(self, key: Key<T>) -> Cancel<T> {
        let cancel = self.end(key);
        if cancel.is_won() {
            self.cancelled();
        }
        cancel
    }

    /// Cancels the timers that are pending now: their keys, ticks and payloads, in no particular order. O(peak number of
    /// timers).
    pub(crate) fn cancel_all(self) -> Vec<(Key<T>, u64, T)> {
        let mut cancelled = Vec::new();
        for (key, deadline) in self.shard.table.pending_keys() {
            if let Cancel::Won(payload) = self.cancel(key) {
                cancelled.push((key, deadline, payload));
            }
        }
        cancelled
    }

    /// Like [`cancel`](Self::cancel), for the handle that holds the node.
    #[inline]
    pub(crate) fn cancel_held(self, index: u32) -> Cancel<T> {
        let cancel = self.shard.table.cancel_held(&self.thread.cache, index);
        if cancel.is_won() {
            self.cancelled();
        }
        cancel
    }

    /// Cancels the timer whose node a future holds, if it is pending, and releases the node: the future's last use of the
    /// shard. What `end` makes of the payload, if this has won.
    #[cfg(feature = "futures")]
    #[inline]
    pub(crate) fn end_held<R>(self, index: u32, end: impl FnOnce(T) -> R) -> Option<R> {
        let ended = self.shard.table.end_held(&self.thread.cache, index, end);
        if ended.is_some() {
            self.cancelled();
        }
        self.thread.handles_dropped.add(1);
        ended
    }

    /// Cancels the timer behind a handle, and schedules another one for its tick under its permit. Returns the payload of
    /// the cancelled timer and the new one's key, which is a handle's as well; `payload`, if the timer had ended.
    #[cfg(any(feature = "futures", test))]
    pub(crate) fn replace(self, index: u32, payload: T) -> Result<(T, Scheduled<T>), T> {
        let Self { shard, thread } = self;
        let deadline = shard.table.deadline(index);
        let Cancel::Won(before) = shard.table.cancel_held(&thread.cache, index) else {
            return Err(payload);
        };
        if thread.cancelled.add(1) % CANCELS_PER_LOOK == 0 {
            self.look_at_zombies();
        }
        self.release(index);
        let scheduled = offer(payload, |payload| {
            if let Err(kind) = self.prepare() {
                return Err(payload.refuse(kind));
            }
            let armed = self.arm_admitted(deadline, payload, true)?;
            Ok(shard.key(self.announce(deadline, armed, true)?))
        });
        Ok((before, scheduled))
    }

    /// Counts a cancelled timer and releases its permit; how many this thread has cancelled.
    #[inline]
    pub(crate) fn count_cancelled(self) -> u64 {
        self.shard.release_permit();
        self.thread.cancelled.add(1)
    }

    #[inline]
    fn cancelled(self) {
        if self.count_cancelled() % CANCELS_PER_LOOK == 0 {
            self.look_at_zombies();
        }
        if self.shard.is_in_test_time() {
            self.shard.request_turn();
        }
    }

    /// Wakes the owner if there are too many zombies: it may sleep for an hour while everything it holds is cancelled.
    #[cold]
    fn look_at_zombies(self) {
        let pending = self.shard.pending();
        if too_many(self.shard.counters.entries.get(), || pending) {
            self.shard.request_turn();
        }
    }

    /// Releases the node that a handle holds: the handle's last use of the shard.
    #[inline]
    pub(crate) fn release(self, index: u32) {
        self.shard.table.release(&self.thread.cache, index);
        self.thread.handles_dropped.add(1);
    }

    #[inline]
    fn move_deadline(self, key: Key<T>, deadline: u64) -> Move {
        let Self { shard, thread } = self;
        let generation = shard.table.generation(key);
        shard
            .table
            .move_to(&thread.cache, key.index(), generation, deadline)
    }

    /// Moves a deadline; whether the timer was pending. Later deadlines cost no message.
    #[inline]
    pub(crate) fn move_to(self, key: Key<T>, deadline: u64) -> bool {
        match self.move_deadline(key, deadline) {
            Move::Gone => return false,
            Move::Later | Move::Overtaken => {}
            Move::Earlier { mark } => _ = self.send_move(deadline, key.index(), mark),
        }
        self.thread.moves.add(1);
        true
    }

    /// Moves the deadline of a timer whose node the caller holds, and which no other thread moves: see
    /// [`move_alone`](crate::node::table::Table::move_alone). Returns the tick by which the owner looks at it then.
    #[cfg(any(feature = "futures", test))]
    #[inline]
    pub(crate) fn move_alone(self, index: u32, deadline: u64, look: u64) -> Option<u64> {
        let MoveAlone { mut look, tell } = self.shard.table.move_alone(index, deadline, look)?;
        if let Some(mark) = tell {
            if self.send_move(deadline, index, mark) {
                look = deadline;
            }
        }
        self.thread.moves.add(1);
        Some(look)
    }

    /// Begins a periodic timer. Lock-free; allocates once.
    pub(crate) fn schedule_periodic(self, repeat: Repeat<T>) -> Scheduled<T> {
        let deadline = repeat.recurrence.tick();
        let armed = self.arm_periodic(repeat)?;
        if !self.send(deadline, armed.index, armed.mark) {
            if let Some(payload) = self.take_back(armed.index, armed.generation, false) {
                return Err(ScheduleError::new(ScheduleErrorKind::Stopped, payload));
            }
        }
        Ok(self.shard.key(armed))
    }

    /// Arms a periodic timer, for whose message there is a slot then.
    fn arm_periodic(self, repeat: Repeat<T>) -> Scheduled<T, Armed> {
        if let Err(kind) = self.admit() {
            return Err(ScheduleError::new(kind, repeat.payload));
        }
        let count = || _ = self.thread.scheduled.add(1);
        let armed = self
            .shard
            .table
            .arm_periodic(&self.thread.cache, repeat, count);
        armed.map_err(|payload| ScheduleError::new(self.no_node(), payload))
    }

    /// Takes a permit, and makes sure that a message can be sent.
    #[inline(never)] // the error would go through memory in every schedule
    fn admit(self) -> Result<(), ScheduleErrorKind> {
        self.shard.acquire_permit()?;
        self.prepare()
    }

    /// Makes sure that a message can be sent, before anything is armed that would need it. Gives the permit back if not.
    fn prepare(self) -> Result<(), ScheduleErrorKind> {
        if self.thread.writer.is_ready() {
            return Ok(());
        }
        self.fetch_block()
            .inspect_err(|_| self.shard.release_permit())
    }

    /// Fetches the thread state's next block. The blocks of a closed shard are never emptied: a producer that goes on
    /// trying must not fill one after the other.
    fn fetch_block(self) -> Result<(), ScheduleErrorKind> {
        if self.shard.wake_state.is_closed() {
            return Err(ScheduleErrorKind::Stopped);
        }
        let Self { shard, thread } = self;
        if shard.inbox.is_long() {
            shard.request_turn();
        }
        // The waker of a loop is user code, which may have scheduled and prepared the thread state.
        if thread.writer.is_ready() {
            return Ok(());
        }
        shard
            .inbox
            .prepare(&thread.writer)
            .ok_or(ScheduleErrorKind::OutOfMemory)
    }

    /// Hands an entry to the owner, and wakes it if it must not sleep on; false if the shard is closed.
    ///
    /// The thread state must be prepared. It does not unwind; once per block it may come to the allocator, see
    /// [`Inbox::prepare`](crate::inbox::Inbox::prepare).
    #[inline(always)] // of every schedule
    fn send(self, deadline: u64, index: u32, mark: u32) -> bool {
        let Self { shard, thread } = self;
        thread.writer.write(Message::new(index, mark).0);
        let list = || shard.list(thread);
        let Announced { wake, closed } = shard.wake_state.notify(deadline, list);
        shard.wake(wake);
        !closed
    }

    /// Tells the owner of an earlier deadline. Until it knows, and if it never does, the old entry stands; false if it is
    /// not told, for lack of memory.
    fn send_move(self, deadline: u64, index: u32, mark: u32) -> bool {
        // A closed shard is no loss: `stop` finds the timer in the table.
        let is_sent = self.thread.writer.is_ready() || self.fetch_block().is_ok();
        if is_sent {
            self.thread.moves_sent.add(1);
            let _ = self.send(deadline, index, mark);
        }
        is_sent
    }
}

impl<T> Records for Producer<'_, T> {
    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        self.shard.table.is_live(entry.index, entry.mark)
    }

    #[inline]
    fn prefetch(&self, entry: &Entry) {
        self.shard.table.prefetch(entry.index);
    }

    fn pending(&self) -> u64 {
        self.shard.pending()
    }
}

/// The owner's: a step of its turn.
impl<T> TimerStore for Producer<'_, T> {
    type Fired = Due<T>;

    #[inline]
    fn prefetch_due(&self, entry: &Entry) {
        self.shard.table.prefetch_whole(entry.index);
    }

    #[inline(always)] // as `Wheel::next`, whose one step it is
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Due<T>> {
        let Self { shard, thread } = *self;
        let Entry { index, mark, .. } = entry;
        let fate = shard.table.due(&thread.cache, index, mark, now);
        if matches!(fate, Fate::Fire(Due::Once(_))) {
            // The permit is back before the handler runs, so that it can schedule at the limit.
            shard.release_permit();
            shard.counters.fired.add(1);
        }
        fate
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::{ShardHandle, offer};
    use crate::shard::Owner;
    use crate::sync::way;
    use crate::time::TickRate;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock, Weak};

    /// An owner that sleeps until a producer wakes it.
    fn sleeping(wake: impl Fn() -> bool + Send + Sync + 'static) -> Owner<u64> {
        let owner = Owner::new(
            way::new_group(),
            0,
            None,
            Box::new(wake),
            &TickRate::new(1_000_000),
        );
        assert!(owner.begin_sleep(u64::MAX), "nothing is due");
        owner
    }

    #[test]
    fn producers_do_not_rely_on_a_failed_wake() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let owner = sleeping(move || counted.fetch_add(1, Ordering::SeqCst) >= 2);
        let handle = owner.handle;
        for (tick, called) in [(5, 1), (6, 2), (5, 3), (4, 3)] {
            let _ = offer(0, |it| handle.producer(0).schedule(tick, it, false)).unwrap();
            assert_eq!(
                calls.load(Ordering::SeqCst),
                called,
                "the third call is the first to wake"
            );
        }
    }

    /// The owner is faster than the call that has woken it: it has risen and sleeps again when that returns.
    #[test]
    fn producers_do_not_rely_on_a_wake_from_an_earlier_sleep() {
        let (calls, shard) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let (counted, inside): (_, Arc<OnceLock<Weak<ShardHandle<u64>>>>) =
            (Arc::clone(&calls), Arc::clone(&shard));
        let owner = sleeping(move || {
            if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                let shard = inside.get().and_then(Weak::upgrade).unwrap();
                assert!(shard.wake_state.end_sleep());
                shard.wake_state.begin_drain(|| ());
                assert!(shard.wake_state.begin_sleep(50));
            }
            true
        });
        assert!(shard.set(Arc::downgrade(&owner.handle)).is_ok());
        for (tick, called) in [(5, 1), (60, 1), (6, 2), (4, 2)] {
            let _ = offer(0, |it| owner.handle.producer(0).schedule(tick, it, false)).unwrap();
            assert_eq!(calls.load(Ordering::SeqCst), called, "for tick {tick}");
        }
    }
}
