//! The bound on zombies: entries of ended and moved timers are swept out, a piece at a time.

use super::TimerStore;
use super::log::Log;
use crate::sync::bounded;
use crate::wheel::{Entry, Sweep, Wheel};

/// Zombies that are always tolerated; beyond it at most as many as there are live timers.
pub(crate) const ZOMBIE_FLOOR: u64 = bounded(16 * 1024, 2);

/// Zombies that an owner makes between two looks at the bound: cheap enough to be lost in its cancels.
pub(crate) const ZOMBIES_PER_LOOK: u64 = 128;

/// Entries that such a look sweeps if there are too many. Eight for every zombie of a look: a sweep goes round a wheel
/// of twice the bound's size before a quarter more has gathered, and takes some microseconds at a time.
pub(super) const SWEEP_PER_LOOK: usize = 8 * ZOMBIES_PER_LOOK as usize;

/// Timers that an owner fires between two looks, because each fire lowers what the bound allows.
pub(super) const FIRED_PER_LOOK: u64 = 16 * 1024;

/// Returns whether `entries` in the wheel are more than the zombie bound allows for this many pending timers.
pub(crate) fn too_many(entries: u64, pending: impl FnOnce() -> u64) -> bool {
    entries > ZOMBIE_FLOOR && entries > pending().saturating_mul(2).saturating_add(ZOMBIE_FLOOR)
}

/// Returns which of these entries are dead, as a [mask](crate::wheel::DeadMask).
#[inline]
fn dead<S: TimerStore>(store: &S, entries: &[Entry]) -> u64 {
    entries.iter().for_each(|entry| store.prefetch(entry));
    let dead = |(place, entry): (usize, &Entry)| u64::from(!store.is_live(entry)) << place;
    entries
        .iter()
        .enumerate()
        .map(dead)
        .fold(0, |mask, bit| mask | bit)
}

/// The sweep that keeps the bound, in rounds through the log and then the wheel.
pub(super) struct ZombieBound {
    /// The round under way.
    round: Option<Round>,
    /// Entries at which the bound is looked at again: 0 while a round is under way.
    pub(super) look_at: u64,
    /// Zombies removed since the beginning.
    pub(super) swept: u64,
}

#[derive(Clone, Copy, Default)]
struct Round {
    /// Entries removed.
    removed: usize,
    /// A thread has seen many cancels since the sweep began, perhaps of entries that it had checked before.
    requested: bool,
    /// It has been through the log and goes round the wheel.
    past_log: bool,
    /// It ends when all has been looked at, not before.
    thorough: bool,
}

impl Default for ZombieBound {
    fn default() -> Self {
        Self {
            round: None,
            look_at: ZOMBIE_FLOOR,
            swept: 0,
        }
    }
}

impl ZombieBound {
    /// Begins a round that ends when all has been looked at. One that is under way ends here.
    #[cfg(feature = "threads")]
    pub(super) fn begin_thorough(&mut self, log: &mut Log) {
        log.end_round();
        self.round = Some(Round {
            thorough: true,
            ..Round::default()
        });
        self.look_at = 0;
    }

    /// Returns whether a round is under way.
    #[inline]
    pub(super) fn is_sweeping(&self) -> bool {
        self.round.is_some()
    }

    /// Ends the round under way, because there is nothing left.
    pub(super) fn stop(&mut self) {
        (self.round, self.look_at) = (None, ZOMBIE_FLOOR);
    }

    /// Sweeps a piece, about `budget` entries, if there are too many zombies; whether the sweep goes on.
    ///
    /// A round that removes nothing ends the sweep: what is left are entries that look live.
    pub(super) fn sweep<S: TimerStore>(
        &mut self,
        log: &mut Log,
        wheel: &mut Wheel,
        store: &S,
        requested: bool,
        budget: usize,
    ) -> bool {
        let entries = (wheel.len() + log.len()) as u64;
        let mut round = if let Some(round) = self.round {
            Round {
                requested: round.requested | requested,
                ..round
            }
        } else {
            if !too_many(entries, || store.pending()) {
                // Look again when a quarter more has gathered; cancels alone call the owner themselves.
                self.look_at = entries + entries / 4 + ZOMBIE_FLOOR;
                return false;
            }
            // The young entries are few enough to be gone through at once.
            self.swept += log.remove_dead(store).0 as u64;
            Round::default()
        };
        let sweep = round.go_on(log, wheel, store, budget);
        self.swept += sweep.removed as u64;
        let entries = (wheel.len() + log.len()) as u64;
        self.round = if sweep.cycle_done {
            let is_of_use = round.removed > 0 || round.requested;
            (is_of_use && too_many(entries, || store.pending())).then(Round::default)
        } else if sweep.removed < sweep.examined / 8 && round.is_enough(entries, store) {
            log.end_round();
            None
        } else {
            Some(round)
        };
        self.look_at = if self.round.is_some() {
            0
        } else {
            entries + ZOMBIE_FLOOR
        };
        self.round.is_some()
    }
}

impl Round {
    /// Looks at about `budget` entries: first those of the log, and then those of the wheel.
    fn go_on<S: TimerStore>(
        &mut self,
        log: &mut Log,
        wheel: &mut Wheel,
        store: &S,
        budget: usize,
    ) -> Sweep {
        let mut sweep = Sweep {
            examined: 0,
            removed: 0,
            cycle_done: false,
        };
        if !self.past_log {
            sweep = log.sweep(budget, store);
            self.past_log = core::mem::take(&mut sweep.cycle_done);
            if self.past_log {
                // An earlier round may have ended half-way.
                wheel.restart_sweep();
            }
        }
        if self.past_log {
            let left = budget.saturating_sub(sweep.examined);
            let in_wheel = wheel.sweep_batches(left, &mut |entries| dead(store, entries));
            sweep.examined += in_wheel.examined;
            sweep.removed += in_wheel.removed;
            sweep.cycle_done = in_wheel.cycle_done;
        }
        self.removed += sweep.removed;
        sweep
    }

    /// Returns whether a round may end early. Where timers are cancelled in the order in which they were scheduled,
    /// the dead lie at the log's beginning, and behind them a sweep finds none.
    fn is_enough<S: TimerStore>(&self, entries: u64, store: &S) -> bool {
        !self.thorough && entries <= store.pending() / 8 * 9 + ZOMBIE_FLOOR / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Driver;
    use crate::drive::Fate;
    use crate::drive::turn::Deferred;
    use crate::wheel::Wheel;
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
            Self {
                marks: vec![9; timers],
                ended: 0,
                looks: Cell::new(0),
            }
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

    /// Returns a driver with `copies` entries of each timer, at deadlines of their own. All of them look live.
    fn crowded(store: &Marks, copies: u64) -> Driver {
        let mut driver = Driver::new();
        for copy in 0..copies {
            for index in 0..store.marks.len() as u32 {
                let deadline = FAR - copy * copy * 7 % FAR;
                driver.wheel.insert(Entry {
                    deadline,
                    index,
                    mark: 9,
                });
            }
        }
        driver
    }

    fn sweep(driver: &mut Driver, store: &mut Marks) -> usize {
        let most = 20 * driver.inserted() as usize / 500;
        let calls = (0..most)
            .take_while(|_| driver.keep_bounded(store, false, 500))
            .count();
        assert!(calls < most, "the sweep goes on and on");
        calls
    }

    #[test]
    fn twice_the_pending_entries_and_a_floor_are_not_too_many() {
        assert!(!too_many(ZOMBIE_FLOOR, || 0) && too_many(ZOMBIE_FLOOR + 1, || 0));
        let live = || ZOMBIE_FLOOR;
        assert!(!too_many(3 * ZOMBIE_FLOOR, live) && too_many(3 * ZOMBIE_FLOOR + 1, live));
    }

    #[test]
    fn a_sweep_that_achieves_nothing_ends() {
        let mut store = Marks::of(4);
        let mut driver = crowded(&store, ZOMBIE_FLOOR);
        let inserted = driver.inserted();
        assert!(sweep(&mut driver, &mut store) > 0);
        assert_eq!(driver.inserted(), inserted);
        // Until there are more of them.
        assert!(!driver.keep_bounded(&mut store, false, 500));
        for _ in 0..ZOMBIE_FLOOR {
            driver.wheel.insert(Entry {
                deadline: 5,
                index: 0,
                mark: 1,
            });
        }
        assert!(driver.keep_bounded(&mut store, false, 500));
        sweep(&mut driver, &mut store);
        assert_eq!(
            driver.inserted(),
            inserted,
            "and then the dead among them go"
        );
    }

    /// Returns a driver whose log has an entry of each timer.
    fn logged(store: &mut Marks) -> Driver {
        let mut driver = Driver::new();
        let timers = store.marks.len() as u32;
        for index in 0..timers {
            while !driver.log.push(Entry {
                deadline: FAR,
                index,
                mark: 9,
            }) {
                driver
                    .log
                    .make_room(store, || true, |_| panic!("nothing is due soon"));
            }
        }
        store.looks.set(0);
        driver
    }

    /// Returns a driver whose log, or whose wheel, has an entry of each timer, of which the older 60 % have ended.
    fn half_dead(store: &mut Marks, in_log: bool) -> Driver {
        let driver = if in_log {
            logged(store)
        } else {
            crowded(store, 1)
        };
        let ended = store.marks.len() / 5 * 3;
        store.marks[..ended].fill(10);
        store.ended = ended as u64;
        driver
    }

    #[test]
    fn a_sweep_ends_where_few_of_the_dead_are_left_unless_it_follows_a_trim() {
        for (follows_a_trim, in_log) in [false, true]
            .into_iter()
            .flat_map(|trim| [(trim, false), (trim, true)])
        {
            let mut store = Marks::of(200_000);
            let mut driver = half_dead(&mut store, in_log);
            if follows_a_trim {
                driver.begin_sweep();
            }
            sweep(&mut driver, &mut store);
            let (left, looks) = (driver.inserted() - 80_000, store.looks.get());
            // A thorough one looks at all but the young ones.
            let is_thorough = left == 0 && looks > 190_000;
            let is_short = left < ZOMBIE_FLOOR && looks < 150_000;
            assert!(
                if follows_a_trim {
                    is_thorough
                } else {
                    is_short
                },
                "{left} left, {looks} looks"
            );
        }
    }

    #[test]
    fn a_thorough_sweep_sees_what_one_that_ended_early_has_passed() {
        for ends_early in [false, true] {
            let mut store = Marks::of(200_000);
            let mut driver = crowded(&store, 1);
            // 19 of 20 of the older 120 000.
            (0..120_000)
                .filter(|n| n % 20 != 0)
                .for_each(|n| store.marks[n] = 10);
            store.ended = 114_000;
            if ends_early {
                sweep(&mut driver, &mut store);
                let left = driver.inserted();
                assert!((86_000..100_000).contains(&left), "{left} left");
            } else {
                assert!((0..50).all(|_| driver.keep_bounded(&mut store, false, 500)));
            }
            store.marks[..120_000].fill(10);
            store.ended = 120_000;
            driver.begin_sweep();
            sweep(&mut driver, &mut store);
            assert_eq!(driver.inserted(), 80_000);
        }
    }

    #[test]
    fn deferred_entries_are_looked_at_again_when_there_are_twice_as_many() {
        let count = 2 * ZOMBIE_FLOOR as usize;
        let mut store = Marks::of(count);
        let mut deferred = Deferred::default();
        let defer = |deferred: &mut Deferred, count| {
            for index in 0..count as u32 {
                let entry = Entry {
                    deadline: FAR,
                    index,
                    mark: 9,
                };
                assert!(deferred.push(entry));
            }
        };
        defer(&mut deferred, count);
        for _ in 0..3 {
            assert_eq!(deferred.remove_dead(&store), 0);
        }
        assert_eq!(store.looks.get(), count, "they are looked at once");
        // The next turn's are others.
        deferred.insert(&mut Wheel::new());
        store.marks.fill(10);
        defer(&mut deferred, count / 2);
        assert_eq!(deferred.remove_dead(&store), count / 2);
        store.marks.fill(9);
        defer(&mut deferred, count);
        assert_eq!(deferred.remove_dead(&store), 0);
        store.marks.fill(10);
        defer(&mut deferred, count);
        for removed in [2 * count, 0] {
            assert_eq!(deferred.remove_dead(&store), removed);
        }
    }

    #[test]
    fn a_sweep_passes_living_timers_while_there_are_too_many_entries() {
        let mut store = Marks::of(31_000);
        let mut driver = logged(&mut store);
        store.marks[1_000..].fill(10);
        store.ended = 30_000;
        sweep(&mut driver, &mut store);
        let left = driver.inserted();
        assert!(!too_many(left, || store.pending()), "{left} left");
    }

    #[test]
    fn a_round_that_removes_some_or_is_requested_again_leads_to_another_one() {
        for (dead, requests) in [(0, 0), (0, 1), (0, 2), (100, 0)] {
            let mut store = Marks::of(20_000);
            let mut driver = logged(&mut store);
            store.marks[1..=dead].fill(10);
            // So many entries in the wheel that look live that there are too many.
            for nth in 0..20_000 {
                let deadline = FAR - nth * nth * 7 % FAR;
                driver.wheel.insert(Entry {
                    deadline,
                    index: 0,
                    mark: 9,
                });
            }
            store.ended = 19_996;
            while store.looks.get() < 30_000 {
                assert!(driver.keep_bounded(&mut store, false, 500));
            }
            // Those that die now lie in the log, where this round does not come any more.
            store.marks[1..10_000].fill(10);
            (0..requests).for_each(|_| _ = driver.keep_bounded(&mut store, true, 500));
            sweep(&mut driver, &mut store);
            let removed = 40_000 - driver.inserted();
            let goes_on = dead > 0 || requests > 0;
            assert_eq!(removed, if goes_on { 9_999 } else { 0 });
        }
    }
}
