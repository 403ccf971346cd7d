//! The store of timers that a driver uses.

#[cfg(feature = "threads")]
use crate::types::Key;
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

/// A timer that has fired, or that `stop` has returned, on its way out.
#[cfg(feature = "threads")]
pub(crate) struct Fired<T> {
    pub(crate) payload: T,
    pub(crate) key: Key<T>,
    /// The tick at or after which the timer was to fire.
    pub(crate) deadline: u64,
    /// One call of a periodic timer.
    pub(crate) periodic: bool,
}

/// The timers behind the entries, and what becomes of one that is due.
pub(crate) trait TimerStore: Records {
    /// A timer that has fired.
    type Fired;

    /// Decides about an entry that is due at `now`.
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Self::Fired>;
}
