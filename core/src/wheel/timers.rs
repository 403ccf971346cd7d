//! The entry, what a wheel stores of a timer, and the questions that it asks about the timers behind its entries.

use core::alloc::Layout;

/// The part of a timer that a wheel stores: 16 bytes of plain data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The tick at which the entry is due.
    pub deadline: u64,
    /// The timer's place in its node table; the wheel only carries it.
    pub index: u32,
    /// A value for the owner, for example a generation; the wheel only carries it.
    pub mark: u32,
}

const _: () = assert!(core::mem::size_of::<Entry>() == 16);

/// Ends the process: there is no memory for an entry of an accepted timer, and no caller to tell.
#[cold]
#[inline(never)]
pub fn no_memory() -> ! {
    alloc::alloc::handle_alloc_error(Layout::new::<Entry>())
}

/// The timers behind the entries.
pub trait Records {
    /// Returns whether an entry stands for a pending timer.
    fn is_live(&self, entry: &Entry) -> bool;

    /// Announces that it will be asked for soon.
    fn prefetch(&self, entry: &Entry);

    /// Returns the number of pending timers.
    fn pending(&self) -> u64;
}

/// A table's decision about an entry that came due.
#[must_use]
pub enum Fate<F> {
    /// The timer fires now.
    Fire(F),
    /// Not due any more: insert the entry again for this tick, with this mark.
    Reinsert { tick: u64, mark: u32 },
    /// A zombie.
    Drop,
}

/// The timers behind the entries, and what becomes of one that is due.
pub trait TimerStore: Records {
    /// A timer that has fired.
    type Fired;

    /// Announces that it will be decided about soon.
    #[inline]
    fn prefetch_due(&self, entry: &Entry) {
        self.prefetch(entry);
    }

    /// Decides about an entry that is due at `now`.
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Self::Fired>;
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
