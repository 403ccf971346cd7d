//! A turn under way, and the entries that wait for the next one.

use super::{TimerStore, ZOMBIE_FLOOR};
use crate::wheel::{Entry, Wheel};
use alloc::vec::Vec;

/// A turn under way: what it is about and what it may still do.
#[must_use = "a turn that has begun must be finished"]
pub(crate) struct TurnState {
    /// The tick that it is about.
    pub(crate) now: u64,
    /// Entries that may still be looked at.
    pub(crate) left: usize,
    /// Timers fired.
    pub(crate) fired: usize,
    /// The budget is used up and more may be due.
    pub(crate) cut_short: bool,
}

impl TurnState {
    pub(crate) const fn new(now: u64, budget: usize) -> Self {
        Self {
            now,
            left: budget,
            fired: 0,
            cut_short: false,
        }
    }
}

/// Entries inserted during a turn that are due already: they wait for the next turn, so that a handler that schedules
/// zero delays for ever cannot keep a turn going.
pub(super) struct Deferred {
    pub(super) entries: Vec<Entry>,
    /// Entries at which the dead among them are looked for.
    limit: usize,
}

impl Default for Deferred {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            limit: ZOMBIE_FLOOR as usize,
        }
    }
}

impl Deferred {
    /// Makes room for the first hundred entries; false if there is no memory.
    #[cfg(feature = "threads")]
    pub(super) fn reserve_first(&mut self) -> bool {
        self.entries.try_reserve(100).is_ok()
    }

    /// Appends an entry; false if there is no memory.
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        let has_room = self.entries.try_reserve(1).is_ok();
        if has_room {
            self.entries.push(entry);
        }
        has_room
    }

    /// Inserts all of them.
    #[inline]
    pub(super) fn insert(&mut self, wheel: &mut Wheel) {
        if !self.entries.is_empty() {
            self.insert_some(wheel);
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_some(&mut self, wheel: &mut Wheel) {
        self.entries.drain(..).for_each(|entry| wheel.insert(entry));
        // What one turn with very many of them took goes back.
        if self.entries.capacity() > ZOMBIE_FLOOR as usize {
            self.entries = Vec::new();
        }
        self.limit = ZOMBIE_FLOOR as usize;
    }

    /// Removes the dead if there are many, as a handler leaves them that moves timers to and fro for long; how many.
    pub(super) fn remove_dead(&mut self, store: &impl TimerStore) -> usize {
        let before = self.entries.len();
        if before >= self.limit {
            self.entries.retain(|entry| store.is_live(entry));
            self.limit = (2 * self.entries.len()).max(ZOMBIE_FLOOR as usize);
        }
        before - self.entries.len()
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::wheel::Wheel;

    #[test]
    fn only_the_memory_of_very_many_goes_back() {
        for (count, stays) in [(10, true), (2 * ZOMBIE_FLOOR, false)] {
            let mut deferred = Deferred::default();
            for index in 0..count as u32 {
                deferred.entries.push(Entry {
                    deadline: 7,
                    index,
                    mark: 0,
                });
            }
            let mut wheel = Wheel::new();
            deferred.insert(&mut wheel);
            assert_eq!(wheel.len() as u64, count);
            assert_eq!(deferred.entries.capacity() > 0, stays, "{count} entries");
        }
    }
}
