//! The owner of a shard: it takes turns, sleeps between them, and ends the shard.
//!
//! An engine's thread (`crew::step`, `crew::shard_worker`) and a loop (`event_loop::timer`) both call, in this order:
//!
//! | call | what it does |
//! |---|---|
//! | [`begin_turn`](Owner::begin_turn) | takes the tick, and drains the inbox into the wheel |
//! | [`next_in_turn`](Owner::next_in_turn) | gives the next timer that is due; a loop has `next_of_all`, for its own as well |
//! | [`expired`](Owner::expired) | says how late it is, for its handler |
//! | [`call`](Owner::call), [`finish_call`](Owner::finish_call) | come around the handler of a periodic timer |
//! | [`finish_turn`](Owner::finish_turn) | sweeps, gives memory back, publishes figures, says when the next turn is due |
//! | [`begin_sleep`](Owner::begin_sleep), [`end_sleep`](Owner::end_sleep) | announce a sleep, and its end |
//! | [`end`](Owner::end) | closes the shard and returns its timers; the last call |
//!
//! Firing is pulled rather than pushed, so a handler may use the owner again. What it schedules in a loop is inserted
//! here ([`try_insert`](Owner::try_insert)), and in an engine goes through the inbox like other threads'.

use super::handle::{Message, ShardHandle, WakeOwner};
use super::own::{AllTimers, NoOwn, Own};
use super::stats::LastFired;
use crate::inbox::Reader;
use crate::node::limit::Limit;
use crate::node::table::{Due, Fired};
use crate::node::trim::Trim;
use crate::park::WakeState;
use crate::time::{Recurrence, TickRate, Time};
use crate::types::{Budget, Key, Polled};
use crate::wheel::{Entry, Settled, Wheel, no_memory};
use std::sync::Arc;

/// Entries that a turn looks at in search of zombies, if there are too many, for each that it has inserted. Then a
/// sweep goes round before a third more has come, however busy the producers are and however seldom the owner runs.
const SWEPT_PER_INSERTED: usize = 4;

/// See the module.
pub(crate) struct Owner<T, O = NoOwn> {
    pub(crate) handle: Arc<ShardHandle<T>>,
    /// The timers of its thread alone.
    pub(crate) own: O,
    reader: Reader,
    pub(crate) wheel: Wheel,
    /// A drain ran out of budget.
    draining: bool,
    /// Entries that the last drain inserted.
    inserted: usize,
    /// A thread has requested a turn since the last check of the zombies.
    turn_requested: bool,
    ended: bool,
    /// When the [wheel is idle until](Wheel::idle_until) when the counters were last told of the next deadline.
    reported: u64,
    /// How far it has got with giving the memory of free nodes back.
    trim: Trim,
    pub(super) last_fired: LastFired,
    /// The timer that is being called, if its pause begins at the end of the call.
    pub(crate) resting: Option<(Key<T>, Recurrence)>,
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
        Self::with(NoOwn, WakeState::new(), group, id, limit, wake_owner, rate)
    }

    /// Like [`new`](Self::new), but each producer executes its fences itself, even if the system could do it for them.
    pub(crate) fn without_membarrier(
        group: u64,
        id: u16,
        limit: Option<Arc<Limit>>,
        wake_owner: WakeOwner,
        rate: &TickRate,
    ) -> Self {
        let wake_state = WakeState::fenced();
        Self::with(NoOwn, wake_state, group, id, limit, wake_owner, rate)
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
    ) -> Polled {
        self.begin_turn(now, budget, false);
        let time = Time::from_nanos(now);
        while let Some(due) = self.next_in_turn() {
            let fired = match due {
                Due::Once(fired) => Some(fired),
                Due::Every { index, mark } => self.call(index, mark, time).map(|call| call.0),
            };
            fired.into_iter().for_each(&mut fire);
            self.finish_call(|| time);
        }
        self.finish_turn(budget)
    }

    /// Returns the next timer that is due in this turn, if any.
    #[inline(always)] // it is the loop of every front, and a call costs a tenth of a timer
    pub(crate) fn next_in_turn(&mut self) -> Option<Due<T>> {
        self.wheel.next(&mut self.handle.of_owner())
    }
}

impl<T, O: Own> Owner<T, O> {
    /// Like [`new`](Owner::new), for a thread that has timers of its own.
    pub(crate) fn with(
        own: O,
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
            own,
            reader,
            wheel: Wheel::with_reserve(rate),
            draining: false,
            inserted: 0,
            turn_requested: false,
            ended: false,
            reported: 0,
            trim: Trim::default(),
            last_fired: LastFired::of(0, Time::ZERO, rate),
            resting: None,
        }
    }

    /// Begins a turn: takes the tick, and empties the inbox into wheel and log if something in it may be due.
    ///
    /// `resumed`: it goes on with a turn that ran out of budget after a drain without a limit. Then it takes nothing
    /// from the inbox, so that handlers which schedule for now cannot keep this up for ever.
    pub(crate) fn begin_turn(&mut self, now: u64, budget: &Budget, resumed: bool) {
        let now = self.wheel.begin_turn(now, budget, resumed);
        self.handle.counters.turns.add(1);
        if resumed {
            return;
        }
        let inbox_due = self.handle.wake_state.inbox_due();
        self.turn_requested |= inbox_due == 0;
        if inbox_due > now && !self.draining {
            return;
        }
        let Self {
            handle,
            own,
            reader,
            wheel,
            ..
        } = self;
        let news = handle.wake_state.begin_drain(|| reader.collect());
        let (mut dead, mut inserted, mut earliest) = (0, 0, u64::MAX);
        let shard = handle.of_owner();
        let timers = AllTimers { shard, own };
        let drained = reader.read(news, budget.drain, |word| {
            let (index, mark) = Message(word).entry();
            match handle.table.arrive(index, mark) {
                Some((deadline, mark)) => {
                    inserted += 1;
                    earliest = earliest.min(deadline);
                    wheel.accept(
                        Entry {
                            deadline,
                            index,
                            mark,
                        },
                        &timers,
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

    /// Returns whether a turn is under way: then a poll comes from one of its handlers.
    pub(crate) fn is_turning(&self) -> bool {
        self.wheel.is_turning()
    }

    /// Ends a turn: sweeps, gives memory back, reports. Where no more is left, [`next_tick`](Self::next_tick) says when
    /// there is something to do.
    pub(crate) fn finish_turn(&mut self, budget: &Budget) -> Polled {
        let turn_requested = std::mem::take(&mut self.turn_requested);
        let sweep = std::mem::take(&mut self.inserted).saturating_mul(SWEPT_PER_INSERTED);
        let timers = AllTimers {
            shard: self.handle.of_owner(),
            own: &mut self.own,
        };
        let mut polled = self
            .wheel
            .end_turn(&timers, turn_requested, sweep.max(budget.sweep));
        let is_busy = self.draining || polled.more;
        polled.more = self.give_back(is_busy, budget.sweep) || is_busy;
        self.report();
        if polled.more {
            // Of messages that are left unread only the earliest of the turn is known, which stays.
            if !self.draining {
                self.handle
                    .counters
                    .set_next_tick(self.wheel.next_deadline());
            }
            self.wheel.be_busy();
            self.handle.counters.cut_short.add(1);
        } else {
            self.report_next(self.wheel.now());
        }
        polled
    }

    /// Returns whether a turn at `now` would find nothing to do.
    #[inline(always)]
    pub(crate) fn is_idle(&mut self, now: u64) -> bool {
        let next = self.wheel.idle_until();
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
        self.reported = self.wheel.idle_until();
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
            own,
            wheel,
            trim,
            ..
        } = self;
        if !is_busy {
            let own = own.pending();
            let pending = || handle.pending().saturating_sub(own);
            let cache = &handle.of_owner().thread.cache;
            if !trim.is_at_work() || !trim.step(&handle.table, cache, nodes, pending) {
                let entries = wheel.entries().saturating_sub(own);
                trim.begin(&handle.table, entries, pending);
            }
        }
        if trim.is_at_work() {
            return true;
        }
        let resumes = match wheel.settle_spare(is_busy, trim.memory(&handle.table)) {
            Settled::Kept => return false,
            Settled::Resumes => true,
            Settled::Returned => {
                trim.begin_return(&handle.table);
                trim.is_at_work()
            }
        };
        self.report_bytes();
        resumes
    }

    /// Returns the earliest tick at which there is something to do.
    pub(crate) fn next_tick(&self) -> u64 {
        self.next_due().min(self.wheel.gives_back_at())
    }

    /// Returns the earliest tick at which there is something to do but give memory back after a while.
    fn next_due(&self) -> u64 {
        let is_busy = || self.draining || self.trim.is_at_work();
        let next = if self.wheel.idle_until() == 0 && (self.wheel.goes_on() || is_busy()) {
            0
        } else {
            self.wheel.next_deadline()
        };
        next.min(self.handle.wake_state.inbox_due())
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
        let handle = &self.handle;
        handle
            .table
            .return_all(&handle.of_owner().thread.cache, |returned| {
                handle.count_returned();
                take(returned);
            });
        self.wheel.clear();
        self.report();
        // The wheel goes with the owner, and the nodes stay with the handle.
        self.handle.counters.owner_bytes.set(0);
    }

    /// Publishes what the shard holds.
    fn report(&self) {
        let entries = self.wheel.entries();
        let (swept, dropped) = self.wheel.zombies_removed();
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
            self.report_bytes();
        }
    }

    /// Publishes the bytes that the owner holds.
    pub(crate) fn report_bytes(&self) {
        let held = self.wheel.held_bytes() + self.own.held_bytes();
        self.handle.counters.owner_bytes.set(held as u64);
    }

    /// Inserts an entry of a timer that was accepted long ago; ends the process if there is no memory.
    pub(crate) fn insert(&mut self, entry: Entry) {
        if !self.try_insert(entry) {
            no_memory();
        }
    }

    /// Inserts the entry of a timer; false if there is no memory.
    #[inline(always)]
    #[must_use]
    pub(crate) fn try_insert(&mut self, entry: Entry) -> bool {
        self.wheel.push(entry) || self.insert_aside(entry.deadline, entry.index, entry.mark)
    }

    /// Inserts an entry that the log's newest block does not take. Apart, so that the way to the nodes is put together
    /// only here.
    #[inline(never)]
    fn insert_aside(&mut self, deadline: u64, index: u32, mark: u32) -> bool {
        let timers = AllTimers {
            shard: self.handle.of_owner(),
            own: &mut self.own,
        };
        self.wheel.insert_aside(deadline, index, mark, &timers)
    }

    /// Sweeps if there are too many zombies, so that the bound holds for owners, too, that seldom turn.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_zombies(&mut self) {
        let timers = AllTimers {
            shard: self.handle.of_owner(),
            own: &mut self.own,
        };
        self.wheel.look_at_zombies(&timers);
    }
}
