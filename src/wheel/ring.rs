//! A piece of a ring: 64 buckets and the word that says which of them hold entries.
//!
//! The hashed wheel cuts its ring into pages of this shape. Rule: bit `n` of `occupied` is set exactly when bucket `n`
//! is not empty.

use super::Entry;
use super::bits::RING_BUCKETS;
use super::chunks::{Bucket, Chunks};

/// Buckets with their occupancy word.
#[derive(Clone)]
pub(super) struct Ring {
    pub(super) occupied: u64,
    pub(super) buckets: [Bucket; RING_BUCKETS],
}

impl Ring {
    pub(super) const EMPTY: Self = Self { occupied: 0, buckets: [Bucket::EMPTY; RING_BUCKETS] };

    /// Appends `entry` to bucket `slot`; false if there is no memory for it.
    #[inline(always)]
    #[must_use]
    pub(super) fn try_push<const N: usize>(
        &mut self,
        slot: usize,
        chunks: &mut Chunks<N>,
        entry: Entry,
    ) -> bool {
        self.occupied |= 1 << slot;
        let filed = chunks.try_push(&mut self.buckets[slot], entry);
        if !filed {
            self.update_occupancy(slot);
        }
        filed
    }

    /// Brings `occupied` in line after entries of bucket `slot` were removed.
    #[inline]
    pub(super) fn update_occupancy(&mut self, slot: usize) {
        if self.buckets[slot].is_empty() {
            self.occupied &= !(1 << slot);
        }
    }

    /// The earliest deadline of the whole ring.
    pub(super) fn earliest(&self) -> Option<u64> {
        let mut rest = self.occupied;
        let mut earliest = None;
        while rest != 0 {
            let slot = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let min = self.buckets[slot].min;
            earliest = Some(earliest.map_or(min, |earlier: u64| earlier.min(min)));
        }
        earliest
    }
}
