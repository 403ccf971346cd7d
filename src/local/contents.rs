//! `LocalTimer`: all that it holds, and the memory for it.

use super::timer::LocalTimer;
use crate::time::Time;
use crate::types::{Budget, Key, Unfired};

impl<T> LocalTimer<T> {
    /// All pending timers with their deadlines, in no particular order. O(peak number of timers).
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, Time, &T)> {
        self.table.iter().map(|(key, tick, payload)| (key, self.rate.start_of(tick), payload))
    }

    /// Drops all pending timers. O(peak number of timers).
    pub fn clear(&mut self) {
        self.drain().for_each(drop);
    }

    /// Takes all pending timers out, in no particular order; those that the iterator has not come to when
    /// it is dropped are dropped with it. O(peak number of timers).
    pub fn drain(&mut self) -> impl Iterator<Item = Unfired<T>> {
        // The entries may go first, because no node stays: the iterator takes the rest when it is dropped.
        self.driver.clear();
        self.unlooked = 0;
        let rate = self.rate;
        let unfired =
            move |(key, tick, payload)| Unfired { payload, key, deadline: rate.start_of(tick) };
        self.table.drain().map(unfired)
    }

    /// Changes how much one poll may do before it returns to the loop. A zero counts as one.
    pub fn set_budget(&mut self, budget: Budget) {
        self.budget = budget.at_least_one();
    }

    /// Makes room for `timers` more pending ones: scheduling that many allocates no node. Wheel and queue grow by
    /// themselves, a chunk at a time.
    pub fn reserve(&mut self, timers: usize) {
        self.table.reserve(timers);
    }

    /// Gives back the memory of nodes behind the last one in use; chunks of entries are given back by themselves.
    /// O(peak number of timers).
    pub fn shrink_to_fit(&mut self) {
        self.table.shrink_to_fit();
    }

    /// Bytes held for nodes and wheel, reserves included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.table.held_bytes() + self.driver.held_bytes()
    }
}
