//! The wheel's part of a turn.
//!
//! The [`Driver`] hands out one fired timer at a time ([`Driver::next`]), so the caller can run a handler that uses the
//! timer again, and a handler that panics leaves nothing half done.

use super::{Fate, TimerStore, TurnState};
use crate::wheel::{Entry, Records, SWEEP_PER_LOOK, Wheel, no_memory};
use alloc::vec::Vec;

/// Entries asked of the wheel at a time: enough to amortise the call, few enough to stay in cache.
const BATCH: usize = 256;

/// Entries that may be inserted out of the log for the price of settling one.
const INSERTED_PER_SETTLED: usize = 4;

/// See the module.
pub(crate) struct Driver {
    wheel: Wheel,
    /// Due entries taken from the wheel; those before `due_next` are done.
    due: Vec<Entry>,
    due_next: usize,
    /// Entries in time that came since as many of the backlog did.
    ahead: usize,
    /// A turn is under way, so a handler may be running.
    is_turning: bool,
    /// The latest tick that a turn has seen: a clock that goes back makes timers late, nothing else.
    latest: u64,
    /// Turns before this tick have nothing to do, unless something earlier has come to the log since: see
    /// [`idle_until`](Driver::idle_until). 0 from the beginning of a turn until it has found all that is due, and as long
    /// as something is to be done at once.
    idle_until: u64,
    /// The earliest deadline then, the log's newest block left out again; known only while `idle_until` is not 0.
    next: u64,
    /// Zombies dropped because they came due, since the beginning.
    dropped: u64,
}

impl Driver {
    pub(crate) fn new(wheel: Wheel) -> Self {
        Self {
            wheel,
            due: Vec::with_capacity(BATCH),
            due_next: 0,
            ahead: 0,
            is_turning: false,
            latest: 0,
            idle_until: 0,
            next: 0,
            dropped: 0,
        }
    }

    /// Begins a turn at the tick `now` in which up to `budget` entries are looked at; [`end_turn`](Self::end_turn) ends
    /// it. `resumed`: it goes on with a turn that ran out of budget, so deferred entries wait for the next one.
    pub(crate) fn begin_turn(&mut self, now: u64, budget: usize, resumed: bool) -> TurnState {
        self.is_turning = true;
        if !resumed {
            self.wheel.insert_deferred();
        }
        self.latest = self.latest.max(now);
        self.idle_until = 0;
        self.wheel.log.follow(self.latest);
        TurnState::new(self.latest, budget)
    }

    /// Ends the turn that is under way, which has fired so many timers.
    #[inline]
    pub(crate) fn end_turn(&mut self, fired: usize) {
        self.is_turning = false;
        self.wheel.count_fired(fired);
    }

    /// Returns the tick before which a turn has nothing to do: nothing is due, no sweep goes on, and nothing waits for
    /// the next turn. Until then an owner that asks for a turn is like one that sleeps.
    #[inline(always)]
    pub(crate) fn idle_until(&self) -> u64 {
        // What is scheduled goes to the log's newest block, which knows its earliest deadline anyway.
        self.idle_until.min(self.wheel.log.earliest_in_tail())
    }

    /// Notes that a turn has found all that is due, and leaves nothing to do before the tick `next`.
    #[inline]
    fn rest(&mut self, next: u64) {
        self.next = next;
        // The log wants a turn somewhat before what is sealed there is due.
        self.idle_until = next.min(self.wheel.log.insert_at());
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
        self.next = self.next.min(deadline);
    }

    /// Returns the earliest deadline of all entries, if no turn is needed to know it, nor under way.
    #[inline]
    fn known_next(&self) -> Option<u64> {
        (self.idle_until > 0 && !self.is_turning)
            .then(|| self.next.min(self.wheel.log.earliest_in_tail()))
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

    /// Inserts the entry of a timer that the owner schedules, perhaps from a handler. O(1).
    ///
    /// False if the log's last block is full or there is no memory: then call [`make_room`](Self::make_room).
    #[inline(always)]
    #[must_use]
    pub(crate) fn insert(&mut self, entry: Entry) -> bool {
        if self.wheel.log.admits(entry.deadline) {
            return self.wheel.log.push(entry);
        }
        self.insert_due_soon(entry.deadline, entry.index, entry.mark)
    }

    /// Inserts an entry after all that [`insert`](Self::insert) has found no room for it; false if there is no memory.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub(crate) fn make_room<S: TimerStore>(&mut self, entry: Entry, store: &S) -> bool {
        self.make_room_in_log(store);
        self.idle_until = 0;
        if self.insert(entry) {
            return true;
        }
        // Without memory for a single block in the log there is nothing that it could overtake.
        let overtakes = !self.wheel.log.admits(entry.deadline) || self.wheel.log.len() > 0;
        !overtakes && self.wheel.try_insert(entry)
    }

    #[cold]
    #[inline(never)]
    fn make_room_in_log(&mut self, records: &impl Records) {
        self.wheel.make_room(records);
        if self.wheel.log.is_full() {
            self.wheel.insert_all();
        }
        self.wheel.log.follow(self.latest);
    }

    /// Inserts an entry that is due soon. Apart, and in three words, so that the entry of the usual case stays in
    /// registers: what one case passes by reference lies in memory for all of them.
    #[inline(never)]
    fn insert_due_soon(&mut self, deadline: u64, index: u32, mark: u32) -> bool {
        let entry = Entry {
            deadline,
            index,
            mark,
        };
        self.expect(deadline);
        if self.is_turning && entry.deadline <= self.latest {
            self.wheel.deferred.push(entry)
        } else {
            self.wheel.try_insert(entry)
        }
    }

    /// Inserts the entry of a timer that was accepted before this turn's handlers, in which it fires if it is due.
    #[inline]
    pub(crate) fn insert_accepted<S: TimerStore>(&mut self, entry: Entry, store: &S) {
        if self.wheel.log.may_bypass(entry.deadline) {
            self.wheel.insert(entry);
        } else if !self.wheel.log.push(entry) {
            self.insert_in_made_room(entry, store);
        }
    }

    /// Inserts the entry of a timer that was accepted earlier when the log's last block was full; not past an older one
    /// of its tick that is still there.
    #[cold]
    #[inline(never)]
    fn insert_in_made_room<S: TimerStore>(&mut self, entry: Entry, store: &S) {
        self.make_room_in_log(store);
        if self.wheel.log.len() == 0 || self.wheel.log.may_bypass(entry.deadline) {
            self.wheel.insert(entry);
        } else if !self.wheel.log.push(entry) {
            no_memory();
        }
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
                if turn.left == 0 {
                    turn.cut_short = true;
                    return None;
                }
                turn.left -= 1;
                self.due_next += 1;
                match store.decide(entry, turn.now) {
                    Fate::Fire(fired) => {
                        turn.fired += 1;
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
            if !self.refill(store, turn.now, &mut turn.left) {
                let next = self.wheel.earliest();
                // With nothing left it is not, also at the last tick, at which a shutdown fires everything.
                turn.cut_short = next.is_some_and(|next| next <= turn.now);
                if !turn.cut_short && self.wheel.deferred.entries.is_empty() {
                    self.rest(next.unwrap_or(u64::MAX));
                }
                return None;
            }
        }
    }

    /// Takes the next due entries from the wheel; false if there are none, or the budget is used up.
    fn refill<S: TimerStore>(&mut self, store: &S, now: u64, left: &mut usize) -> bool {
        self.due.clear();
        self.due_next = 0;
        while *left > 0 {
            let mut to = now;
            if self.wheel.log.insert_at() <= now {
                let limit = left.saturating_mul(INSERTED_PER_SETTLED);
                let taken = self.leave_log(store, now, limit);
                // At least one stays, so that the smallest budget makes headway with any entries.
                *left = left.saturating_sub(taken / INSERTED_PER_SETTLED).max(1);
                // What the budget has left there comes before all that is due then.
                if self.wheel.log.len() > 0 {
                    to = now.min(self.wheel.log.earliest().saturating_sub(1));
                }
            }
            let more = self.take_due(to, BATCH.min(*left));
            if !self.due.is_empty() {
                for entry in &self.due {
                    store.prefetch(entry);
                }
                return true;
            }
            if !more {
                return false;
            }
            // A cascade is under way: it counts against the budget like the entries it moves.
            *left = left.saturating_sub(BATCH);
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
        self.expect(self.wheel.log.earliest_in_tail());
        self.wheel.keep_bounded(records, requested, budget)
    }

    /// Sweeps a piece after so many zombies of the owner's own as [`ZOMBIES_PER_LOOK`](crate::wheel::ZOMBIES_PER_LOOK) says.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_at_zombies(&mut self, records: &impl Records) {
        self.keep_bounded(records, true, SWEEP_PER_LOOK);
        // A turn goes on with the sweep, or with what is to be done after one.
        self.idle_until = 0;
    }

    /// Returns the earliest deadline of all entries, those that wait for the next turn included. O(1), unless a
    /// turn was cut short or its handlers inserted overdue timers: then it looks through these.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if let Some(next) = self.known_next() {
            return Some(next);
        }
        let waiting = self.due[self.due_next..]
            .iter()
            .chain(&self.wheel.deferred.entries);
        waiting
            .map(|entry| entry.deadline)
            .chain(self.wheel.earliest())
            .min()
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
impl Driver {
    /// Returns the earliest tick at which there is something to do, or an earlier one while zombies lie there: 0,
    /// which is at once, while a sweep goes on, or if the owner `is_busy`; `u64::MAX` for never. O(1).
    ///
    /// The owner is asked only within a turn and after one that it has [resumed](Self::resume).
    #[inline]
    pub(crate) fn next_tick(&self, is_busy: impl FnOnce() -> bool) -> u64 {
        if let Some(next) = self.known_next() {
            return next;
        }
        let waiting = self.due_next < self.due.len() || !self.wheel.deferred.entries.is_empty();
        if waiting || self.is_sweeping() || is_busy() {
            return 0;
        }
        self.wheel.earliest().unwrap_or(u64::MAX)
    }

    /// Returns the earliest deadline of what a turn that was cut short has left; of entries that wait for the next
    /// turn, which may be very many, only that of the first counts. O(1).
    pub(crate) fn left_by_turn(&self) -> Option<u64> {
        let waiting = self.due[self.due_next..]
            .iter()
            .chain(self.wheel.deferred.entries.first());
        waiting
            .map(|entry| entry.deadline)
            .chain(self.wheel.earliest())
            .min()
    }

    /// Begins a round of the sweep although there are not too many zombies: after a burst the few that the bound allows
    /// lie scattered, and keep pieces of the wheel's memory that are empty otherwise.
    pub(crate) fn begin_sweep(&mut self) {
        self.wheel.begin_sweep();
    }

    /// Entries inserted, zombies included.
    pub(crate) fn entries(&self) -> u64 {
        let waiting = self.due.len() - self.due_next + self.wheel.deferred.entries.len();
        (self.wheel.len() + waiting) as u64
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

    const TIMERS: u64 = 40_000;
    const END: u64 = 100_000;

    /// Returns a driver whose log holds nearly all of the timers. The latest came first, so that the log's oldest blocks,
    /// which leave it first, are due last.
    fn latest_first() -> Driver {
        let mut driver = Driver::new(Wheel::new());
        for nth in 0..TIMERS {
            let entry = Entry {
                deadline: END - nth,
                index: nth as u32,
                mark: 1,
            };
            assert!(driver.insert(entry) || driver.make_room(entry, &All));
        }
        driver
    }

    #[test]
    fn deadlines_left_in_the_log_by_a_budget_come_before_later_ones_in_the_wheel() {
        let mut driver = latest_first();
        let mut fired = Vec::new();
        while fired.len() < TIMERS as usize {
            let mut turn = driver.begin_turn(END, 100, !fired.is_empty());
            fired.extend(core::iter::from_fn(|| driver.next(&mut turn, &mut All)));
            driver.end_turn(0);
        }
        assert!(fired.is_sorted());
    }

    #[test]
    fn a_turn_takes_no_more_out_of_the_log_than_its_budget_pays_for() {
        const BUDGET: usize = 4096;
        // It takes whole blocks, and the young ones all at once.
        const FREE: usize = (1 + MOST_YOUNG) * BLOCK;
        let mut driver = latest_first();
        let (mut all, mut turns) = (0, 0);
        while all < TIMERS as usize {
            let before = driver.wheel.log.len();
            let mut turn = driver.begin_turn(END, BUDGET, turns > 0);
            let fired = core::iter::from_fn(|| driver.next(&mut turn, &mut All)).count();
            driver.end_turn(0);
            let taken = before - driver.wheel.log.len();
            // One timer is settled in any case.
            let paid = taken.saturating_sub(FREE) / INSERTED_PER_SETTLED + fired;
            assert!(paid <= BUDGET + 1, "{taken} taken and {fired} fired");
            (all, turns) = (all + fired, turns + 1);
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
        let mut driver = Driver::new(Wheel::new());
        let soon = END / 2;
        assert!(driver.insert(entry(soon, 0)) || driver.make_room(entry(soon, 0), &All));
        let mut index = 1;
        while !driver.wheel.log.is_full() || driver.wheel.log.len() < MOST_YOUNG * BLOCK {
            let far = entry(100 * END, index);
            assert!(driver.insert(far) || driver.make_room(far, &All));
            index += 1;
        }
        let mut turn = driver.begin_turn(soon - 1, 100, false);
        assert!(driver.next(&mut turn, &mut All).is_none());
        driver.end_turn(0);
        driver.insert_accepted(entry(soon, index), &All);
        let mut turn = driver.begin_turn(soon, 100, false);
        let fired = core::iter::from_fn(|| driver.next(&mut turn, &mut All)).count();
        assert_eq!(fired, 2);
    }
}
