//! The bound on zombies: entries of ended and moved timers are swept out, a piece at a time.

use super::TimerStore;
use super::driver::{Drivable, Driver};
use super::round::{Round, ZOMBIE_FLOOR, too_many};
use super::young::keep_live;
use crate::wheel::{Entry, Fifo, Sweep, no_memory};

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
    /// A round that removes nothing ends the sweep: what is left are entries that look live.
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
        let sweep = self.sweep_piece(store, budget);
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
    fn sweep_piece<S: TimerStore>(&mut self, store: &mut S, budget: usize) -> Sweep {
        let Self { staging, wheel, round: Round { past_log, .. }, .. } = self;
        let mut sweep = Sweep { examined: 0, removed: 0, cycle_done: false };
        if !*past_log {
            sweep = staging.sweep(budget, |young| keep_live(young, store, true));
            *past_log = core::mem::take(&mut sweep.cycle_done);
        }
        let left = budget.saturating_sub(sweep.examined);
        if *past_log && left > 0 {
            let in_wheel = wheel.sweep_batches(left, &mut |entries| dead(store, entries));
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
        let Round { removed, requested, .. } = core::mem::take(&mut self.round);
        too_many && (removed > 0 || requested)
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
    use alloc::vec::Vec;
    use core::cell::Cell;

    /// Timers by index, with the mark of their current entry. Their deadlines are far.
    struct Marks {
        marks: Vec<u32>,
        /// Timers that have ended, and so have no current entry.
        ended: u64,
        /// How often the owner has looked whether an entry is dead.
        looks: Cell<usize>,
    }

    const FAR: u64 = 1 << 40;

    impl Marks {
        fn of(timers: usize) -> Self {
            Self { marks: vec![9; timers], ended: 0, looks: Cell::new(0) }
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

        fn pending(&self) -> u64 {
            self.marks.len() as u64 - self.ended
        }
    }

    /// A driver with `copies` entries of each timer, at deadlines of their own. All of them look live.
    fn crowded(store: &Marks, copies: u64) -> Driver {
        let mut driver = Driver::new(AnyWheel::Hierarchical(Hierarchical::new()));
        for copy in 0..copies {
            for index in 0..store.marks.len() as u32 {
                let deadline = FAR - copy * copy * 7 % FAR;
                driver.wheel.insert(Entry { deadline, index, mark: 9 });
            }
        }
        driver
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
    fn a_sweep_that_achieves_nothing_ends() {
        let mut store = Marks::of(4);
        let mut driver = crowded(&store, ZOMBIE_FLOOR);
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
            while !driver.staging.push(Entry { deadline: FAR, index, mark: 9 }) {
                driver.staging.evict_dead(store, || true, |_| panic!("nothing is due soon"));
            }
        }
        let ended = timers / 5 * 3;
        store.marks[..ended as usize].fill(10);
        store.ended = u64::from(ended);
        store.looks.set(0);
        driver
    }

    #[test]
    fn a_sweep_ends_where_few_of_the_dead_are_left() {
        let mut store = Marks::of(200_000);
        let mut driver = half_dead(&mut store);
        sweep(&mut driver, &mut store);
        assert!(driver.filed() < 80_000 + ZOMBIE_FLOOR, "{} are left", driver.filed());
        assert!(store.looks.get() < 150_000, "it has looked {} times", store.looks.get());
    }

    #[test]
    fn a_sweep_after_a_trim_looks_at_all() {
        let mut store = Marks::of(200_000);
        let mut driver = half_dead(&mut store);
        driver.begin_sweep();
        sweep(&mut driver, &mut store);
        assert_eq!(driver.filed(), 80_000, "nothing dead is left");
        // All but what the staging buffer holds.
        assert!(store.looks.get() > 190_000, "it has looked {} times", store.looks.get());
    }
}
