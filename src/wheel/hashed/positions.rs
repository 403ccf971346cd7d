//! The hashed wheel as the sweep sees it. Positions: what is never due, the buckets, the overdue, the backlog.

use super::super::chunks::{Bucket, Chunks};
use super::super::sweep::Sweepable;
use super::stage::Stage;
use super::{CHUNK_ENTRIES, Hashed};

impl Hashed {
    pub(super) fn overdue_position(&self) -> usize {
        self.buckets() + 1
    }

    pub(super) fn backlog_position(&self) -> usize {
        self.overdue_position() + 1
    }
}

impl Sweepable<CHUNK_ENTRIES> for Hashed {
    fn occupied_from(&self, position: usize) -> Option<usize> {
        if position == 0 && !self.never.is_empty() {
            return Some(0);
        }
        if let Some(bucket) = self.ring.occupied_from(position.saturating_sub(1)) {
            return Some(bucket + 1);
        }
        let overdue = self.overdue_position();
        if position <= overdue && !self.overdue.is_empty() {
            return Some(overdue);
        }
        (position <= overdue + 1 && !self.backlog.is_empty()).then_some(overdue + 1)
    }

    fn bucket_mut(&mut self, position: usize) -> (&mut Bucket, &mut Chunks<CHUNK_ENTRIES>) {
        if position == 0 {
            return (&mut self.never, &mut self.chunks);
        }
        if position == self.overdue_position() {
            return (&mut self.overdue, &mut self.chunks);
        }
        if position == self.backlog_position() {
            return (&mut self.backlog, &mut self.chunks);
        }
        let bucket = self.ring.bucket_mut(position - 1).expect("an occupied bucket has a page");
        (bucket, &mut self.chunks)
    }

    /// An unfinished visit or collection keeps its own place in a bucket, which a second pass would
    /// invalidate; the sweep waits for it. Every advance makes headway, so the wait is short.
    fn is_busy(&self, position: usize) -> bool {
        let bucket = match self.stage {
            Stage::Visit { tick, pass: Some(_) } => self.ring.bucket_of(tick),
            Stage::Collect { bucket, pass: Some(_), .. } => bucket,
            _ => return false,
        };
        position == bucket + 1
    }

    fn update_occupancy(&mut self, position: usize) {
        if position != 0 && position < self.overdue_position() {
            self.ring.update_occupancy(position - 1);
        }
    }
}
