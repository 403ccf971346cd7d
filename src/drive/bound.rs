//! The bound on zombies: entries of ended and moved timers are swept out, a piece at a time.

use super::TimerStore;
use super::driver::{Drivable, Driver};
use super::round::{Met, Round, ZOMBIE_FLOOR, duplicates, too_many};
use super::young::{keep, keep_live};
use crate::wheel::{Entry, Fifo, Sweep, no_memory};
use alloc::vec::Vec;

/// Which of these entries are dead, as a [mask](crate::wheel::DeadMask).
#[inline]
fn dead<S: TimerStore>(store: &S, entries: &[Entry]) -> u64 {
    entries.iter().for_each(|entry| store.prefetch(entry));
    let dead = |(place, entry): (usize, &Entry)| u64::from(!store.is_live(entry)) << place;
    entries.iter().enumerate().map(dead).fold(0, |mask, bit| mask | bit)
}

impl<W: Drivable> Driver<W> {
    /// Sweeps a piece if there are too many zombies; whether the sweep goes on.
    ///
    /// The number of pending timers is asked only when the wheel has grown since the last look, or when
    /// `requested`, because somebody has seen many cancels.
    ///
    /// A round that removes nothing ends the sweep: what is left are entries that look live. If they are too many even
    /// so, timers have several: a mark has few bits, so one of 64 entries that moves have left behind looks like the
    /// current one. One more round finds these timers and gives each a new entry, and another removes the old ones.
    #[inline]
    pub(crate) fn keep_bounded<S: TimerStore>(
        &mut self,
        store: &mut S,
        requested: bool,
        budget: usize,
    ) -> bool {
        let is_quiet = !self.sweeping && !requested && self.filed() < self.look_at;
        !is_quiet && self.sweep(store, requested, budget)
    }

    /// Begins a round of the sweep although there are not too many zombies: after a burst the few that the bound allows
    /// lie scattered, and keep pieces of the wheel's memory that are empty otherwise.
    pub(crate) fn begin_sweep(&mut self) {
        if !self.sweeping {
            (self.sweeping, self.round) = (true, Round { thorough: true, ..Round::default() });
        }
    }

    /// See [`keep_bounded`](Self::keep_bounded).
    #[cold]
    #[inline(never)]
    fn sweep<S: TimerStore>(&mut self, store: &mut S, requested: bool, budget: usize) -> bool {
        self.evict_deferred(store);
        if self.sweeping {
            self.round.requested |= requested;
        } else {
            let entries = self.filed();
            if !too_many(entries, || store.pending()) {
                // Look again when a quarter more has gathered; cancels alone call the owner themselves.
                self.look_at = entries + entries / 4 + ZOMBIE_FLOOR;
                return false;
            }
            (self.sweeping, self.round) = (true, Round::default());
            // The sweep goes through log and wheel; the young entries are few enough to be gone through at once.
            self.evict_dead(store);
        }
        let mut renewed = Vec::new();
        let sweep = self.sweep_piece(store, budget, &mut renewed);
        for entry in renewed {
            self.wheel.insert(entry);
        }
        self.swept += sweep.removed as u64;
        self.round.removed += sweep.removed;
        if sweep.cycle_done {
            self.sweeping = self.begin_round(too_many(self.filed(), || store.pending()));
        } else if sweep.removed < sweep.examined / 8 && self.is_swept_enough(store) {
            self.staging.end_round();
            self.sweeping = false;
        }
        if !self.sweeping {
            self.look_at = self.filed() + ZOMBIE_FLOOR;
        }
        self.sweeping
    }

    /// Where timers are cancelled in the order in which they were scheduled, the dead lie at the log's beginning, and
    /// behind them a sweep finds none.
    fn is_swept_enough<S: TimerStore>(&self, store: &S) -> bool {
        !self.round.thorough && self.filed() <= store.pending() / 8 * 9 + ZOMBIE_FLOOR / 2
    }

    /// Looks at about `budget` entries: first those of the log, from which they go to the wheel, and then those there.
    fn sweep_piece<S: TimerStore>(
        &mut self,
        store: &mut S,
        budget: usize,
        renewed: &mut Vec<Entry>,
    ) -> Sweep {
        let Self { staging, wheel, round: Round { met, past_log, .. }, .. } = self;
        let mut sweep = Sweep { examined: 0, removed: 0, cycle_done: false };
        if !*past_log {
            sweep = staging.sweep(budget, |young| match met {
                None => keep_live(young, store, true),
                Some(met) => {
                    let len = keep_live(young, store, true).len;
                    keep(&mut young[..len], |entry| duplicates(store, met, &[entry], renewed) == 0)
                }
            });
            *past_log = core::mem::take(&mut sweep.cycle_done);
        }
        let left = budget.saturating_sub(sweep.examined);
        if *past_log && left > 0 {
            let in_wheel = wheel.sweep_batches(left, &mut |entries| {
                let dead = dead(store, entries);
                match met {
                    None => dead,
                    Some(met) => dead | duplicates(store, met, entries, renewed),
                }
            });
            sweep.examined += in_wheel.examined;
            sweep.removed += in_wheel.removed;
            sweep.cycle_done = in_wheel.cycle_done;
        }
        sweep
    }

    /// Files the entry of a timer that was accepted earlier when the staging buffer was full; not past an older one of
    /// its tick that is still there.
    #[cold]
    #[inline(never)]
    pub(super) fn file_in_made_room<S: TimerStore>(&mut self, entry: Entry, store: &S) {
        self.evict_dead(store);
        if self.staging.len() == 0 || self.staging.is_passed_by(entry.deadline) {
            self.wheel.insert(entry);
        } else if !self.staging.push(entry) {
            no_memory();
        }
    }

    /// A handler that moves timers to and fro for long leaves entries that wait for the next turn.
    fn evict_deferred<S: TimerStore>(&mut self, store: &S) {
        let before = self.deferred.len();
        if before >= self.deferred_limit {
            self.deferred.retain(|entry| store.is_live(entry));
            self.swept += (before - self.deferred.len()) as u64;
            self.deferred_limit = (2 * self.deferred.len()).max(ZOMBIE_FLOOR as usize);
        }
    }

    /// Ends a round of the sweep and begins the next one, if it is of use.
    fn begin_round(&mut self, too_many: bool) -> bool {
        let Round { removed, requested, met, .. } = core::mem::take(&mut self.round);
        let was_of_use = removed > 0 || requested;
        if too_many && !was_of_use && met.is_none() {
            self.round.met = Some(Met::default());
        }
        too_many && (was_of_use || self.round.met.is_some())
    }
}

impl Driver<Fifo> {
    /// The entry at the front of the wheel, if it is this timer's, is dead: brings a live one to the front.
    #[inline]
    pub(crate) fn trim_after<S: TimerStore>(&mut self, store: &S, index: u32) {
        if self.wheel.front().is_some_and(|front| front.index == index) {
            self.trim(store);
        }
    }

    /// Brings a live entry to the front of the wheel.
    pub(crate) fn trim<S: TimerStore>(&mut self, store: &S) {
        self.wheel.trim(|entry| store.is_live(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Fate;
    use crate::wheel::{AnyWheel, Hierarchical, Wheel};
    use core::cell::Cell;

    /// Timers by index, with the mark of their current entry. Their deadlines are far.
    struct Marks {
        marks: Vec<u32>,
        renews: bool,
        /// Timers that have ended, and so have no current entry.
        ended: u64,
        /// How often the owner has looked whether an entry is dead.
        looks: Cell<usize>,
    }

    const FAR: u64 = 1 << 40;

    impl Marks {
        fn of(timers: usize, renews: bool) -> Self {
            Self { marks: vec![9; timers], renews, ended: 0, looks: Cell::new(0) }
        }
    }

    impl TimerStore for Marks {
        type Fired = ();

        fn is_live(&self, entry: &Entry) -> bool {
            self.looks.set(self.looks.get() + 1);
            self.marks[entry.index as usize] == entry.mark
        }

        fn prefetch(&self, _: &Entry) {}

        fn decide(&mut self, _: Entry, _: u64) -> Fate<()> {
            Fate::Drop
        }

        fn renew_entry(&mut self, entry: Entry) -> Option<Entry> {
            if !self.renews || !self.is_live(&entry) {
                return None;
            }
            let mark = &mut self.marks[entry.index as usize];
            *mark += 1;
            Some(Entry { deadline: FAR, mark: *mark, ..entry })
        }

        fn pending(&self) -> u64 {
            self.marks.len() as u64 - self.ended
        }
    }

    /// A driver with `copies` entries of each timer but the last one, which has a single entry. All of them look live,
    /// at deadlines of their own; in the wheel, or in the log.
    fn crowded(store: &Marks, copies: u64, in_log: bool) -> Driver {
        let mut driver = Driver::new(AnyWheel::Hierarchical(Hierarchical::new()));
        let last = store.marks.len() as u32 - 1;
        file(&mut driver, store, Entry { deadline: FAR, index: last, mark: 9 }, in_log);
        for copy in 0..copies {
            for index in 0..last {
                let deadline = FAR - copy * copy * 7 % FAR;
                file(&mut driver, store, Entry { deadline, index, mark: 9 }, in_log);
            }
        }
        driver
    }

    fn file(driver: &mut Driver, store: &Marks, entry: Entry, in_log: bool) {
        while in_log && !driver.staging.push(entry) {
            driver.staging.evict_dead(store, || true, |_| panic!("nothing is due soon"));
        }
        if !in_log {
            driver.wheel.insert(entry);
        }
    }

    fn sweep(driver: &mut Driver, store: &mut Marks) -> usize {
        let most = 20 * driver.filed() as usize / 500;
        let calls = (0..most).take_while(|_| driver.keep_bounded(store, false, 500)).count();
        assert!(calls < most, "the sweep goes on and on");
        calls
    }

    #[test]
    fn as_many_as_live_and_a_floor_are_not_too_many() {
        assert!(!too_many(ZOMBIE_FLOOR, || 0) && too_many(ZOMBIE_FLOOR + 1, || 0));
        let live = || ZOMBIE_FLOOR;
        assert!(!too_many(3 * ZOMBIE_FLOOR, live) && too_many(3 * ZOMBIE_FLOOR + 1, live));
    }

    #[test]
    fn entries_that_look_alike_are_merged() {
        for (timers, in_log) in [(2, false), (8, false), (5_000, false), (8, true), (5_000, true)] {
            let mut store = Marks::of(timers, true);
            let mut driver = crowded(&store, 5 * ZOMBIE_FLOOR / timers as u64 + 3, in_log);
            sweep(&mut driver, &mut store);
            assert!(!too_many(driver.filed(), || timers as u64), "{} are left", driver.filed());
            assert!(store.marks.iter().all(|mark| *mark <= 10), "one new entry is enough");
            assert!(!driver.keep_bounded(&mut store, true, 500));
            // Nobody's only entry is gone.
            let mut has_entry = vec![false; timers];
            let mut look = |entry: Entry| has_entry[entry.index as usize] |= store.is_live(&entry);
            driver.wheel.drain_all(&mut look);
            driver.staging.empty_all(|entry| {
                look(entry);
                true
            });
            assert!(has_entry.iter().all(|has| *has));
        }
    }

    #[test]
    fn a_sweep_that_achieves_nothing_ends() {
        let mut store = Marks::of(4, false);
        let mut driver = crowded(&store, ZOMBIE_FLOOR, false);
        let filed = driver.filed();
        assert!(sweep(&mut driver, &mut store) > 0);
        assert_eq!(driver.filed(), filed);
        // Until there are more of them.
        assert!(!driver.keep_bounded(&mut store, false, 500));
        for _ in 0..ZOMBIE_FLOOR {
            driver.wheel.insert(Entry { deadline: 5, index: 0, mark: 1 });
        }
        assert!(driver.keep_bounded(&mut store, false, 500));
        sweep(&mut driver, &mut store);
        assert_eq!(driver.filed(), filed, "and then the dead among them go");
    }

    /// A driver whose log has an entry of each timer, of which the older 60 % have ended.
    fn half_dead(store: &mut Marks) -> Driver {
        let mut driver = Driver::new(AnyWheel::Hierarchical(Hierarchical::new()));
        let timers = store.marks.len() as u32;
        for index in 0..timers {
            file(&mut driver, store, Entry { deadline: FAR, index, mark: 9 }, true);
        }
        let ended = timers / 5 * 3;
        store.marks[..ended as usize].fill(10);
        store.ended = u64::from(ended);
        store.looks.set(0);
        driver
    }

    #[test]
    fn a_sweep_ends_where_few_of_the_dead_are_left() {
        let mut store = Marks::of(200_000, false);
        let mut driver = half_dead(&mut store);
        sweep(&mut driver, &mut store);
        assert!(driver.filed() < 80_000 + ZOMBIE_FLOOR, "{} are left", driver.filed());
        assert!(store.looks.get() < 150_000, "it has looked {} times", store.looks.get());
    }

    #[test]
    fn a_sweep_after_a_trim_looks_at_all() {
        let mut store = Marks::of(200_000, false);
        let mut driver = half_dead(&mut store);
        driver.begin_sweep();
        sweep(&mut driver, &mut store);
        assert_eq!(driver.filed(), 80_000, "nothing dead is left");
        // All but what the staging buffer holds.
        assert!(store.looks.get() > 190_000, "it has looked {} times", store.looks.get());
    }
}
