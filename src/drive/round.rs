//! A round of the sweep: what it counts, and how it finds timers that have several entries.

use super::TimerStore;
use crate::sync::bounded;
use crate::wheel::Entry;
use alloc::vec::Vec;

/// Zombies that are always tolerated; beyond it at most as many as there are live timers.
pub(super) const ZOMBIE_FLOOR: u64 = bounded(16 * 1024, 2);

/// Whether `entries` in the wheel are more than the zombie bound allows for this many pending timers.
pub(crate) fn too_many(entries: u64, pending: impl FnOnce() -> u64) -> bool {
    entries > ZOMBIE_FLOOR && entries > pending().saturating_mul(2).saturating_add(ZOMBIE_FLOOR)
}

/// One round of the sweep.
#[derive(Default)]
pub(super) struct Round {
    /// Entries removed, duplicates included.
    pub(super) removed: usize,
    /// Somebody has seen many cancels since it began, perhaps of entries that it had looked at before.
    pub(super) requested: bool,
    /// It has been through the sealed log and goes round the wheel.
    pub(super) past_log: bool,
    /// It ends when all has been looked at, not before.
    pub(super) thorough: bool,
    /// In a round that looks for timers with more than one entry: those that it has come across.
    pub(super) met: Option<Met>,
}

/// A set of timers, by index.
#[derive(Default)]
pub(super) struct Met(Vec<u64>);

impl Met {
    /// Adds a timer, or removes one that is there already; whether it was there.
    fn toggle(&mut self, index: u32) -> bool {
        let word = index as usize / 64;
        if word >= self.0.len() {
            if self.0.try_reserve(word + 1 - self.0.len()).is_err() {
                return false;
            }
            self.0.resize(word + 1, 0);
        }
        let (bit, word) = (1 << (index % 64), &mut self.0[word]);
        *word ^= bit;
        *word & bit == 0
    }
}

/// Which of these entries are duplicates: entries of timers that a round has met before. Such a timer gets a new entry
/// in place of all that it has, which are dead from then on.
pub(super) fn duplicates<S: TimerStore>(
    store: &mut S,
    met: &mut Met,
    entries: &[Entry],
    renewed: &mut Vec<Entry>,
) -> u64 {
    let mut mask = 0;
    for (place, entry) in entries.iter().enumerate() {
        // Asked anew: an entry before this one may have been the reason for its death.
        let is_first = !store.is_live(entry) || !met.toggle(entry.index);
        if is_first || renewed.try_reserve(1).is_err() {
            continue;
        }
        if let Some(entry) = store.renew_entry(*entry) {
            renewed.push(entry);
            mask |= 1 << place;
        }
    }
    mask
}
