//! The hierarchical wheel as the sweep sees it.
//!
//! Entries move to lower rings, so the sweep goes through the row of buckets from its end and nothing slips past it;
//! from the lowest ring, the recent and the overdue ones they may go to the backlog, which is last.

use super::super::chunks::{Bucket, Chunks};
use super::super::sweep::Sweepable;
use super::{BACKLOG, BUCKETS, CHUNK_ENTRIES, Hierarchical, OVERDUE};

/// Returns the position of a bucket of the rings, and the bucket at a position.
#[inline]
pub(super) const fn of(bucket: usize) -> usize {
    BUCKETS - 1 - bucket
}

impl Hierarchical {
    /// Takes an entry out of the count, because there was no memory for it.
    #[cold]
    #[inline(never)]
    pub(super) fn not_filed(&mut self) -> bool {
        self.len -= 1;
        false
    }
}

impl Sweepable<CHUNK_ENTRIES> for Hierarchical {
    fn occupied_from(&self, position: usize) -> Option<usize> {
        if position < OVERDUE {
            if let Some(bucket) = self.rings.last_to(of(position)) {
                return Some(of(bucket));
            }
        }
        if position <= OVERDUE && !self.overdue.is_empty() {
            return Some(OVERDUE);
        }
        (position <= BACKLOG && !self.backlog.is_empty()).then_some(BACKLOG)
    }

    fn bucket_mut(&mut self, position: usize) -> (&mut Bucket, &mut Chunks<CHUNK_ENTRIES>) {
        let bucket = match position {
            OVERDUE => &mut self.overdue,
            BACKLOG => &mut self.backlog,
            _ => &mut self.rings.buckets[of(position)],
        };
        (bucket, &mut self.chunks)
    }

    /// Returns a cascade reads from the bucket's head and keeps no place in it, so it never minds a sweep.
    fn is_busy(&self, _position: usize) -> bool {
        false
    }

    fn update_occupancy(&mut self, position: usize) {
        if position < OVERDUE {
            self.rings.update_occupancy(of(position));
        }
    }
}
