//! The turns over a wheel.
//!
//! [`Turns`] hand out one fired timer at a time ([`Turns::next`]), so the caller can run a handler that uses the timer
//! again, and a handler that panics leaves nothing half done.

use super::{Fate, TimerStore, TurnState};
use crate::time::TickRate;
use crate::wheel::{Entry, Records, SWEEP_PER_LOOK, Wheel, no_memory};
use alloc::vec::Vec;

/// Entries asked of the wheel at a time: enough to amortise the call, few enough to stay in cache.
const BATCH: usize = 256;

/// Entries that may be inserted out of the log for the price of settling one.
const INSERTED_PER_SETTLED: usize = 4;

/// What becomes of memory that is spare: the wheel's, and that of its owner's nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spare {
    /// There was none at the end of the last turn.
    No,
    /// It is kept in case a burst repeats, and goes back from this tick on.
    KeptUntil(u64),
    /// It goes back as soon as a sweep is over, which may make more of it.
    GoesBack,
}

/// What the memory of an owner's nodes is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeMemory {
    /// None of it is spare.
    InUse,
    /// Some is spare, but most of what was spare the last time is in use again.
    #[cfg(feature = "threads")]
    UsedAgain,
    /// Some is spare.
    Spare,
}

/// The answer of [`Turns::settle_spare`].
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Nothing is to be done now.
    Kept,
    /// The next turn goes on.
    Resumes,
    /// The wheel has no spare memory any more; the nodes' memory may go back now.
    Returned,
}

/// A wheel, and the turn over it that is under way.
pub(crate) struct Turns {
    wheel: Wheel,
    /// Due entries taken from the wheel; those before `due_next` are done.
    due: Vec<Entry>,
    due_next: usize,
    /// On-time entries that were taken since the backlog last had its share.
    ahead: usize,
    /// A turn is under way, so a handler may be running.
    is_turning: bool,
    /// The latest tick that a turn has seen: a clock that goes back makes timers late, nothing else.
    latest: u64,
    /// See [`idle_until`](Turns::idle_until), but for what the log's newest block has. 0 from the beginning of a turn
    /// until it has found all that is due, and as long as something is to be done at once.
    idle_until: u64,
    /// See [`earliest`](Turns::earliest), but for the log's newest block; known only while `idle_until` is not 0.
    earliest: u64,
    /// Zombies dropped because they came due, since the beginning.
    dropped: u64,
    /// For how many ticks spare memory is kept: a second, or one tick if that is longer. Bursts repeat within a second
    /// or not at all.
    keep: u64,
    spare: Spare,
}

impl Turns {
    pub(crate) fn new(wheel: Wheel, rate: &TickRate) -> Self {
        Self {
            wheel,
            due: Vec::with_capacity(BATCH),
            due_next: 0,
            ahead: 0,
            is_turning: false,
            latest: 0,
            idle_until: 0,
            earliest: 0,
            dropped: 0,
            keep: rate.per_second(),
            spare: Spare::No,
        }
    }

    /// Begins a turn at the tick `now` in which up to `budget` entries are looked at; [`end`](Self::end) ends it.
    /// `resumed`: the last turn ran out of budget. Entries deferred since then wait for the next turn.
    pub(crate) fn begin(&mut self, now: u64, budget: usize, resumed: bool) -> TurnState {
        self.is_turning = true;
        if !resumed {
            self.wheel.insert_deferred();
        }
        self.latest = self.latest.max(now);
        self.idle_until = 0;
        self.wheel.log.follow(self.latest);
        TurnState::new(self.latest, budget)
    }

    /// Ends the turn that is under way.
    #[inline]
    pub(crate) fn end(&mut self, turn: &TurnState) {
        self.is_turning = false;
        self.wheel.count_fired(turn.fired());
    }

    /// Returns the tick before which a turn has nothing to do: nothing is due, no sweep goes on, and nothing waits for
    /// the next turn. It is at or before [`earliest`](Self::earliest). Until then an owner that asks for a turn is like
    /// one that sleeps.
    #[inline(always)]
    pub(crate) fn idle_until(&self) -> u64 {
        // What is scheduled goes to the log's newest block, which knows its earliest deadline anyway.
        self.idle_until.min(self.wheel.log.tail_min())
    }

    /// Returns the earliest deadline of all entries, those that wait for the next turn included; `u64::MAX` for none.
    /// Earlier than that after an entry was removed before it came due. O(1).
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        if self.idle_until > 0 {
            return self.earliest.min(self.wheel.log.tail_min());
        }
        self.find_earliest()
    }

    fn find_earliest(&self) -> u64 {
        let due = self.due[self.due_next..].iter().map(|entry| entry.deadline);
        let earliest = due.chain(self.wheel.earliest()).min();
        earliest
            .unwrap_or(u64::MAX)
            .min(self.wheel.earliest_deferred())
    }

    /// Notes that a turn has found all that is due; `earliest` is what the wheel says.
    #[inline]
    fn rest(&mut self, earliest: u64) {
        self.earliest = earliest;
        // The log wants a turn somewhat before what is sealed there is due.
        self.idle_until = earliest.min(self.wheel.log.idle_until());
    }

    /// Notes that the turn which has ended leaves something to do at once.
    #[inline]
    pub(crate) fn resume(&mut self) {
        self.idle_until = 0;
    }

    /// Notes a deadline that comes to the wheel between two turns.
    #[inline]
    fn expect(&mut self, deadline: u64) {
        self.idle_until = self.idle_until.min(deadline);
        self.earliest = self.earliest.min(deadline);
    }

    /// Returns whether a sweep goes on: the next turn takes a piece of it, whatever is due.
    #[inline]
    pub(crate) fn is_sweeping(&self) -> bool {
        self.wheel.is_sweeping()
    }

    /// Returns whether a turn is under way: then a poll comes from one of its handlers.
    #[inline]
    pub(crate) fn is_turning(&self) -> bool {
        self.is_turning
    }

    /// Inserts the entry of a timer that the owner schedules, perhaps from a handler; false if there is no memory.
    /// O(1).
    ///
    /// It fires behind older entries of its tick. In a turn that has come to its tick it waits for the next one.
    #[inline(always)]
    #[must_use]
    pub(crate) fn insert(&mut self, entry: Entry, records: &impl Records) -> bool {
        self.append(entry) || self.insert_aside(entry.deadline, entry.index, entry.mark, records)
    }

    /// Does the usual case of [`insert`](Self::insert): the entry goes to the log's newest block. False if the other
    /// one, [`insert_aside`](Self::insert_aside), is to insert it.
    #[inline(always)]
    #[must_use]
    pub(crate) fn append(&mut self, entry: Entry) -> bool {
        self.wheel.log.admits(entry.deadline) && self.wheel.log.push(entry)
    }

    /// Inserts an entry that is due soon, or that finds the log's newest block full. Apart, and in three words, so that
    /// the entry of the usual case stays in registers: what one case passes by reference lies in memory for all of
    /// them.
    #[inline(never)]
    #[must_use]
    pub(crate) fn insert_aside(
        &mut self,
        deadline: u64,
        index: u32,
        mark: u32,
        records: &impl Records,
    ) -> bool {
        let entry = Entry {
            deadline,
            index,
            mark,
        };
        if self.wheel.log.admits(deadline) {
            self.make_room(records);
            self.idle_until = 0;
            if self.wheel.log.admits(deadline) {
                return self.wheel.insert_behind(entry);
            }
        }
        self.expect(deadline);
        if self.is_turning && deadline <= self.latest {
            self.wheel.defer(entry)
        } else {
            self.wheel.try_insert(entry)
        }
    }

    /// Inserts the entry of a timer that was accepted before this turn's handlers; ends the process if there is no
    /// memory.
    ///
    /// It fires behind older entries of its tick, in this turn if it is due.
    #[inline]
    pub(crate) fn insert_accepted(&mut self, entry: Entry, records: &impl Records) {
        if self.wheel.log.is_full() && !self.wheel.log.may_bypass(entry.deadline) {
            self.make_room(records);
        }
        if self.wheel.log.may_bypass(entry.deadline) {
            self.wheel.insert(entry);
        } else if !self.wheel.insert_behind(entry) {
            no_memory();
        }
    }

    /// Makes room for an entry in the log, if there is memory.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, records: &impl Records) {
        self.wheel.make_room(records);
        if self.wheel.log.is_full() {
            self.wheel.insert_all();
        }
        self.wheel.log.follow(self.latest);
    }

    /// Returns the next timer that fires in this turn.
    #[inline(always)] // of every fire: 30 instructions of it
    pub(crate) fn next<S: TimerStore>(
        &mut self,
        turn: &mut TurnState,
        store: &mut S,
    ) -> Option<S::Fired> {
        loop {
            while let Some(&entry) = self.due.get(self.due_next) {
                if !turn.spend_one() {
                    return None;
                }
                self.due_next += 1;
                match store.decide(entry, turn.now()) {
                    Fate::Fire(fired) => {
                        turn.count_fired();
                        return Some(fired);
                    }
                    // It would be due in this turn again.
                    Fate::Reinsert { .. } if self.is_at_last_tick() => {}
                    Fate::Reinsert { tick, mark } => {
                        let again = Entry {
                            deadline: tick,
                            mark,
                            ..entry
                        };
                        self.insert_accepted(again, store);
                    }
                    Fate::Drop => self.dropped += 1,
                }
            }
            if !self.refill(store, turn) {
                let earliest = self.wheel.earliest();
                // With nothing left none is, also at the last tick, at which a shutdown fires everything.
                if earliest.is_some_and(|earliest| earliest <= turn.now()) {
                    turn.cut_short();
                } else if !self.wheel.has_deferred() {
                    self.rest(earliest.unwrap_or(u64::MAX));
                }
                return None;
            }
        }
    }

    /// Takes the next due entries from the wheel; false if there are none, or the budget is used up.
    fn refill<S: TimerStore>(&mut self, store: &S, turn: &mut TurnState) -> bool {
        self.due.clear();
        self.due_next = 0;
        let now = turn.now();
        while turn.left() > 0 {
            let mut to = now;
            if self.wheel.log.idle_until() <= now {
                let limit = turn.left().saturating_mul(INSERTED_PER_SETTLED);
                let taken = self.leave_log(store, now, limit);
                // At least one stays, so that the smallest budget makes headway with any entries.
                turn.spend((taken / INSERTED_PER_SETTLED).min(turn.left() - 1));
                // What the budget has left there comes before all that is due then.
                if self.wheel.log.len() > 0 {
                    to = now.min(self.wheel.log.earliest().saturating_sub(1));
                }
            }
            let more = self.take_due(to, BATCH.min(turn.left()));
            if !self.due.is_empty() {
                for entry in &self.due {
                    store.prefetch_due(entry);
                }
                return true;
            }
            if !more {
                return false;
            }
            // A cascade is under way: it counts against the budget like the entries it moves.
            turn.spend(BATCH);
        }
        false
    }

    /// Inserts what may be due at `now` in the log, or a piece of it, and says how many entries that took.
    #[cold]
    #[inline(never)]
    fn leave_log(&mut self, records: &impl Records, now: u64, limit: usize) -> usize {
        let taken = self.wheel.insert_due(now, limit, records);
        self.wheel.log.follow(self.latest);
        taken
    }

    /// Takes up to `limit` due entries from the wheel, and says whether there may be more.
    ///
    /// While there is a backlog it gets as many entries as what is due in time, a batch each by turns, and all if
    /// nothing else is due: a burst and what comes after it slow each other down by half, and neither stops the other.
    fn take_due(&mut self, now: u64, limit: usize) -> bool {
        let Self {
            wheel, due, ahead, ..
        } = self;
        if *ahead < BATCH || !wheel.has_backlog() {
            let more = wheel.advance(now, limit, due);
            if !wheel.has_backlog() {
                *ahead = 0;
                return more;
            }
            *ahead += due.len();
            if more || !due.is_empty() {
                return true;
            }
        }
        wheel.take_backlog(limit, due);
        *ahead = ahead.saturating_sub(due.len());
        true
    }

    /// Sweeps a piece if there are too many zombies; whether the sweep goes on.
    ///
    /// The number of pending timers is asked only when that [may be](Wheel::may_exceed_bound), or when `requested`,
    /// because a thread has seen many cancels.
    pub(crate) fn keep_bounded(
        &mut self,
        records: &impl Records,
        requested: bool,
        budget: usize,
    ) -> bool {
        let may_sweep = requested || self.wheel.may_exceed_bound();
        may_sweep && self.sweep(records, requested, budget)
    }

    #[cold]
    #[inline(never)]
    fn sweep(&mut self, records: &impl Records, requested: bool, budget: usize) -> bool {
        // What was scheduled after the turn had found all that is due may leave the log's newest block here.
        self.expect(self.wheel.log.tail_min());
        self.wheel.keep_bounded(records, requested, budget)
    }

    /// Sweeps a piece, because the owner itself has made [`ZOMBIES_PER_LOOK`](crate::wheel::ZOMBIES_PER_LOOK) zombies.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_zombies(&mut self, records: &impl Records) {
        self.keep_bounded(records, true, SWEEP_PER_LOOK);
        // A turn goes on with the sweep, or with what is to be done after one.
        self.idle_until = 0;
    }

    /// Decides about spare memory at the end of a turn: it is kept for a while in case a burst repeats, and then goes
    /// back a piece at a time. `is_busy`: the turn leaves something to do that comes first. `nodes`: whether those
    /// of the owner have spare memory.
    #[inline]
    pub(crate) fn settle_spare(&mut self, is_busy: bool, nodes: NodeMemory) -> Settled {
        let in_use = !self.wheel.has_spare();
        if in_use && nodes != NodeMemory::Spare && self.spare != Spare::GoesBack {
            // A burst repeats, or there was none.
            self.spare = Spare::No;
            if nodes == NodeMemory::InUse {
                return Settled::Kept;
            }
        }
        if is_busy {
            return Settled::Kept;
        }
        self.keep_or_give_back()
    }

    #[cold]
    #[inline(never)]
    fn keep_or_give_back(&mut self) -> Settled {
        match self.spare {
            Spare::No => {
                let until = self.latest.saturating_add(self.keep);
                self.spare = Spare::KeptUntil(until);
                self.idle_until = self.idle_until.min(until);
                Settled::Kept
            }
            Spare::KeptUntil(until) if self.latest < until => {
                self.idle_until = self.idle_until.min(until);
                Settled::Kept
            }
            Spare::KeptUntil(_) => {
                self.wheel.begin_sweep();
                self.spare = Spare::GoesBack;
                Settled::Resumes
            }
            Spare::GoesBack if self.wheel.has_spare() => {
                self.wheel.give_back();
                Settled::Resumes
            }
            Spare::GoesBack => {
                self.spare = Spare::No;
                Settled::Returned
            }
        }
    }

    /// Returns the tick at which spare memory goes back; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn gives_back_at(&self) -> u64 {
        match self.spare {
            Spare::No => u64::MAX,
            Spare::KeptUntil(until) => until,
            Spare::GoesBack => 0,
        }
    }

    /// Gives the wheel's spare memory back at once.
    pub(crate) fn give_back(&mut self) {
        while self.wheel.has_spare() {
            self.wheel.give_back();
        }
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        self.idle_until = 0;
        self.wheel.clear();
        self.due.clear();
        (self.due_next, self.ahead) = (0, 0);
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.wheel.held_bytes()
    }

    /// Returns whether the last tick has come, at which a shutdown fires everything. A periodic timer is due at no
    /// later one: it stays without an entry, and the end of the shard returns it.
    pub(crate) fn is_at_last_tick(&self) -> bool {
        self.latest == u64::MAX
    }
}

/// The methods that a shard needs and a local timer does not.
#[cfg(feature = "threads")]
impl Turns {
    /// Returns whether no turn is under way, and the last one has left nothing to do before
    /// [`idle_until`](Self::idle_until).
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.idle_until > 0 && !self.is_turning
    }

    /// Returns whether a turn has something to do at once, whatever the time is: the rest of one that was cut short,
    /// what waits for the next one, a sweep.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        let waiting = self.due_next < self.due.len() || self.wheel.has_deferred();
        waiting || self.is_sweeping()
    }

    /// Entries inserted, zombies included.
    pub(crate) fn entries(&self) -> u64 {
        (self.wheel.len() + self.due.len() - self.due_next) as u64
    }

    /// Zombies removed by sweeps, and zombies dropped when they came due.
    pub(crate) fn zombies_removed(&self) -> (u64, u64) {
        (self.wheel.removed(), self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::{BLOCK, MOST_YOUNG};

    /// Timers that all fire. None of them is said to be pending, so the log seals what it gets.
    struct All;

    impl Records for All {
        fn is_live(&self, _: &Entry) -> bool {
            true
        }

        fn prefetch(&self, _: &Entry) {}

        fn pending(&self) -> u64 {
            0
        }
    }

    impl TimerStore for All {
        type Fired = u64;

        fn decide(&mut self, entry: Entry, now: u64) -> Fate<u64> {
            assert!(entry.deadline <= now);
            Fate::Fire(entry.deadline)
        }
    }

    /// Timers that all live, or have all ended, and how often a turn has asked for their number.
    struct Asked {
        live: bool,
        asked: core::cell::Cell<usize>,
    }

    impl Records for Asked {
        fn is_live(&self, _: &Entry) -> bool {
            self.live
        }

        fn prefetch(&self, _: &Entry) {}

        fn pending(&self) -> u64 {
            self.asked.set(self.asked.get() + 1);
            if self.live { TIMERS } else { 0 }
        }
    }

    /// Returns turns over a wheel whose rings hold `count` entries, for far deadlines, of timers that live.
    fn far_entries(count: u32) -> (Turns, Asked) {
        let (live, asked) = (true, core::cell::Cell::new(0));
        let timers = Asked { live, asked };
        let mut turns = Turns::new(Wheel::new(), &TickRate::new(1_000_000));
        for index in 0..count {
            let entry = Entry {
                deadline: 100 * END + u64::from(index),
                index,
                mark: 1,
            };
            assert!(turns.insert(entry, &timers));
        }
        turns.wheel.insert_all();
        (turns, timers)
    }

    /// Summing up the pending timers costs as much as there are threads.
    #[test]
    fn a_turn_asks_for_no_number_of_timers_where_nothing_has_changed() {
        let (mut turns, timers) = far_entries(TIMERS as u32);
        assert!(!turns.keep_bounded(&timers, true, 100), "not too many");
        timers.asked.set(0);
        for now in 1..100 {
            let turn = turns.begin(now, 100, false);
            turns.end(&turn);
            assert!(!turns.keep_bounded(&timers, false, 100));
        }
        assert_eq!(timers.asked.get(), 0);
    }

    /// There are fewer of them than are always tolerated, and each may keep a piece of memory.
    #[test]
    fn zombies_are_swept_before_memory_goes_back() {
        let (mut turns, mut timers) = far_entries(1_000);
        timers.live = false;
        let mut settle = |now| {
            let turn = turns.begin(now, 100, false);
            turns.end(&turn);
            let is_busy = turns.keep_bounded(&timers, false, 100);
            let settled = turns.settle_spare(is_busy, NodeMemory::Spare);
            (settled == Settled::Returned, turns.wheel.len())
        };
        assert_eq!(settle(1), (false, 1_000), "it is kept for a second");
        let mut rounds = (0..100).map(|_| settle(END));
        assert_eq!(rounds.find(|(returned, _)| *returned), Some((true, 0)));
    }

    const TIMERS: u64 = 40_000;
    const END: u64 = 100_000;

    /// Returns turns over a wheel whose log holds nearly all of the timers. The latest came first, so that the log's
    /// oldest blocks, which leave it first, are due last.
    fn latest_first() -> Turns {
        let mut turns = Turns::new(Wheel::new(), &TickRate::new(1_000_000));
        for nth in 0..TIMERS {
            let entry = Entry {
                deadline: END - nth,
                index: nth as u32,
                mark: 1,
            };
            assert!(turns.insert(entry, &All));
        }
        turns
    }

    #[test]
    fn deadlines_left_in_the_log_by_a_budget_come_before_later_ones_in_the_wheel() {
        let mut turns = latest_first();
        let mut fired = Vec::new();
        while fired.len() < TIMERS as usize {
            let mut turn = turns.begin(END, 100, !fired.is_empty());
            fired.extend(core::iter::from_fn(|| turns.next(&mut turn, &mut All)));
            turns.end(&turn);
        }
        assert!(fired.is_sorted());
    }

    #[test]
    fn a_turn_takes_no_more_out_of_the_log_than_its_budget_pays_for() {
        const BUDGET: usize = 4096;
        // It takes whole blocks, and the young ones all at once.
        const FREE: usize = (1 + MOST_YOUNG) * BLOCK;
        let mut turns = latest_first();
        let (mut all, mut taken_turns) = (0, 0);
        while all < TIMERS as usize {
            let before = turns.wheel.log.len();
            let mut turn = turns.begin(END, BUDGET, taken_turns > 0);
            let fired = core::iter::from_fn(|| turns.next(&mut turn, &mut All)).count();
            turns.end(&turn);
            let taken = before - turns.wheel.log.len();
            // One timer is settled in any case.
            let paid = taken.saturating_sub(FREE) / INSERTED_PER_SETTLED + fired;
            assert!(paid <= BUDGET + 1, "{taken} taken and {fired} fired");
            (all, taken_turns) = (all + fired, taken_turns + 1);
        }
    }

    /// What it must not overtake has left the log for the wheel when room was made.
    #[test]
    fn an_accepted_entry_follows_an_older_one_out_of_the_log() {
        let entry = |deadline, index| Entry {
            deadline,
            index,
            mark: 1,
        };
        let mut turns = Turns::new(Wheel::new(), &TickRate::new(1_000_000));
        let soon = END / 2;
        assert!(turns.insert(entry(soon, 0), &All));
        let mut index = 1;
        while !turns.wheel.log.is_full() || turns.wheel.log.len() < MOST_YOUNG * BLOCK {
            let far = entry(100 * END, index);
            assert!(turns.insert(far, &All));
            index += 1;
        }
        let mut turn = turns.begin(soon - 1, 100, false);
        assert!(turns.next(&mut turn, &mut All).is_none());
        turns.end(&turn);
        turns.insert_accepted(entry(soon, index), &All);
        let mut turn = turns.begin(soon, 100, false);
        let fired = core::iter::from_fn(|| turns.next(&mut turn, &mut All)).count();
        assert_eq!(fired, 2);
    }
}
