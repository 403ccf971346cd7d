//! The hierarchical wheel as the sweep sees it.
//!
//! Entries move to lower rings, so the highest ring comes first and nothing slips past the sweep; from the lowest one,
//! the recent and the overdue ones they may go to the backlog, which is last.

use super::super::bits::{RING_BUCKETS, next_set};
use super::super::chunks::{Bucket, Chunk, Chunks};
use super::super::sweep::Sweepable;
use super::{BACKLOG, CHUNK_ENTRIES, FIRST_RECENT, Hierarchical, LEVELS, OVERDUE, Place, RECENT};

impl Place {
    /// The bucket's number in the order of the sweep.
    #[inline]
    pub(super) fn position(self) -> usize {
        (LEVELS - 1 - self.level) * RING_BUCKETS + self.slot
    }
}

/// Ring and bucket of a position before `FIRST_RECENT`.
fn ring_and_slot(position: usize) -> (usize, usize) {
    (LEVELS - 1 - position / RING_BUCKETS, position % RING_BUCKETS)
}

impl Hierarchical {
    /// There was no memory for an entry, which was counted already; `level` may be empty.
    #[cold]
    #[inline(never)]
    pub(super) fn not_filed(&mut self, level: usize) -> bool {
        self.len -= 1;
        if self.rings[level].occupied == 0 {
            self.levels &= !(1 << level);
        }
        false
    }

    /// Takes the first chunk of the backlog.
    pub(in super::super) fn pop_backlog(&mut self) -> Option<Chunk<CHUNK_ENTRIES>> {
        self.sweeper.disturb(BACKLOG);
        let chunk = self.chunks.pop(&mut self.backlog)?;
        self.len -= chunk.entries().len();
        Some(chunk)
    }
}

impl Sweepable<CHUNK_ENTRIES> for Hierarchical {
    fn occupied_from(&self, position: usize) -> Option<usize> {
        if position < FIRST_RECENT {
            let (level, slot) = ring_and_slot(position);
            if let Some(slot) = next_set(self.rings[level].occupied, slot) {
                return Some(Place { level, slot, start: 0 }.position());
            }
            let below = self.levels & ((1 << level) - 1);
            if below != 0 {
                let level = below.ilog2() as usize;
                let slot = next_set(self.rings[level].occupied, 0)?;
                return Some(Place { level, slot, start: 0 }.position());
            }
        }
        let recent = position.saturating_sub(FIRST_RECENT);
        if let Some(slot) = next_set(self.rings[RECENT].occupied, recent) {
            return Some(FIRST_RECENT + slot);
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
            FIRST_RECENT.. => &mut self.rings[RECENT].buckets[position - FIRST_RECENT],
            _ => {
                let (level, slot) = ring_and_slot(position);
                &mut self.rings[level].buckets[slot]
            }
        };
        (bucket, &mut self.chunks)
    }

    /// A cascade reads from the bucket's head and keeps no place in it, so it never minds a sweep.
    fn is_busy(&self, _position: usize) -> bool {
        false
    }

    fn update_occupancy(&mut self, position: usize) {
        if position < FIRST_RECENT {
            let (level, slot) = ring_and_slot(position);
            self.update_bucket_occupancy(level, slot);
        } else if position < OVERDUE {
            self.rings[RECENT].update_occupancy(position - FIRST_RECENT);
        }
    }
}
