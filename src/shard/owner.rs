//! The owner of a shard and its turns.
//!
//! A turn has three parts: [`Owner::begin_turn`], [`Owner::next_fired`] for each timer that fires, and
//! [`Owner::finish_turn`]. The worker and the user's event loop both drive a shard through these; there is no
//! second way. Firing is pulled rather than pushed, so a handler may use the owner again. Around the handler's call
//! come [`Owner::confirm`] and [`Owner::finish_call`]. What it schedules itself goes past the inbox.

use super::handle::{ShardHandle, WakeOwner};
use super::limit::Limit;
use super::producer::OwnTimers;
use super::word::unpack;
use crate::inbox::Reader;
use crate::node::fired::Fired;
use crate::node::moves::Move;
use crate::node::offer::{Refusal, offer};
use crate::node::table::Armed;
use crate::node::trim::Trim;
use crate::park::WakeState;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::references;
use crate::time::{Repeat, TickRate};
use crate::turn::{Settled, TurnState, Turns};
use crate::types::{Budget, Cancel, Key, ScheduleError, ScheduleErrorKind, Scheduled};
use crate::wheel::{Entry, Wheel, ZOMBIES_PER_LOOK, no_memory};
use std::sync::Arc;

/// Entries that a turn looks at in search of zombies, if there are too many, for each that it has inserted. Then a
/// sweep goes round before a third more has come, however busy the producers are and however seldom the owner runs.
const SWEPT_PER_INSERTED: usize = 4;

/// The result of a turn.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Timers fired.
    pub(crate) fired: usize,
    /// Work is left that can be done now: turn again without sleeping.
    pub(crate) more: bool,
    /// The earliest tick at which there will be something to do; `u64::MAX` if never.
    pub(crate) next: u64,
}

/// See the module.
pub(crate) struct Owner<T> {
    pub(crate) handle: Arc<ShardHandle<T>>,
    reader: Reader,
    pub(super) turns: Turns,
    /// A drain ran out of budget.
    draining: bool,
    /// Entries that the last drain inserted.
    inserted: usize,
    /// A thread has requested a turn since the last check of the zombies.
    turn_requested: bool,
    ended: bool,
    /// Entries that the owner's own moves have turned into zombies.
    superseded: u64,
    /// When the [turns are idle until](Turns::idle_until) when the counters were last told of the next deadline.
    reported: u64,
    /// How far it has got with giving the memory of free nodes back.
    trim: Trim,
    /// The node of the periodic timer that is at a call: it is kept until [`Owner::finish_call`].
    pub(super) calling: Option<u32>,
}

impl<T> Owner<T> {
    /// Creates a shard of a [group](crate::sync::way::new_group): the owner's half, which leads to the other one.
    pub(crate) fn new(
        group: u64,
        id: u16,
        limit: Option<Arc<Limit>>,
        wake_owner: WakeOwner,
        rate: &TickRate,
    ) -> Self {
        Self::with(WakeState::new(), group, id, limit, wake_owner, rate)
    }

    /// Like [`new`](Self::new); whatever the system can do, each producer executes its fences itself.
    pub(crate) fn without_membarrier(
        group: u64,
        id: u16,
        limit: Option<Arc<Limit>>,
        wake_owner: WakeOwner,
        rate: &TickRate,
    ) -> Self {
        Self::with(WakeState::fenced(), group, id, limit, wake_owner, rate)
    }

    fn with(
        wake_state: WakeState,
        group: u64,
        id: u16,
        limit: Option<Arc<Limit>>,
        wake_owner: WakeOwner,
        rate: &TickRate,
    ) -> Self {
        let reader = Reader::new();
        let inbox = Arc::clone(reader.inbox());
        let handle = ShardHandle::new(group, id, inbox, wake_state, limit, wake_owner);
        Self {
            handle: Arc::new(handle),
            reader,
            turns: Turns::new(Wheel::with_reserve(), rate),
            draining: false,
            inserted: 0,
            turn_requested: false,
            ended: false,
            superseded: 0,
            reported: 0,
            trim: Trim::default(),
            calling: None,
        }
    }

    /// Runs one turn: drains the inbox if something in it may be due, fires what is due, sweeps zombies if there are
    /// too many, all within `budget`.
    ///
    /// If `fire` panics, the timer it was called for counts as fired, and the shard stays as it should be:
    /// the next turn goes on with the next timer.
    #[cfg(test)]
    pub(crate) fn turn(
        &mut self,
        now: u64,
        budget: &Budget,
        mut fire: impl FnMut(Fired<T>),
    ) -> Turn {
        let mut turn = self.begin_turn(now, budget, false);
        while let Some(fired) = self.next_fired(&mut turn) {
            let fired = if fired.periodic {
                self.confirm(&mut turn, fired)
            } else {
                Some(fired)
            };
            let Some(fired) = fired else { continue };
            fire(fired);
            self.finish_call(|| crate::time::Time::from_nanos(now));
        }
        self.finish_turn(turn, budget)
    }

    /// Begins a turn: takes the tick, drains the inbox.
    ///
    /// `resumed`: it goes on with a turn that ran out of budget after a drain without a limit. Then it takes nothing
    /// from the inbox but what that had no memory for, so that handlers which schedule for now cannot keep this up for
    /// ever.
    pub(crate) fn begin_turn(&mut self, now: u64, budget: &Budget, resumed: bool) -> TurnState {
        let turn = self.turns.begin(now, budget.fire, resumed);
        self.handle.counters.turns.add(1);
        if !resumed || self.draining {
            self.drain(turn.now(), budget.drain);
        }
        turn
    }

    /// Returns the next timer that fires in this turn, if any; a periodic one is to be confirmed before it is handled.
    #[inline(always)] // it is the loop of every front, and a call costs a tenth of a timer
    pub(crate) fn next_fired(&mut self, turn: &mut TurnState) -> Option<Fired<T>> {
        debug_assert!(
            self.calling.is_none(),
            "a call is finished before the next one"
        );
        // Asked for each timer: the handler of the last one may have made a remote.
        let mut own = OwnTimers {
            own: self.handle.of_owner(),
            is_alone: self.is_alone(),
        };
        let fired = self.turns.next(turn, &mut own)?;
        if fired.periodic {
            self.calling = Some(fired.key.index());
        }
        Some(fired)
    }

    /// Returns whether a turn is under way: then a poll comes from one of its handlers.
    pub(crate) fn is_turning(&self) -> bool {
        self.turns.is_turning()
    }

    /// Ends a turn: sweeps, gives memory back, reports, looks ahead.
    pub(crate) fn finish_turn(&mut self, turn: TurnState, budget: &Budget) -> Turn {
        let now = turn.now();
        self.turns.end(&turn);
        let turn_requested = std::mem::take(&mut self.turn_requested);
        let sweep = std::mem::take(&mut self.inserted).saturating_mul(SWEPT_PER_INSERTED);
        let nodes = &self.handle.of_owner();
        let sweeping = self
            .turns
            .keep_bounded(nodes, turn_requested, sweep.max(budget.sweep));
        let is_busy = self.draining || turn.is_cut_short() || sweeping;
        let more = self.give_back(is_busy, budget.sweep) || is_busy;
        self.report();
        let next = if more { now } else { self.next_tick() };
        if more {
            // Of messages that are left unread only the earliest of the turn is known, which stays.
            if !self.draining {
                self.handle.counters.set_next_tick(self.turns.earliest());
            }
            self.turns.resume();
            self.handle.counters.cut_short.add(1);
        } else {
            self.report_next(now);
        }
        Turn {
            fired: turn.fired(),
            more,
            next,
        }
    }

    /// Returns whether a turn at `now` would find nothing to do.
    #[inline(always)]
    pub(crate) fn is_idle(&mut self, now: u64) -> bool {
        let next = self.turns.idle_until();
        if now >= next || now >= self.handle.wake_state.inbox_due() {
            return false;
        }
        if next < self.reported {
            self.report_next(now);
        }
        true
    }

    /// Reports when a timer is due next. What is due already waits for the next turn since a moment ago: no lag.
    #[cold]
    #[inline(never)]
    fn report_next(&mut self, now: u64) {
        self.reported = self.turns.idle_until();
        let next = self.next_due().max(now);
        self.handle.counters.set_next_tick(next);
    }

    /// Puts nodes that are free after a burst in order, and some time later gives the memory back that the burst has used:
    /// the wheel's, then that of the nodes. A piece at a time; whether there is more to do.
    fn give_back(&mut self, is_busy: bool, nodes: usize) -> bool {
        // The models do it by themselves, where it is what they are about.
        if cfg!(tickwheel_loom) {
            return false;
        }
        let Self {
            handle,
            turns,
            trim,
            ..
        } = self;
        let pending = || handle.pending();
        if !is_busy {
            let cache = &handle.of_owner().thread.cache;
            if !trim.is_at_work() || !trim.step(&handle.table, cache, nodes, pending) {
                trim.begin(&handle.table, turns.entries(), pending);
            }
        }
        if trim.is_at_work() {
            return true;
        }
        match turns.settle_spare(is_busy, trim.memory(&handle.table)) {
            Settled::Kept => return false,
            Settled::Resumes => {}
            Settled::Returned => trim.begin_return(&handle.table),
        }
        let held = turns.held_bytes() as u64;
        handle.counters.wheel_bytes.set(held);
        trim.is_at_work() || turns.gives_back_at() == 0
    }

    /// Returns the earliest tick at which there is something to do.
    pub(crate) fn next_tick(&self) -> u64 {
        self.next_due().min(self.turns.gives_back_at())
    }

    /// Returns the earliest tick at which there is something to do but give memory back after a while.
    fn next_due(&self) -> u64 {
        // A periodic timer that is at a call has no entry.
        let is_busy = || self.draining || self.calling.is_some() || self.trim.is_at_work();
        let next = if !self.turns.is_at_rest() && (self.turns.goes_on() || is_busy()) {
            0
        } else {
            self.turns.earliest()
        };
        next.min(self.handle.wake_state.inbox_due())
    }

    /// Cancels a timer of this shard, whichever thread scheduled it.
    #[inline]
    pub(crate) fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        let own = self.handle.of_owner();
        let cancel = if self.is_alone() {
            own.end_alone(key)
        } else {
            own.end(key)
        };
        if cancel.is_won() && own.count_cancelled() % ZOMBIES_PER_LOOK == 0 {
            self.look_at_zombies();
        }
        cancel
    }

    /// Cancels the timers that are pending now and gives their keys, ticks and payloads to `take`, in no particular
    /// order. O(peak number of timers).
    pub(crate) fn cancel_all(&mut self, mut take: impl FnMut(Key<T>, u64, T)) {
        let handle = Arc::clone(&self.handle);
        handle.table.for_each_pending(|key, tick| {
            if let Cancel::Won(payload) = self.cancel(key) {
                take(key, tick, payload);
            }
        });
    }

    /// Sweeps if there are too many zombies, so that the bound holds for loops, too, that seldom turn.
    #[cold]
    #[inline(never)]
    fn look_at_zombies(&mut self) {
        self.turns.look_at_zombies(&self.handle.of_owner());
    }

    /// Moves the deadline of a timer of this shard; whether it was pending.
    #[inline]
    pub(crate) fn move_to(&mut self, key: Key<T>, deadline: u64) -> bool {
        let own = self.handle.of_owner();
        let moved = if self.is_alone() {
            own.move_alone(key, deadline)
        } else {
            own.move_deadline(key, deadline)
        };
        if moved == Move::Gone {
            return false;
        }
        own.thread.moves.add(1);
        if let Move::Earlier { mark } = moved {
            self.insert_earlier(key.index(), mark, deadline);
        }
        true
    }

    /// Inserts the entry of a timer that the owner has moved to an earlier tick.
    #[inline(never)] // out of the way of moves to a later one
    fn insert_earlier(&mut self, index: u32, mark: u32, deadline: u64) {
        let Some((deadline, mark)) = self.handle.table.arrive(index, mark, deadline) else {
            return;
        };
        self.insert(Entry {
            deadline,
            index,
            mark,
        });
        self.superseded += 1;
        if self.superseded % ZOMBIES_PER_LOOK == 0 {
            self.look_at_zombies();
        }
    }

    /// Returns whether no other thread can reach the shard, whatever it did before.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        // Others get their reference from this one, on this thread, or from another that is counted here.
        let alone = references::count(&self.handle) == 1;
        if alone {
            // ORDERING: Acquire fence, pairs with the Release by which an `Arc` lets go: what the last other thread sent
            // is seen by a look at the inbox that follows. [P28]
            fence(Ordering::Acquire);
        }
        alone
    }

    /// Counts a sleep of which no other thread needs to know.
    pub(crate) fn sleep_alone(&self) {
        self.handle.counters.parks.add(1);
    }

    /// Announces the sleep that was counted by [`sleep_alone`](Self::sleep_alone), because another thread is about to
    /// reach the shard.
    pub(crate) fn announce_sleep(&self, tick: u64) -> bool {
        self.handle.wake_state.begin_sleep(tick)
    }

    /// Announces a sleep until `tick`; false if something came up meanwhile: turn again instead.
    pub(crate) fn begin_sleep(&self, tick: u64) -> bool {
        let asleep = self.handle.wake_state.begin_sleep(tick);
        if asleep {
            self.handle.counters.parks.add(1);
        }
        asleep
    }

    /// Returns whether a sleep is announced.
    pub(crate) fn is_asleep(&self) -> bool {
        self.handle.wake_state.is_asleep()
    }

    /// Ends the sleep.
    pub(crate) fn end_sleep(&self) {
        if self.handle.wake_state.end_sleep() {
            self.handle.counters.wakes.add(1);
        }
    }

    /// Returns whether the inbox asks for a turn at `now`; cheap, for owners that spin.
    pub(crate) fn is_called(&self, now: u64) -> bool {
        self.handle.wake_state.inbox_due() <= now
    }

    /// Empties the inbox into wheel and log if something in it may be due.
    fn drain(&mut self, now: u64, limit: usize) {
        let inbox_due = self.handle.wake_state.inbox_due();
        self.turn_requested |= inbox_due == 0;
        if inbox_due > now && !self.draining {
            return;
        }
        // Also when this goes on with a drain that ran out of budget: what lowered the word meanwhile is seen by
        // this one or by the next, and a word that stayed low would ask for one more turn.
        if self.draining {
            self.handle.wake_state.resume_drain();
        } else {
            self.handle.wake_state.begin_drain();
        }
        let Self {
            handle,
            reader,
            turns,
            ..
        } = self;
        let (mut dead, mut inserted, mut earliest) = (0, 0, u64::MAX);
        let nodes = handle.of_owner();
        let drained = reader.drain(limit, |message| {
            let (index, mark) = unpack(message.word);
            match handle.table.arrive(index, mark, message.tick) {
                Some((deadline, mark)) => {
                    inserted += 1;
                    earliest = earliest.min(deadline);
                    turns.insert_accepted(
                        Entry {
                            deadline,
                            index,
                            mark,
                        },
                        &nodes,
                    );
                }
                None => dead += 1,
            }
        });
        // No word tells of it any more, and a handler may hold this turn up: the lag counts from it then.
        if earliest < handle.counters.next_tick() {
            handle.counters.set_next_tick(earliest);
        }
        handle.counters.cancelled_in_inbox.add(dead);
        handle.counters.drained.add(drained.taken as u64);
        self.draining = drained.more;
        self.inserted = inserted;
    }

    /// Closes the shard: it refuses every further timer. Its [`end`](Self::end) is to follow.
    pub(crate) fn close(&self) {
        self.handle.wake_state.close();
    }

    /// Ends the shard: closes it, and returns all timers that have not ended.
    ///
    /// A timer is accepted if it was armed, and its message written, before the close; then this finds it in the
    /// table. A producer that finds the shard closed takes its timer back, if this was not faster.
    ///
    /// A second call does nothing.
    pub(crate) fn end(&mut self, mut take: impl FnMut(Fired<T>)) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // First of all, so that no timer is accepted from now on that no owner drives.
        self.close();
        self.abandon_call();
        let handle = &self.handle;
        handle
            .table
            .return_all(&handle.of_owner().thread.cache, |returned| {
                handle.count_returned();
                take(returned);
            });
        self.turns.clear();
        self.report();
        // The wheel goes with the owner, and the nodes stay with the handle.
        self.handle.counters.wheel_bytes.set(0);
    }

    /// Publishes what the shard holds.
    fn report(&self) {
        let entries = self.turns.entries();
        let (swept, dropped) = self.turns.zombies_removed();
        let counters = &self.handle.counters;
        let reported = (
            counters.entries.get(),
            counters.swept.get(),
            counters.dropped.get(),
        );
        if reported != (entries, swept, dropped) {
            counters.entries.set(entries);
            counters.swept.set(swept);
            counters.dropped.set(dropped);
            counters.wheel_bytes.set(self.turns.held_bytes() as u64);
        }
    }

    /// Arms a timer past the inbox.
    #[inline]
    pub(crate) fn schedule(&mut self, deadline: u64, payload: T) -> Scheduled<T> {
        offer(payload, |payload| {
            let armed = self
                .handle
                .of_owner()
                .arm(deadline, payload, false, false)?;
            if !self.try_insert(armed.entry(deadline)) {
                if let Some(payload) = self.take_back(armed) {
                    let kind = ScheduleErrorKind::OutOfMemory;
                    return Err(Refusal::of_taken_back(payload, kind));
                }
            }
            Ok(self.handle.key(armed))
        })
    }

    /// Takes the payload of a timer back for which there is no memory; `None` if another thread has ended the timer, which
    /// can only have guessed its key.
    #[cold]
    fn take_back(&self, armed: Armed) -> Option<T> {
        let Armed {
            index, generation, ..
        } = armed;
        self.handle.of_owner().take_back(index, generation, false)
    }

    /// Inserts an entry; false if there is no memory.
    #[inline(always)]
    fn try_insert(&mut self, entry: Entry) -> bool {
        self.turns.append(entry) || self.insert_aside(entry.deadline, entry.index, entry.mark)
    }

    /// Inserts an entry that the log's newest block does not take. Apart, so that the way to the nodes is put together
    /// only here.
    #[inline(never)]
    fn insert_aside(&mut self, deadline: u64, index: u32, mark: u32) -> bool {
        let nodes = self.handle.of_owner();
        self.turns.insert_aside(deadline, index, mark, &nodes)
    }

    /// Inserts an entry whose timer was accepted long ago; ends the process if there is no memory.
    #[inline(always)]
    pub(super) fn insert(&mut self, entry: Entry) {
        if !self.try_insert(entry) {
            no_memory();
        }
    }

    /// Like [`Producer::schedule_periodic`](super::Producer::schedule_periodic), past the inbox.
    pub(crate) fn schedule_periodic(&mut self, repeat: Repeat<T>) -> Scheduled<T> {
        let deadline = repeat.recurrence.tick();
        let armed = self.handle.of_owner().arm_periodic(repeat, false)?;
        if !self.try_insert(armed.entry(deadline)) {
            if let Some(payload) = self.take_back(armed) {
                return Err(ScheduleError::no_memory(payload));
            }
        }
        Ok(self.handle.key(armed))
    }
}
