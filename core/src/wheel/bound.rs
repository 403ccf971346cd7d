//! The bound on zombies: entries of ended and moved timers are swept out, a piece at a time.

use super::timers::dead;
use super::{Records, Sweep, Wheel};
use crate::sync::bounded;

/// Zombies that are always tolerated; beyond it at most as many as there are live timers.
pub const ZOMBIE_FLOOR: u64 = bounded(16 * 1024, 2);

/// Zombies that an owner makes between two looks at the bound: cheap enough to be lost in its cancels.
pub const ZOMBIES_PER_LOOK: u64 = 128;

/// Entries that such a look sweeps if there are too many. Eight for every zombie of a look: a sweep goes round a wheel
/// of twice the bound's size before a quarter more has gathered, and takes some microseconds at a time.
pub(crate) const SWEEP_PER_LOOK: usize = 8 * ZOMBIES_PER_LOOK as usize;

/// Timers that an owner fires between two looks, because each fire lowers what the bound allows.
pub(super) const FIRED_PER_LOOK: u64 = 16 * 1024;

/// Returns whether `entries` in the wheel are more than the zombie bound allows for this many pending timers.
pub fn too_many(entries: u64, pending: impl FnOnce() -> u64) -> bool {
    entries > ZOMBIE_FLOOR && entries > most_entries(pending())
}

/// Returns how many entries the zombie bound allows for this many pending timers.
const fn most_entries(pending: u64) -> u64 {
    pending.saturating_mul(2).saturating_add(ZOMBIE_FLOOR)
}

/// The sweep that keeps the bound, in rounds through all that the wheel holds.
pub(super) struct Bound {
    /// The round under way.
    round: Option<Round>,
    /// Entries at which the bound is looked at again if no round is under way.
    look_at: u64,
    /// Timers fired since the last look at it: each lowers what the bound allows.
    pub(super) fired: u64,
}

#[derive(Clone, Copy, Default)]
struct Round {
    /// Entries removed.
    removed: usize,
    /// A thread has seen many cancels since the sweep began, perhaps of entries that it had checked before.
    requested: bool,
    /// It ends when all has been looked at, not before.
    thorough: bool,
}

impl Default for Bound {
    fn default() -> Self {
        Self {
            round: None,
            look_at: ZOMBIE_FLOOR,
            fired: 0,
        }
    }
}

impl Round {
    /// Returns whether a round may end early. Where timers are cancelled in the order in which they were scheduled,
    /// the dead lie at the log's beginning, and behind them a sweep finds none.
    fn is_enough(&self, entries: u64, records: &impl Records) -> bool {
        !self.thorough && entries <= records.pending() / 8 * 9 + ZOMBIE_FLOOR / 2
    }
}

impl Wheel {
    /// Returns whether a sweep goes on: the next turn takes a piece of it, even if nothing is due.
    #[inline]
    pub(super) fn is_sweeping(&self) -> bool {
        self.bound.round.is_some()
    }

    /// Begins a round of the sweep although there are not too many zombies, which ends when all has been looked at. One
    /// that is under way ends here.
    ///
    /// After a burst the few that the bound allows lie scattered, and keep pieces of memory that are empty otherwise.
    pub(super) fn begin_thorough_round(&mut self) {
        self.end_round();
        self.bound.round = Some(Round {
            thorough: true,
            ..Round::default()
        });
    }

    /// Ends the round that is under way: the next one begins with the oldest entries.
    fn end_round(&mut self) {
        self.rings.restart_sweep();
        self.log.restart_sweep();
        self.bound.round = None;
    }

    /// Sweeps a piece, about `budget` entries, if there are too many zombies; whether the sweep goes on. `requested`: a
    /// thread has seen many cancels.
    ///
    /// The number of pending timers is asked only when requested, where a round is under way, or where the wheel has
    /// grown or many timers have fired since the last look.
    #[inline]
    pub(super) fn sweep(&mut self, records: &impl Records, requested: bool, budget: usize) -> bool {
        let may_exceed =
            self.len() as u64 >= self.bound.look_at || self.bound.fired >= FIRED_PER_LOOK;
        (requested || may_exceed || self.is_sweeping())
            && self.sweep_piece(records, requested, budget)
    }

    /// A round that removes nothing ends the sweep: what is left are entries that look live.
    #[cold]
    #[inline(never)]
    fn sweep_piece(&mut self, records: &impl Records, requested: bool, budget: usize) -> bool {
        self.bound.fired = 0;
        let entries = self.len() as u64;
        let mut round = match self.bound.round {
            Some(round) => Round {
                requested: round.requested | requested,
                ..round
            },
            None if entries <= ZOMBIE_FLOOR => {
                self.bound.look_at = ZOMBIE_FLOOR + 1;
                return false;
            }
            None => {
                let most = most_entries(records.pending());
                if entries <= most {
                    // Look again when there may be too many; cancels alone call the owner themselves.
                    self.bound.look_at = most.saturating_add(1);
                    return false;
                }
                // The young entries are few enough to be gone through at once.
                self.removed += self.log.remove_dead(records).0 as u64;
                Round::default()
            }
        };
        let piece = self.next_piece(budget, records);
        round.removed += piece.removed;
        let entries = self.len() as u64;
        let next = if piece.cycle_done {
            let is_of_use = round.removed > 0 || round.requested;
            (is_of_use && too_many(entries, || records.pending())).then(Round::default)
        } else if piece.removed < piece.examined / 8 && round.is_enough(entries, records) {
            self.end_round();
            None
        } else {
            Some(round)
        };
        self.bound.round = next;
        self.bound.look_at = entries + ZOMBIE_FLOOR;
        next.is_some()
    }

    /// Sweeps the sealed blocks of the log, and then the rings, to which they move.
    pub(super) fn next_piece(&mut self, budget: usize, records: &impl Records) -> Sweep {
        let mut piece = self.log.sweep(budget, records);
        if core::mem::take(&mut piece.cycle_done) {
            let left = budget.saturating_sub(piece.examined);
            let rest = self
                .rings
                .sweep(left, &mut |entries| dead(records, entries));
            piece.examined += rest.examined;
            piece.removed += rest.removed;
            piece.cycle_done = rest.cycle_done;
            if rest.cycle_done {
                self.log.restart_sweep();
            }
        }
        self.removed += piece.removed as u64;
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::Entry;
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

    impl Records for Marks {
        fn is_live(&self, entry: &Entry) -> bool {
            self.looks.set(self.looks.get() + 1);
            self.marks[entry.index as usize] == entry.mark
        }

        fn prefetch(&self, _: &Entry) {}

        fn pending(&self) -> u64 {
            self.marks.len() as u64 - self.ended
        }
    }

    /// Returns a wheel with `copies` entries of each timer, at deadlines of their own. All of them look live.
    fn crowded(store: &Marks, copies: u64) -> Wheel {
        let mut wheel = Wheel::default();
        for copy in 0..copies {
            for index in 0..store.marks.len() as u32 {
                let deadline = FAR - copy * copy * 7 % FAR;
                wheel.rings.insert(Entry {
                    deadline,
                    index,
                    mark: 9,
                });
            }
        }
        wheel
    }

    /// Sweeps a piece where a turn would; whether the sweep goes on.
    fn keeps_bounded(wheel: &mut Wheel, store: &Marks, requested: bool) -> bool {
        wheel.sweep(store, requested, 500)
    }

    fn sweep(wheel: &mut Wheel, store: &Marks) -> usize {
        let most = 20 * wheel.len() / 500;
        let calls = (0..most)
            .take_while(|_| keeps_bounded(wheel, store, false))
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
        let store = Marks::of(4);
        let mut wheel = crowded(&store, ZOMBIE_FLOOR);
        let inserted = wheel.len() as u64;
        assert!(sweep(&mut wheel, &store) > 0);
        assert_eq!(wheel.len() as u64, inserted);
        // Until there are more of them.
        assert!(!keeps_bounded(&mut wheel, &store, false));
        for _ in 0..ZOMBIE_FLOOR {
            wheel.rings.insert(Entry {
                deadline: 5,
                index: 0,
                mark: 1,
            });
        }
        assert!(keeps_bounded(&mut wheel, &store, false));
        sweep(&mut wheel, &store);
        assert_eq!(
            wheel.len() as u64,
            inserted,
            "and then the dead among them go"
        );
    }

    /// Returns a wheel whose log has an entry of each timer.
    fn logged(store: &mut Marks) -> Wheel {
        let mut wheel = Wheel::default();
        let timers = store.marks.len() as u32;
        // The log seals what it has, because all seem to be zombies.
        store.ended = timers.into();
        for index in 0..timers {
            while !wheel.log.push(Entry {
                deadline: FAR,
                index,
                mark: 9,
            }) {
                wheel.begin_block(store);
            }
        }
        (store.ended, store.looks) = (0, Cell::new(0));
        wheel
    }

    /// Returns a wheel whose log, or whose wheel, has an entry of each timer, of which the older 60 % have ended.
    fn half_dead(store: &mut Marks, in_log: bool) -> Wheel {
        let wheel = if in_log {
            logged(store)
        } else {
            crowded(store, 1)
        };
        let ended = store.marks.len() / 5 * 3;
        store.marks[..ended].fill(10);
        store.ended = ended as u64;
        wheel
    }

    #[test]
    fn a_sweep_ends_where_few_of_the_dead_are_left_unless_it_follows_a_trim() {
        for (follows_a_trim, in_log) in [false, true]
            .into_iter()
            .flat_map(|trim| [(trim, false), (trim, true)])
        {
            let mut store = Marks::of(200_000);
            let mut wheel = half_dead(&mut store, in_log);
            if follows_a_trim {
                wheel.begin_thorough_round();
            }
            sweep(&mut wheel, &store);
            let (left, looks) = (wheel.len() as u64 - 80_000, store.looks.get());
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
            let mut wheel = crowded(&store, 1);
            // 19 of 20 of the older 120 000.
            (0..120_000)
                .filter(|n| n % 20 != 0)
                .for_each(|n| store.marks[n] = 10);
            store.ended = 114_000;
            if ends_early {
                sweep(&mut wheel, &store);
                let left = wheel.len() as u64;
                assert!((86_000..100_000).contains(&left), "{left} left");
            } else {
                assert!((0..50).all(|_| keeps_bounded(&mut wheel, &store, false)));
            }
            store.marks[..120_000].fill(10);
            store.ended = 120_000;
            wheel.begin_thorough_round();
            sweep(&mut wheel, &store);
            assert_eq!(wheel.len() as u64, 80_000);
        }
    }

    /// They move to the rings, which a sweep comes to later.
    #[test]
    fn the_dead_among_what_waits_for_the_next_turn_are_swept_as_well() {
        let count = 2 * ZOMBIE_FLOOR as usize;
        let mut store = Marks::of(count);
        store.marks[1..].fill(10);
        store.ended = count as u64 - 1;
        for moves_on in [false, true] {
            let mut wheel = Wheel::default();
            for index in 0..count as u32 {
                assert!(wheel.rings.defer(Entry {
                    deadline: FAR,
                    index,
                    mark: 9,
                }));
            }
            assert_eq!(wheel.rings.deferred.min, FAR);
            assert!(keeps_bounded(&mut wheel, &store, false), "a first piece");
            if moves_on {
                wheel.rings.insert_deferred();
                assert!(wheel.rings.deferred.is_empty());
            }
            sweep(&mut wheel, &store);
            assert!(wheel.len() as u64 <= ZOMBIE_FLOOR, "{} left", wheel.len());
            wheel.rings.insert_deferred();
            assert_eq!(wheel.rings.earliest(), Some(FAR));
        }
    }

    #[test]
    fn a_sweep_passes_living_timers_while_there_are_too_many_entries() {
        let mut store = Marks::of(31_000);
        let mut wheel = logged(&mut store);
        store.marks[1_000..].fill(10);
        store.ended = 30_000;
        sweep(&mut wheel, &store);
        let left = wheel.len() as u64;
        assert!(!too_many(left, || store.pending()), "{left} left");
    }

    #[test]
    fn a_round_that_removes_some_or_is_requested_again_leads_to_another_one() {
        for (dead, requests) in [(0, 0), (0, 1), (0, 2), (100, 0)] {
            let mut store = Marks::of(20_000);
            let mut wheel = logged(&mut store);
            store.marks[1..=dead].fill(10);
            // So many entries in the wheel that look live that there are too many.
            for nth in 0..20_000 {
                let deadline = FAR - nth * nth * 7 % FAR;
                wheel.rings.insert(Entry {
                    deadline,
                    index: 0,
                    mark: 9,
                });
            }
            store.ended = 19_996;
            while store.looks.get() < 30_000 {
                assert!(keeps_bounded(&mut wheel, &store, false));
            }
            // Those that die now lie in the log, where this round does not come any more.
            store.marks[1..10_000].fill(10);
            (0..requests).for_each(|_| _ = keeps_bounded(&mut wheel, &store, true));
            sweep(&mut wheel, &store);
            let removed = 40_000 - wheel.len() as u64;
            let goes_on = dead > 0 || requests > 0;
            assert_eq!(removed, if goes_on { 9_999 } else { 0 });
        }
    }
}
