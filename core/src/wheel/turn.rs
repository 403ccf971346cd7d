//! The wheel and the turns over it.
//!
//! A turn hands out one fired timer at a time ([`Wheel::next`]), so the caller can run a handler that uses the timer
//! again, and a handler that panics leaves nothing half done.

use super::bound::{Bound, SWEEP_PER_LOOK};
use super::log::Log;
use super::no_memory;
use super::spare::Spare;
use super::{Entry, Fate, Records, Rings, TimerStore};
use crate::time::TickRate;
use crate::types::{Budget, Polled};
use alloc::vec::Vec;
use core::mem::size_of;

/// Entries asked of the rings at a time: enough to amortise the call, few enough to stay in cache.
const BATCH: usize = 256;

/// Entries that may be inserted out of the log for the price of settling one.
const INSERTED_PER_SETTLED: usize = 4;

/// All entries, and the turn that is under way; see the module.
pub struct Wheel {
    /// Entries that are not in the rings yet.
    pub(super) log: Log,
    pub(super) rings: Rings,
    /// Due entries taken from the rings; those before `due_next` are done.
    due: Vec<Entry>,
    due_next: usize,
    /// On-time entries that were taken since the backlog last had its share.
    ahead: usize,
    /// A turn is under way, so a handler may be running.
    pub(super) is_turning: bool,
    /// Entries that the turn may still look at.
    left: usize,
    /// Timers that have fired in the turn.
    fired: usize,
    /// The latest tick that a turn has seen: a clock that goes back makes timers late, nothing else.
    pub(super) latest: u64,
    /// See [`idle_until`](Wheel::idle_until), but for what the log's newest block has; 0 in a turn.
    pub(super) idle_until: u64,
    /// At or before every deadline but those in the log's newest block. In a turn that [`has_all`](Self::has_all) it is
    /// that of the rings.
    pub(super) earliest: u64,
    /// Everything in the rings that was due in the turn has been taken. What comes there since lowers `earliest`.
    pub(super) has_all: bool,
    pub(super) bound: Bound,
    pub(super) spare: Spare,
    /// For how many ticks spare memory is kept: a second, or one tick if that is longer. Bursts repeat within a second
    /// or not at all.
    pub(super) keep: u64,
    /// Zombies removed before they came due, since the beginning.
    pub(super) removed: u64,
    /// Zombies dropped because they came due, since the beginning.
    dropped: u64,
}

impl Wheel {
    pub(crate) fn new(rate: &TickRate) -> Self {
        Self {
            log: Log::default(),
            rings: Rings::new(),
            due: Vec::with_capacity(BATCH),
            due_next: 0,
            ahead: 0,
            is_turning: false,
            left: 0,
            fired: 0,
            latest: 0,
            idle_until: 0,
            earliest: u64::MAX,
            has_all: false,
            bound: Bound::default(),
            spare: Spare::No,
            keep: rate.per_second(),
            removed: 0,
            dropped: 0,
        }
    }

    /// Begins a turn at the tick `now`, or at the latest one of a turn before, within `budget`.
    /// [`end_turn`](Self::end_turn) ends it. Returns its tick. `resumed`: the last turn ran out of budget. Entries
    /// deferred since then wait for the next turn.
    pub fn begin_turn(&mut self, now: u64, budget: &Budget, resumed: bool) -> u64 {
        self.is_turning = true;
        (self.left, self.fired, self.has_all) = (budget.fire, 0, false);
        if !resumed && !self.rings.deferred.is_empty() {
            self.rings.insert_deferred();
        }
        self.latest = self.latest.max(now);
        self.be_busy();
        self.log.follow(self.latest);
        self.latest
    }

    /// Returns the next timer that fires in this turn.
    #[inline(always)] // of every fire: 30 instructions of it
    pub fn next<S: TimerStore>(&mut self, timers: &mut S) -> Option<S::Fired> {
        loop {
            while let Some(&entry) = self.due.get(self.due_next) {
                if self.left == 0 {
                    return None;
                }
                self.left -= 1;
                self.due_next += 1;
                match timers.decide(entry, self.latest) {
                    Fate::Fire(fired) => {
                        self.fired += 1;
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
                        self.accept(again, timers);
                    }
                    Fate::Drop => self.dropped += 1,
                }
            }
            if !self.refill(timers) {
                return None;
            }
        }
    }

    /// Takes a timer out of the turn's count that has not been handled after all.
    pub fn count_not_fired(&mut self) {
        self.fired -= 1;
    }

    /// Takes the next due entries from the rings; false if there are none, or the budget is used up.
    fn refill(&mut self, timers: &impl TimerStore) -> bool {
        self.due.clear();
        self.due_next = 0;
        let now = self.latest;
        if self.has_all && self.earliest.min(self.log.idle_until()) > now {
            return false;
        }
        self.has_all = false;
        while self.left > 0 {
            let mut to = now;
            if self.log.idle_until() <= now {
                let limit = self.left.saturating_mul(INSERTED_PER_SETTLED);
                let taken = self.leave_log(timers, now, limit);
                // At least one stays, so that the smallest budget makes headway with any entries.
                self.left -= (taken / INSERTED_PER_SETTLED).min(self.left - 1);
                // What the budget has left there comes before all that is due then.
                if self.log.len() > 0 {
                    to = now.min(self.log.earliest().saturating_sub(1));
                }
            }
            let next = self.take_due(to, BATCH.min(self.left));
            if let (Some(next), true) = (next, to == now) {
                (self.earliest, self.has_all) = (next, true);
            }
            if !self.due.is_empty() {
                for entry in &self.due {
                    timers.prefetch_due(entry);
                }
                return true;
            }
            if next.is_some() {
                return false;
            }
            // A cascade is under way: it counts against the budget like the entries it moves.
            self.left = self.left.saturating_sub(BATCH);
        }
        false
    }

    /// Inserts what may be due at `now` in the log, or a piece of it, and says how many entries that took.
    #[cold]
    #[inline(never)]
    fn leave_log(&mut self, records: &impl Records, now: u64, limit: usize) -> usize {
        let taken = self.insert_due(now, limit, records);
        self.log.follow(self.latest);
        taken
    }

    /// Takes up to `limit` due entries from the rings. Returns the earliest deadline that is left there, `None` if more may
    /// be due.
    ///
    /// A backlog shares the limit with the entries that are due in time: a batch each, by turns. If nothing else is
    /// due, the backlog gets all of it. So a burst and the timers after it slow each other down by half, and neither
    /// stops the other.
    fn take_due(&mut self, now: u64, limit: usize) -> Option<u64> {
        let Self {
            rings, due, ahead, ..
        } = self;
        if *ahead < BATCH || !rings.has_backlog() {
            let next = rings.advance(now, limit, due);
            if !rings.has_backlog() {
                *ahead = 0;
                return next;
            }
            *ahead += due.len();
            if next.is_none() || !due.is_empty() {
                return None;
            }
        }
        rings.take_backlog(limit, due);
        *ahead = ahead.saturating_sub(due.len());
        None
    }

    /// Ends the turn: sweeps a piece of about `sweep` entries if there are too many zombies, and looks ahead. Returns how
    /// many timers have fired, and whether more is due or the sweep goes on. `requested`: a thread has seen many cancels.
    pub fn end_turn(&mut self, records: &impl Records, requested: bool, sweep: usize) -> Polled {
        self.is_turning = false;
        self.bound.fired += self.fired as u64;
        let sweeping = self.sweep(records, requested, sweep);
        // At the last tick, at which a shutdown fires everything, a deadline of "never" is due as well: with nothing left
        // none is.
        let is_done = self.has_all && self.due_next == self.due.len();
        let earliest = if is_done && !self.is_at_last_tick() {
            Some(self.earliest.min(self.log.earliest()))
        } else {
            self.find_earliest()
        };
        let is_due = matches!(earliest, Some(earliest) if earliest <= self.latest);
        let more = sweeping || is_due;
        self.earliest = earliest.unwrap_or(u64::MAX).min(self.rings.deferred.min);
        if !more && self.rings.deferred.is_empty() {
            // The log wants a turn somewhat before what is sealed there is due.
            self.idle_until = self.earliest.min(self.log.idle_until());
        }
        Polled {
            fired: self.fired,
            more,
        }
    }

    /// Makes the next turn at any tick do its work: there is something to do at its end.
    #[inline]
    pub fn be_busy(&mut self) {
        self.idle_until = 0;
    }

    /// Sweeps a piece, because the owner itself has made [`ZOMBIES_PER_LOOK`](super::ZOMBIES_PER_LOOK) zombies.
    #[cold]
    #[inline(never)]
    pub fn look_at_zombies(&mut self, records: &impl Records) {
        self.sweep(records, true, SWEEP_PER_LOOK);
        // A turn goes on with the sweep, or with what is to be done after one.
        self.look_ahead_again();
    }

    /// Finds the earliest deadline again after entries have left the log's newest block between two turns.
    pub(super) fn look_ahead_again(&mut self) {
        self.be_busy();
        self.has_all = false;
        self.earliest = self.next_of_all();
    }

    /// Returns the tick before which a turn has nothing to do: nothing is due, no sweep goes on, and nothing waits for
    /// the next turn. It is at or before [`next_deadline`](Self::next_deadline). Until then an owner that asks for a
    /// turn is like one that sleeps.
    #[inline(always)]
    pub fn idle_until(&self) -> u64 {
        // What is scheduled goes to the log's newest block, which knows its earliest deadline anyway.
        self.idle_until.min(self.log.tail_min())
    }

    /// Returns the earliest deadline of all entries, those that wait for the next turn included; `u64::MAX` for none.
    /// Earlier than that after an entry was removed before it came due. O(1).
    #[inline]
    pub fn next_deadline(&self) -> u64 {
        if self.is_turning {
            self.next_of_all()
        } else {
            self.earliest.min(self.log.tail_min())
        }
    }

    #[cold]
    #[inline(never)]
    fn next_of_all(&self) -> u64 {
        let earliest = self.find_earliest().unwrap_or(u64::MAX);
        earliest.min(self.rings.deferred.min)
    }

    /// Returns the earliest deadline of all that this turn may fire.
    fn find_earliest(&self) -> Option<u64> {
        let due = self.due[self.due_next..].iter().map(|entry| entry.deadline);
        let in_log = (self.log.len() > 0).then(|| self.log.earliest());
        due.chain(self.rings.earliest()).chain(in_log).min()
    }

    /// Returns whether the next turn goes on with housekeeping, even if nothing is due.
    #[inline]
    pub(crate) fn has_housekeeping(&self) -> bool {
        self.is_sweeping() || self.is_giving_back()
    }

    /// Returns the tick of the turn, or of the last one.
    pub fn now(&self) -> u64 {
        self.latest
    }

    /// Returns whether a turn is under way: then a poll comes from one of its handlers.
    #[inline]
    pub fn is_turning(&self) -> bool {
        self.is_turning
    }

    /// Returns whether the last tick has come, at which a shutdown fires everything. A periodic timer is due at no
    /// later one: it stays without an entry, and the end of the shard returns it.
    pub fn is_at_last_tick(&self) -> bool {
        self.latest == u64::MAX
    }

    /// Returns the number of entries in log and rings, dead ones included.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.log.len() + self.rings.len
    }

    /// Forgets every entry. The hand stays where it is.
    pub fn clear(&mut self) {
        self.log.clear();
        self.rings.drain_all(&mut |_| ());
        self.due.clear();
        (self.due_next, self.ahead) = (0, 0);
        self.bound = Bound::default();
        self.look_ahead_again();
    }

    /// Returns the memory that the wheel holds, in bytes, its reserves included.
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.rings.held_bytes() + self.log.held_bytes()
    }
}

/// The methods that a shard needs and a local timer does not.
impl Wheel {
    /// Creates a wheel for an owner that must not call the allocator later. It has room for the first hundred entries
    /// of any deadlines, because a drain finds timers that were accepted and can refuse none; the process ends if that
    /// room is refused. The log has places for half a million entries.
    pub fn with_reserve(rate: &TickRate) -> Self {
        let mut wheel = Self::new(rate);
        wheel.log.reserve_places();
        if !wheel.rings.chunks.reserve_first() {
            no_memory();
        }
        wheel
    }

    /// Returns whether a turn has something to do at any time: the rest of one that was cut short, entries that wait
    /// for the next one, housekeeping.
    #[inline]
    pub fn goes_on(&self) -> bool {
        let waiting = self.due_next < self.due.len() || !self.rings.deferred.is_empty();
        waiting || self.has_housekeeping()
    }

    /// Entries inserted, zombies included.
    pub fn entries(&self) -> u64 {
        (self.len() + self.due.len() - self.due_next) as u64
    }

    /// Zombies removed by sweeps, and zombies dropped when they came due.
    pub fn zombies_removed(&self) -> (u64, u64) {
        (self.removed, self.dropped)
    }
}

/// With ticks of a millisecond.
#[cfg(test)]
impl Default for Wheel {
    fn default() -> Self {
        Self::new(&TickRate::new(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::block::BLOCK;
    use crate::wheel::log::MOST_YOUNG;
    use crate::wheel::{NodeMemory, Settled};

    const HUNDRED: Budget = Budget::new().fire(100);

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

    /// Returns a wheel whose rings hold `count` entries, for far deadlines, of timers that live.
    fn far_entries(count: u32) -> (Wheel, Asked) {
        let (live, asked) = (true, core::cell::Cell::new(0));
        let timers = Asked { live, asked };
        let mut wheel = Wheel::default();
        for index in 0..count {
            let entry = Entry {
                deadline: 100 * END + u64::from(index),
                index,
                mark: 1,
            };
            assert!(wheel.insert(entry, &timers));
        }
        wheel.insert_all();
        (wheel, timers)
    }

    /// Summing up the pending timers costs as much as there are threads.
    #[test]
    fn a_turn_asks_for_no_number_of_timers_where_nothing_has_changed() {
        let (mut wheel, timers) = far_entries(TIMERS as u32);
        assert!(!wheel.sweep(&timers, true, 100), "not too many");
        timers.asked.set(0);
        for now in 1..100 {
            wheel.begin_turn(now, &HUNDRED, false);
            assert!(!wheel.end_turn(&timers, false, 100).more);
        }
        assert_eq!(timers.asked.get(), 0);
    }

    /// There are fewer of them than are always tolerated, and each may keep a piece of memory.
    #[test]
    fn zombies_are_swept_before_memory_goes_back() {
        let (mut wheel, mut timers) = far_entries(1_000);
        timers.live = false;
        let mut settle = |now| {
            wheel.begin_turn(now, &HUNDRED, false);
            let is_busy = wheel.end_turn(&timers, false, 100).more;
            let settled = wheel.settle_spare(is_busy, NodeMemory::Spare);
            (settled == Settled::Returned, wheel.len())
        };
        assert_eq!(settle(1), (false, 1_000), "it is kept for a second");
        let mut rounds = (0..100).map(|_| settle(END));
        assert_eq!(rounds.find(|(returned, _)| *returned), Some((true, 0)));
    }

    const TIMERS: u64 = 40_000;
    const END: u64 = 100_000;

    /// Returns a wheel whose log holds nearly all of the timers. The latest came first, so that the log's
    /// oldest blocks, which leave it first, are due last.
    fn latest_first() -> Wheel {
        let mut wheel = Wheel::default();
        for nth in 0..TIMERS {
            let entry = Entry {
                deadline: END - nth,
                index: nth as u32,
                mark: 1,
            };
            assert!(wheel.insert(entry, &All));
        }
        wheel
    }

    #[test]
    fn deadlines_left_in_the_log_by_a_budget_come_before_later_ones_in_the_wheel() {
        let mut wheel = latest_first();
        let mut fired = Vec::new();
        while fired.len() < TIMERS as usize {
            wheel.begin_turn(END, &HUNDRED, !fired.is_empty());
            fired.extend(core::iter::from_fn(|| wheel.next(&mut All)));
            let _ = wheel.end_turn(&All, false, 0);
        }
        assert!(fired.is_sorted());
    }

    #[test]
    fn a_turn_takes_no_more_out_of_the_log_than_its_budget_pays_for() {
        const BUDGET: usize = 4096;
        // It takes whole blocks, and the young ones all at once.
        const FREE: usize = (1 + MOST_YOUNG) * BLOCK;
        let mut wheel = latest_first();
        let (mut all, mut taken_turns) = (0, 0);
        while all < TIMERS as usize {
            let before = wheel.log.len();
            wheel.begin_turn(END, &Budget::new().fire(BUDGET), taken_turns > 0);
            let fired = core::iter::from_fn(|| wheel.next(&mut All)).count();
            let _ = wheel.end_turn(&All, false, 0);
            let taken = before - wheel.log.len();
            // One timer is settled in any case.
            let paid = taken.saturating_sub(FREE) / INSERTED_PER_SETTLED + fired;
            assert!(paid <= BUDGET + 1, "{taken} taken and {fired} fired");
            (all, taken_turns) = (all + fired, taken_turns + 1);
        }
    }

    /// The entry that it must not overtake has left the log for the wheel when room was made.
    #[test]
    fn an_accepted_entry_follows_an_older_one_out_of_the_log() {
        let entry = |deadline, index| Entry {
            deadline,
            index,
            mark: 1,
        };
        let mut wheel = Wheel::default();
        let soon = END / 2;
        assert!(wheel.insert(entry(soon, 0), &All));
        let mut index = 1;
        while !wheel.log.is_full() || wheel.log.len() < MOST_YOUNG * BLOCK {
            let far = entry(100 * END, index);
            assert!(wheel.insert(far, &All));
            index += 1;
        }
        wheel.begin_turn(soon - 1, &HUNDRED, false);
        assert!(wheel.next(&mut All).is_none());
        let _ = wheel.end_turn(&All, false, 0);
        wheel.accept(entry(soon, index), &All);
        wheel.begin_turn(soon, &HUNDRED, false);
        let fired = core::iter::from_fn(|| wheel.next(&mut All)).count();
        assert_eq!(fired, 2);
    }
}
