//! Free nodes, in batches: magazines, the depot they are exchanged through, and each thread's pair of them.
//!
//! After Bonwick & Adams, "Magazines and Vmem" (2001). A *magazine* is an array of free node numbers. A *thread cache*
//! is the pair of magazines of one thread: taking and giving a node touches only the thread cache. Every [`CAPACITY`]
//! nodes at most, a whole magazine goes to or comes from the shard's *depot*, two lock-free stacks. So a node costs a
//! small fraction of a contended read-modify-write each way. The node that was given last is taken first, while its
//! lines are in this core's cache.
//!
//! A node is never written to while it is free: the numbers lie in the magazines, not in the nodes.
//!
//! | field | who may touch it | ordering |
//! |---|---|---|
//! | `ThreadCache::*` | the one thread that holds the thread cache's slot | Relaxed (single writer, single reader) |
//! | `Magazine::nodes` | the thread cache that holds the magazine; none in the depot | Relaxed; handed over by the depot's stacks |
//! | `Magazine::next` | its holder before a push; readers inside `pop` may read it stale | Relaxed; see `sync::stack` |
//! | `Depot::full`, `Depot::empty` | any thread | handed over by the stack |
//!
//! Magazines are never freed before the table, so a reader of a stale link reads a link.

use super::regions::Regions;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::bounded;
use crate::sync::segments::{MAX_SLOTS, Segments, Zeroable};
use crate::sync::stack::Stack;
use crossbeam_utils::CachePadded;
use std::ptr;

/// Node numbers in a magazine: large enough to make the depot rare, small enough that a hundred threads
/// hoard little. Two under loom, so that models exchange magazines.
pub(crate) const CAPACITY: u32 = bounded(63, 2);

/// A batch of free node numbers; `len` lies in the thread cache, or is `CAPACITY` in the depot's full stack.
pub(crate) struct Magazine {
    /// The magazine below this one in a stack, plus one; 0 for none.
    next: AtomicU32,
    pub(super) nodes: [AtomicU32; CAPACITY as usize],
}

// SAFETY: atomics of zero bytes are the integer 0.
unsafe impl Zeroable for Magazine {}

impl Default for Magazine {
    fn default() -> Self {
        Self {
            next: AtomicU32::new(0),
            nodes: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

/// A stack of magazines, each of which lies in one at a time.
#[derive(Default)]
pub(crate) struct Pile(Stack);

impl Pile {
    /// Puts a magazine on top, which the caller has and gives up.
    pub(crate) fn push(&self, magazines: &Segments<Magazine>, number: u32) {
        self.0
            .push(number + 1, &magazines.get_or_alloc(number).next);
    }

    /// Takes the magazine on top, for the caller alone.
    pub(crate) fn pop(&self, magazines: &Segments<Magazine>) -> Option<u32> {
        // ORDERING: Relaxed: as `Stack` says.
        let below = |top| Some(magazines.get(top - 1)?.next.load(Ordering::Relaxed));
        Some(self.0.pop(below)? - 1)
    }
}

/// The questions that a depot asks the table whose nodes it numbers.
pub(crate) trait Nodes {
    /// Makes sure that a node is there that has never served; false if there is no memory for it.
    fn provide(&self, node: u32) -> bool;

    /// Restarts a node that has served before and lost its memory, in a generation that comes after this one.
    fn renew(&self, node: u32, generation: u64);
}

/// The exchange of magazines, and the source of nodes that are in none.
pub(crate) struct Depot {
    pub(super) full: CachePadded<Pile>,
    pub(super) empty: CachePadded<Pile>,
    /// Nodes that no magazine holds any more.
    pub(super) regions: Regions,
    /// The first node that no magazine has ever held.
    fresh: CachePadded<AtomicU64>,
    /// The first magazine that was never used.
    fresh_magazine: AtomicU32,
    pub(super) magazines: Segments<Magazine>,
    /// Nodes that may exist.
    limit: u64,
}

impl Depot {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            full: CachePadded::default(),
            empty: CachePadded::default(),
            regions: Regions::new(),
            fresh: CachePadded::new(AtomicU64::new(0)),
            fresh_magazine: AtomicU32::new(0),
            magazines: Segments::new(),
            limit: limit.min(MAX_SLOTS),
        }
    }

    /// Returns one past the highest node number that was ever handed out.
    pub(crate) fn end(&self) -> u64 {
        // ORDERING: Relaxed: a thread that knows a node finds its number below the end, because what told it
        // comes after the counter's growth; a close by its fence. Nothing is read through it.
        self.fresh.load(Ordering::Relaxed)
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        self.magazines.allocated_bytes() + self.regions.allocated_bytes()
    }

    /// Takes an empty magazine; `None` if there is no memory. Without one that was used before, a fresh one: its memory
    /// exists before any thread has its number.
    fn empty_magazine(&self) -> Option<u32> {
        let used = self.empty.pop(&self.magazines);
        if used.is_some() {
            return used;
        }
        // ORDERING: Relaxed, also in the exchange: the number alone is the result. Magazines are at most one per
        // CAPACITY nodes plus two per thread, so the counter cannot wrap.
        let mut fresh = self.fresh_magazine.load(Ordering::Relaxed);
        loop {
            self.magazines.try_get_or_alloc(fresh)?;
            let (relaxed, next) = (Ordering::Relaxed, fresh + 1);
            match self
                .fresh_magazine
                .compare_exchange(fresh, next, relaxed, relaxed)
            {
                Ok(_) => return Some(fresh),
                Err(now) => fresh = now,
            }
        }
    }

    /// Returns whether every node that may exist has been handed out once.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.end() == self.limit
    }

    /// Puts nodes that are in no magazine into `magazine`, the lowest on top; returns how many.
    fn fill(&self, magazine: &Magazine, nodes: &impl Nodes) -> u32 {
        let (first, count) = match self.regions.take(CAPACITY) {
            Some(run) => {
                (run.first..run.first + run.count)
                    .for_each(|node| nodes.renew(node, run.generation));
                (run.first, run.count)
            }
            None => self.take_fresh(nodes),
        };
        for i in 0..count {
            // ORDERING: Relaxed: the caller holds the magazine.
            magazine.nodes[i as usize].store(first + (count - 1 - i), Ordering::Relaxed);
        }
        count
    }

    /// Takes nodes that were never used: the first one, and how many. Their memory exists before any thread has their
    /// numbers: one without would lie in the way of those that are free.
    fn take_fresh(&self, nodes: &impl Nodes) -> (u32, u32) {
        // ORDERING: Relaxed, as in `end`, also in the exchange: the number alone is the result.
        let mut fresh = self.fresh.load(Ordering::Relaxed);
        loop {
            let (first, count) = (
                fresh as u32,
                (self.limit - fresh).min(CAPACITY.into()) as u32,
            );
            // They lie in two segments at most.
            if count == 0 || !nodes.provide(first) || !nodes.provide(first + count - 1) {
                return (first, 0);
            }
            let (relaxed, next) = (Ordering::Relaxed, fresh + u64::from(count));
            match self.fresh.compare_exchange(fresh, next, relaxed, relaxed) {
                Ok(_) => return (first, count),
                Err(now) => fresh = now,
            }
        }
    }
}

/// One thread's two magazines.
///
/// Two, so that a thread that takes and gives around a magazine's border does not go to the depot each
/// time. Everything in it is atomic only so that the type is `Sync`; it has one writer, the holder.
#[derive(Default)]
pub(crate) struct ThreadCache {
    /// Where the loaded magazine lies, so that it need not be looked up; null if there is none.
    place: AtomicPtr<Magazine>,
    /// The magazine's number plus one, so that 0 means none.
    loaded: AtomicU32,
    loaded_len: AtomicU32,
    /// The same of the spare magazine.
    spare: AtomicU32,
    /// 0 or `CAPACITY`.
    spare_len: AtomicU32,
}

impl ThreadCache {
    /// Returns a free node for the caller alone, or `None` if the table is full, or there is no memory for more nodes or
    /// a magazine.
    #[inline]
    pub(crate) fn take(&self, depot: &Depot, nodes: &impl Nodes) -> Option<u32> {
        // ORDERING: Relaxed throughout: only the thread cache's holder calls this (see the table above).
        let len = self.loaded_len.load(Ordering::Relaxed);
        if len == 0 {
            return self.take_slow(depot, nodes);
        }
        // SAFETY: a magazine with nodes in it is loaded, so this points to one of the depot's. They stay where they are
        // as long as the depot. A cache is used with one depot only, and the caller has that.
        let magazine = unsafe { &*self.place.load(Ordering::Relaxed) };
        // ORDERING: Relaxed: as above.
        self.loaded_len.store(len - 1, Ordering::Relaxed);
        Some(
            magazine
                .nodes
                .get(len as usize - 1)?
                .load(Ordering::Relaxed),
        )
    }

    #[cold]
    fn take_slow(&self, depot: &Depot, nodes: &impl Nodes) -> Option<u32> {
        // ORDERING: Relaxed: holder only.
        if self.spare_len.load(Ordering::Relaxed) > 0 {
            self.swap(depot);
        } else if let Some(full) = depot.full.pop(&depot.magazines) {
            // ORDERING: Relaxed: holder only.
            if let Some(emptied) = self.loaded.load(Ordering::Relaxed).checked_sub(1) {
                depot.empty.push(&depot.magazines, emptied);
            }
            self.load(depot, full + 1, CAPACITY);
        } else {
            // ORDERING: Relaxed: holder only.
            let own = self.loaded.load(Ordering::Relaxed).checked_sub(1);
            let magazine = own.or_else(|| depot.empty_magazine())?;
            let count = depot.fill(depot.magazines.get(magazine)?, nodes);
            self.load(depot, magazine + 1, count);
            if count == 0 {
                return None;
            }
        }
        self.take(depot, nodes)
    }

    /// Gives a node back. The caller holds it alone and will not touch it again.
    #[inline]
    pub(crate) fn give(&self, depot: &Depot, node: u32) {
        // ORDERING: Relaxed throughout: holder only.
        let len = self.loaded_len.load(Ordering::Relaxed);
        // SAFETY: as in `take`; null before the first magazine.
        if let Some(magazine) = unsafe { self.place.load(Ordering::Relaxed).as_ref() } {
            if let Some(place) = magazine.nodes.get(len as usize) {
                // ORDERING: Relaxed: holder only.
                place.store(node, Ordering::Relaxed);
                return self.loaded_len.store(len + 1, Ordering::Relaxed);
            }
        }
        self.give_slow(depot, node);
    }

    #[cold]
    fn give_slow(&self, depot: &Depot, node: u32) {
        // ORDERING: Relaxed: holder only.
        let spare = self.spare.load(Ordering::Relaxed);
        let spare_len = self.spare_len.load(Ordering::Relaxed);
        if spare != 0 && spare_len == 0 {
            self.swap(depot);
        } else {
            let Some(empty) = depot.empty_magazine() else {
                // No memory for the node's number: the node is unused until the table goes.
                return;
            };
            if let Some(full) = spare.checked_sub(1) {
                depot.full.push(&depot.magazines, full);
            }
            // The loaded magazine is full or does not exist; it becomes the spare one.
            self.swap(depot);
            self.load(depot, empty + 1, 0);
        }
        self.give(depot, node);
    }

    /// Loads the magazine of this number plus one; 0 for none.
    fn load(&self, depot: &Depot, loaded: u32, len: u32) {
        let place = loaded
            .checked_sub(1)
            .and_then(|magazine| depot.magazines.get(magazine));
        let place = place.map_or(ptr::null_mut(), |place| ptr::from_ref(place).cast_mut());
        // ORDERING: Relaxed: holder only.
        self.place.store(place, Ordering::Relaxed);
        self.loaded.store(loaded, Ordering::Relaxed);
        self.loaded_len.store(len, Ordering::Relaxed);
    }

    fn swap(&self, depot: &Depot) {
        // ORDERING: Relaxed: holder only.
        let (loaded, len) = (
            self.loaded.load(Ordering::Relaxed),
            self.loaded_len.load(Ordering::Relaxed),
        );
        let spare = (
            self.spare.load(Ordering::Relaxed),
            self.spare_len.load(Ordering::Relaxed),
        );
        self.load(depot, spare.0, spare.1);
        // ORDERING: Relaxed: holder only.
        self.spare.store(loaded, Ordering::Relaxed);
        self.spare_len.store(len, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    /// Nodes that no thread gives back.
    struct Numbers;

    impl Nodes for Numbers {
        fn provide(&self, _: u32) -> bool {
            true
        }

        fn renew(&self, _: u32, _: u64) {
            panic!("nothing was given back");
        }
    }

    fn take(depot: &Depot, cache: &ThreadCache) -> Option<u32> {
        cache.take(depot, &Numbers)
    }

    #[test]
    fn the_node_given_last_is_taken_first() {
        let depot = Depot::new(u64::MAX);
        let cache = ThreadCache::default();
        let (a, b) = (take(&depot, &cache).unwrap(), take(&depot, &cache).unwrap());
        assert_eq!((a, b), (0, 1));
        cache.give(&depot, a);
        cache.give(&depot, b);
        assert_eq!(
            (take(&depot, &cache), take(&depot, &cache)),
            (Some(b), Some(a))
        );
    }
}
