//! The store of timers behind a wheel's entries.

use crate::wheel::{Entry, Records};

/// A table's decision about an entry that came due.
#[must_use]
pub(crate) enum Fate<F> {
    /// The timer fires now.
    Fire(F),
    /// Not due any more: insert the entry again for this tick, with this mark.
    Reinsert { tick: u64, mark: u32 },
    /// A zombie.
    Drop,
}

/// The timers behind the entries, and what becomes of one that is due.
pub(crate) trait TimerStore: Records {
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
