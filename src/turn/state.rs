//! A turn under way.

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
