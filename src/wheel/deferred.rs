//! The entries that wait for the next turn.

use super::bound::ZOMBIE_FLOOR;
use super::{Entry, Records, Wheel};
use alloc::vec::Vec;
use core::mem::{size_of, take};

/// Entries inserted during a turn that are due already: they wait for the next turn, so that a handler that schedules
/// zero delays for ever cannot keep a turn going.
pub(crate) struct Deferred {
    pub(crate) entries: Vec<Entry>,
    /// At or before every deadline; `u64::MAX` when there is none.
    pub(crate) min: u64,
    /// Entries at which the dead among them are looked for.
    limit: usize,
}

impl Default for Deferred {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            min: u64::MAX,
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
    pub(crate) fn push(&mut self, entry: Entry) -> bool {
        let has_room = self.entries.try_reserve(1).is_ok();
        if has_room {
            self.entries.push(entry);
            self.min = self.min.min(entry.deadline);
        }
        has_room
    }

    /// Removes the dead if there are many, as a handler leaves them that moves timers to and fro for long; how many.
    pub(super) fn remove_dead(&mut self, records: &impl Records) -> usize {
        let before = self.entries.len();
        if before >= self.limit {
            self.entries.retain(|entry| records.is_live(entry));
            let deadlines = self.entries.iter().map(|entry| entry.deadline);
            self.min = deadlines.min().unwrap_or(u64::MAX);
            self.limit = (2 * self.entries.len()).max(ZOMBIE_FLOOR as usize);
        }
        before - self.entries.len()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

impl Wheel {
    /// Inserts the entries that have waited for this turn.
    #[inline]
    pub(crate) fn insert_deferred(&mut self) {
        if !self.deferred.entries.is_empty() {
            self.insert_some_deferred();
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_some_deferred(&mut self) {
        let Deferred { mut entries, .. } = take(&mut self.deferred);
        entries.drain(..).for_each(|entry| self.insert(entry));
        // What one turn with very many of them took goes back.
        if entries.capacity() <= ZOMBIE_FLOOR as usize {
            self.deferred.entries = entries;
        }
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_memory_of_very_many_goes_back() {
        for (count, stays) in [(10, true), (2 * ZOMBIE_FLOOR, false)] {
            let mut wheel = Wheel::new();
            for index in 0..count as u32 {
                assert!(wheel.deferred.push(Entry {
                    deadline: 7,
                    index,
                    mark: 0,
                }));
            }
            wheel.insert_deferred();
            assert_eq!(wheel.len() as u64, count);
            assert_eq!(
                wheel.deferred.entries.capacity() > 0,
                stays,
                "{count} entries"
            );
        }
    }
}
