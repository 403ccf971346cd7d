//! What a wheel asks about the timers behind its entries.

use super::Entry;

/// The timers behind the entries.
pub(crate) trait Records {
    /// Returns whether an entry stands for a pending timer.
    fn is_live(&self, entry: &Entry) -> bool;

    /// Announces that it will be asked for soon.
    fn prefetch(&self, entry: &Entry);

    /// Returns the number of pending timers.
    fn pending(&self) -> u64;
}

/// Returns which of these entries are dead, as a [mask](super::DeadMask).
#[inline]
pub(super) fn dead(records: &impl Records, entries: &[Entry]) -> u64 {
    entries.iter().for_each(|entry| records.prefetch(entry));
    let dead = |(place, entry): (usize, &Entry)| u64::from(!records.is_live(entry)) << place;
    entries
        .iter()
        .enumerate()
        .map(dead)
        .fold(0, |mask, bit| mask | bit)
}
