//! Regions: free nodes in order, with their memory or without.
//!
//! A *region* is a row of neighbouring nodes that fills whole pages for any node size: 512 where a page has 4 KiB. `trim`
//! puts regions of free nodes in a lock-free stack, of which the top is used up from its first node on. Later it gives
//! the memory of those to the system that lie there still, so these are at the bottom:
//!
//! ```text
//!   head ---> node 126 of region 7 ---> node 0 of region 9 ---> node 63 of region 2 ---> none
//! ```
//!
//! A node that is given back forgets its generation, so its region remembers one for all of its nodes: higher than
//! any that one of them has had. A thread that takes nodes from there begins with that, so no key that was ever handed
//! out names a timer of theirs.
//!
//! | field | who may touch it | ordering |
//! |---|---|---|
//! | `Regions::stack` | any thread | see `sync::stack` |
//! | `Region::below` | the holder of all of the region's nodes; readers in `take` may read it stale | Relaxed; see `sync::stack` |
//! | `Region::generation` | the holder of all of the region's nodes; read by a holder of one | Relaxed; handed over by the stack |

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::segments::{Segments, Zeroable, index_of, place_of};
use crate::sync::stack::Stack;
use crate::sync::{bounded, pages};
use crossbeam_utils::CachePadded;

/// The part of a region that the table remembers for ever.
#[derive(Default)]
pub(super) struct Region {
    /// The place of the next node in the stack after this region's, or 0.
    below: AtomicU32,
    /// Above all that its nodes have had.
    generation: AtomicU64,
}

// SAFETY: atomics of zero bytes are the integer 0.
unsafe impl Zeroable for Region {}

/// Neighbouring nodes for the taker alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Their generations begin after this one.
    pub(crate) generation: u64,
}

/// See the module.
pub(crate) struct Regions {
    /// Its members are the places of the next nodes.
    stack: CachePadded<Stack>,
    regions: Segments<Region>,
    /// Nodes in the stack.
    nodes: AtomicU64,
    /// How many of them, at the stack's bottom, the system had the memory of when the owner last put a region. Written by
    /// the owner.
    returned: AtomicU64,
    /// The logarithm of the number of nodes in a region.
    bits: u32,
}

impl Regions {
    pub(crate) fn new() -> Self {
        // Two nodes under loom. A node is a multiple of eight bytes, so so many nodes are a multiple of a page.
        let bits = bounded(pages::size().trailing_zeros() - 3, 1);
        Self {
            stack: CachePadded::default(),
            regions: Segments::new(),
            nodes: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            bits,
        }
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        self.regions.allocated_bytes()
    }

    /// Returns the number of nodes in a region.
    pub(super) const fn len(&self) -> u32 {
        1 << self.bits
    }

    /// Returns the region of a node.
    pub(crate) const fn region_of(&self, index: u32) -> u32 {
        place_of(index) >> self.bits
    }

    /// Returns the first node of a region other than 0, which no node begins.
    pub(super) const fn first_of(&self, region: u32) -> u32 {
        index_of(region << self.bits)
    }

    /// Returns the number of nodes in the stack.
    pub(super) fn nodes(&self) -> u64 {
        // ORDERING: Relaxed, here and below: a number for reports and estimates.
        self.nodes.load(Ordering::Relaxed)
    }

    /// Returns the number of nodes whose memory the system has; more by those that were just being taken when a region was
    /// put, until the stack holds fewer.
    pub(super) fn returned(&self) -> u64 {
        // ORDERING: Relaxed: as above.
        self.returned.load(Ordering::Relaxed).min(self.nodes())
    }

    /// Returns the number of nodes in the stack whose memory the system does not have.
    pub(super) fn with_memory(&self) -> u64 {
        self.nodes().saturating_sub(self.returned())
    }

    /// Notes that the system has the memory of all nodes in the stack. The owner's.
    pub(super) fn note_returned(&self) {
        // ORDERING: Relaxed: as above.
        self.returned.store(self.nodes(), Ordering::Relaxed);
    }

    /// Makes room for what is remembered of the regions up to this one; false if there is no memory.
    pub(super) fn reserve(&self, last: u32) -> bool {
        self.regions.reserve(u64::from(last) + 1);
        self.regions.get(last).is_some()
    }

    /// Remembers, before a [`put`](Self::put), that none of a region's nodes, all of which the caller has, has had a
    /// generation as high as `generation`; false if there is no memory.
    pub(crate) fn remember(&self, region: u32, generation: u64) -> bool {
        let slot = self.regions.try_get_or_alloc(region);
        // ORDERING: Relaxed: published by the exchange in `put`.
        slot.map(|slot| slot.generation.store(generation, Ordering::Relaxed))
            .is_some()
    }

    /// Puts a region of which a generation is [remembered](Self::remember). The caller is the owner, has all of its nodes
    /// and gives them up.
    pub(crate) fn put(&self, region: u32) {
        let Some(slot) = self.regions.get(region) else {
            debug_assert!(false, "no generation is remembered");
            return;
        };
        // ORDERING: Relaxed, both: numbers for reports.
        self.returned.store(self.returned(), Ordering::Relaxed);
        self.nodes
            .fetch_add(u64::from(self.len()), Ordering::Relaxed);
        self.stack.push(region << self.bits, &slot.below);
    }

    /// Takes at most so many neighbouring nodes out.
    pub(crate) fn take(&self, most: u32) -> Option<Run> {
        let left_of = |next: u32| self.len() - (next & (self.len() - 1));
        let next = self.stack.pop(|next| {
            let region = self.region_at(next)?;
            if most < left_of(next) {
                return Some(next + most);
            }
            // ORDERING: Relaxed: as `Stack` says.
            Some(region.below.load(Ordering::Relaxed))
        })?;
        let count = left_of(next).min(most);
        // ORDERING: Relaxed: a number for reports.
        self.nodes.fetch_sub(u64::from(count), Ordering::Relaxed);
        // ORDERING: Relaxed: written before the region was put, and not again before all of its nodes are free, those of
        // this run included.
        let generation = self.region_at(next)?.generation.load(Ordering::Relaxed);
        Some(Run {
            first: index_of(next),
            count,
            generation,
        })
    }

    /// Returns the region of the node at a place.
    fn region_at(&self, place: u32) -> Option<&Region> {
        self.regions.get(place >> self.bits)
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::sync::segments::MAX_SLOTS;

    #[test]
    fn the_last_region_ends_with_the_table() {
        let regions = Regions::new();
        let last = regions.region_of((MAX_SLOTS - 1) as u32);
        assert!(regions.remember(last, 1));
        regions.put(last);
        let taken: Vec<Run> = std::iter::from_fn(|| regions.take(62)).collect();
        assert_eq!(
            taken.iter().map(|run| run.count).sum::<u32>(),
            regions.len()
        );
        let end = taken
            .last()
            .map(|run| u64::from(run.first) + u64::from(run.count));
        assert_eq!(end, Some(MAX_SLOTS));
    }
}
