//! A turn under way.

/// A turn under way: what it is about and what it may still do.
#[must_use = "a turn that has begun must be finished"]
pub(crate) struct TurnState {
    /// The tick that it is about.
    now: u64,
    /// Entries that may still be looked at.
    left: usize,
    /// Timers fired.
    fired: usize,
    /// It ends although more may be due.
    is_cut_short: bool,
}

impl TurnState {
    pub(crate) const fn new(now: u64, budget: usize) -> Self {
        Self {
            now,
            left: budget,
            fired: 0,
            is_cut_short: false,
        }
    }

    /// Returns the tick that it is about.
    #[inline(always)]
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// Returns how many entries may still be looked at.
    #[inline(always)]
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Returns how many timers have fired.
    #[inline(always)]
    pub(crate) const fn fired(&self) -> usize {
        self.fired
    }

    /// Returns whether it ends although more may be due.
    #[inline(always)]
    pub(crate) const fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Spends the budget of one entry; if none is left the turn is cut short, and this is false.
    #[inline(always)]
    #[must_use]
    pub(crate) fn spend_one(&mut self) -> bool {
        if self.left == 0 {
            self.is_cut_short = true;
            return false;
        }
        self.left -= 1;
        true
    }

    /// Spends the budget of so many entries, or what is left of it.
    #[inline]
    pub(super) fn spend(&mut self, entries: usize) {
        self.left = self.left.saturating_sub(entries);
    }

    /// Counts a timer that fires.
    #[inline(always)]
    pub(crate) fn count_fired(&mut self) {
        self.fired += 1;
    }

    /// Takes a timer out of the count that has not been handled after all.
    #[cfg(feature = "threads")]
    pub(crate) fn count_not_fired(&mut self) {
        self.fired -= 1;
    }

    /// Notes that more may be due.
    #[inline(always)]
    pub(crate) fn cut_short(&mut self) {
        self.is_cut_short = true;
    }
}
