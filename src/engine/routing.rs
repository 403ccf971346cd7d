//! Which shard a thread's timers go to: its home. See [`Builder::shards`](super::Builder::shards).

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::segments::{Segments, Zeroable};

/// Not dealt yet.
const NONE: u32 = 0;

// SAFETY: zero bytes are the integer 0: not dealt yet.
unsafe impl Zeroable for AtomicU32 {}

/// Deals threads out to shards.
pub(super) struct Router {
    shards: u32,
    next: AtomicU32,
    /// Each thread's home, plus one; indexed by its slot; its holder is the only writer.
    homes: Segments<AtomicU32>,
}

impl Router {
    pub(super) fn new(shards: usize) -> Self {
        let shards = u32::try_from(shards).unwrap_or(1).max(1);
        Self {
            shards,
            next: AtomicU32::new(0),
            homes: Segments::new(),
        }
    }

    /// Returns the home of the thread that holds `slot`. O(1), no shared writes.
    #[inline]
    pub(super) fn route(&self, slot: u32) -> usize {
        if self.shards == 1 {
            return 0;
        }
        let Some(home) = self.homes.try_get_or_alloc(slot) else {
            // No memory to remember where the thread was sent: by its number, which stays.
            return (slot % self.shards) as usize;
        };
        // ORDERING: Relaxed: only the slot's holder reads and writes it.
        let dealt = match home.load(Ordering::Relaxed) {
            NONE => self.deal(home),
            dealt => dealt,
        };
        dealt as usize - 1
    }

    #[cold]
    fn deal(&self, home: &AtomicU32) -> u32 {
        // ORDERING: Relaxed: only the number matters.
        let dealt = self.next.fetch_add(1, Ordering::Relaxed) % self.shards + 1;
        // ORDERING: Relaxed: as in `route`.
        home.store(dealt, Ordering::Relaxed);
        dealt
    }

    /// Returns whether this shard is the home of the thread that holds `slot`.
    pub(super) fn is_home(&self, slot: u32, shard: usize) -> bool {
        let home = || {
            let home = self.homes.get(slot)?;
            // ORDERING: Relaxed: as in `route`.
            Some(home.load(Ordering::Relaxed) as usize == shard + 1)
        };
        self.shards == 1 || home() == Some(true)
    }

    /// Makes `shard` the home of the thread that holds `slot`, as its worker does.
    pub(super) fn set_home(&self, slot: u32, shard: usize) {
        let home = u32::try_from(shard).unwrap_or(0) % self.shards + 1;
        if let Some(known) = self.homes.try_get_or_alloc(slot) {
            // ORDERING: Relaxed: called by the slot's holder.
            known.store(home, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn as_many_threads_as_shards_use_every_shard() {
        for shards in [1, 2, 3, 16] {
            let router = Router::new(shards);
            // Slots as they come when other engines' threads hold the ones between.
            let used: HashSet<usize> = (0..shards as u32).map(|n| router.route(n * 5)).collect();
            assert_eq!(used.len(), shards);
            let last = || router.route(5 * (shards as u32 - 1));
            assert_eq!(last(), last(), "a thread keeps its shard");
        }
    }
}
