//! How many entries of one kind come in a row, so that a burst does not hold up all that is due after it.
//!
//! A tick with very many timers, a burst, does not keep those of later ticks waiting for all of them.
//! Entries come tick by tick, and those that were overdue when they were inserted come first. The rings count how many
//! of one kind have come in a row. When they are a [`BURST`], the rest is set aside, a whole chain at once, and what is
//! due after it comes next. These entries are the *backlog*; a turn takes from it in between
//! ([`Rings::take_backlog`](super::Rings::take_backlog)).

use super::Entry;
use super::chunks::{Bucket, Chunks};
use alloc::vec::Vec;

/// How many entries of one tick come before anything of a later one, and how many overdue ones before anything else,
/// dead ones included.
pub const BURST: usize = 16 * 1024;

/// Counts the entries of one kind that come in a row, a *run*.
pub(super) struct RunLimiter {
    limit: usize,
    /// The number that the entries of a run share: their tick.
    kind: u64,
    /// Entries of the run so far; zero begins it anew.
    pub(super) came: usize,
}

impl RunLimiter {
    /// Creates a limiter whose runs are full with `limit` entries; at least one.
    pub(super) const fn of_at_most(limit: usize) -> Self {
        Self {
            limit: if limit == 0 { 1 } else { limit },
            kind: 0,
            came: 0,
        }
    }

    /// Yields up to `left` entries of a bucket, which are of one `kind`, to `due`. Another kind begins a run anew. The
    /// rest goes to the backlog when the run is full.
    #[inline]
    pub(super) fn give(
        &mut self,
        kind: u64,
        chunks: &mut Chunks,
        bucket: &mut Bucket,
        backlog: &mut Bucket,
        left: &mut usize,
        due: &mut Vec<Entry>,
    ) {
        if self.kind != kind {
            (self.kind, self.came) = (kind, 0);
        }
        let taken = chunks.take(bucket, (self.limit - self.came).min(*left), due, |_| ());
        *left -= taken;
        self.came += taken;
        if self.came == self.limit {
            chunks.append(backlog, bucket);
        }
    }
}
