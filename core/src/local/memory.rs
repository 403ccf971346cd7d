//! `LocalTimer`: all that it holds, and the memory for it.

use super::node::drop_payload;
use super::timer::LocalTimer;
use crate::time::Time;
use crate::types::{Budget, Key, Unfired};
use crate::wheel::ZOMBIES_PER_LOOK;

impl<T> LocalTimer<T> {
    /// Returns all pending timers with their deadlines, in no particular order. O(peak number of timers).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{LocalTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    /// for name in ["a", "b", "c"] {
    ///     timer.schedule(Time::ZERO, Duration::from_secs(1), name)?;
    /// }
    /// for (key, deadline, name) in timer.iter() {
    ///     println!("{name} ({key}) is due at {deadline}");
    /// }
    /// assert_eq!(timer.drain().map(|unfired| unfired.payload.len()).sum::<usize>(), 3);
    /// timer.clear(); // does nothing more
    /// assert!(timer.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, Time, &T)> {
        self.table
            .iter()
            .map(|(key, tick, payload)| (key, self.rate.start_of(tick), payload))
    }

    /// Returns the keys and deadlines of all pending timers, in no particular order. O(peak number of timers).
    pub fn keys(&self) -> impl Iterator<Item = (Key<T>, Time)> {
        self.iter().map(|(key, deadline, _)| (key, deadline))
    }

    /// Drops all pending timers. O(peak number of timers). Their memory serves again; [`shrink_to_fit`](Self::shrink_to_fit)
    /// gives it back at once, and a poll a second later what the wheel had.
    ///
    /// A payload's destructor that panics is logged, here and wherever the timer drops payloads, and the rest is
    /// dropped. Without the feature `std` the panic gets out, and a second one ends the process.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// Takes all pending timers out, in no particular order; those that the iterator has not come to when
    /// it is dropped are dropped with it; if it is forgotten, they stay. O(peak number of timers).
    pub fn drain(&mut self) -> impl Iterator<Item = Unfired<T>> {
        Drain {
            timer: self,
            from: 0,
        }
    }

    /// Changes how much one poll may do before it returns to the loop. A zero counts as one.
    pub fn set_budget(&mut self, budget: Budget) {
        self.budget = budget.at_least_one();
    }

    /// Makes room for `timers` more pending ones: scheduling that many allocates no node. The wheel grows by
    /// itself, a chunk at a time.
    ///
    /// Without memory for all of them there is no more room than before: timers are accepted as long as each finds
    /// memory when it is scheduled.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Budget, LocalTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer = LocalTimer::with_capacity(Duration::from_millis(1), 1000)?;
    /// timer.set_budget(Budget::new().fire(64));
    /// timer.reserve(100_000); // a burst is coming
    /// for n in 0..100_000_u32 {
    ///     timer.schedule(Time::ZERO, Duration::from_secs(1), n)?;
    /// }
    /// let full = timer.held_bytes();
    /// timer.clear();
    /// timer.shrink_to_fit();
    /// assert!(timer.held_bytes() < full);
    /// # Ok(()) }
    /// ```
    pub fn reserve(&mut self, timers: usize) {
        self.table.reserve(timers);
    }

    /// Gives back the memory of nodes behind the last one in use, and at once what polls give back a second after a
    /// burst: the wheel's. O(peak number of timers).
    ///
    /// The nodes that stay are copied, so memory rises for a moment. Without memory for the copy nothing is given back.
    pub fn shrink_to_fit(&mut self) {
        self.table.shrink_to_fit();
        self.wheel.give_back();
    }

    /// Returns how many timers there is room for without another allocation, but of the wheel.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Returns the bytes held for nodes and wheel, reserves included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.table.held_bytes() + self.wheel.held_bytes()
    }
}

/// Ends all pending timers, in no particular order; when it is dropped, also those that it has not yielded.
struct Drain<'a, T> {
    timer: &'a mut LocalTimer<T>,
    /// Nodes before this one are done.
    from: usize,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = Unfired<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, tick, payload) = self.timer.table.take_from(self.from)?;
        self.from = key.index() as usize + 1;
        Some(Unfired {
            payload,
            key,
            deadline: self.timer.rate.start_of(tick),
        })
    }
}

impl<T> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        self.for_each(|unfired| drop_payload(unfired.payload));
        // The entries go last: where this is forgotten, the pending timers are still due.
        self.timer.wheel.clear();
        self.timer.zombies_until_check = ZOMBIES_PER_LOOK;
    }
}
