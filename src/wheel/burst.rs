//! Bursts: a tick with very many timers does not keep those of later ticks waiting for all of them.
//!
//! Entries come tick by tick, and those that were overdue when they were inserted come first. A wheel counts how many
//! of one kind have come in a row. When they are a [`BURST`], it sets what is left of them aside, a whole chain at
//! once, and goes on with what is due after them. These entries are the *backlog*; the driver takes from it in turn
//! ([`Wheel::take_backlog`](super::Wheel::take_backlog)).

use super::Entry;
use super::chunks::{Bucket, Chunks};
use alloc::vec::Vec;

/// How many entries of one tick come before anything of a later one, and how many overdue ones before anything else,
/// dead ones included.
pub const BURST: usize = 16 * 1024;

/// Counts the entries that come in a row.
pub(super) struct RunLimiter {
    limit: usize,
    /// The property that the entries share.
    of: u64,
    came: usize,
}

impl RunLimiter {
    /// Creates a limiter whose runs are full with `limit` entries; at least one.
    pub(super) const fn of_at_most(limit: usize) -> Self {
        Self { limit: if limit == 0 { 1 } else { limit }, of: 0, came: 0 }
    }

    /// Returns how many more entries of the run `of` may be yielded. Another run begins anew.
    #[inline]
    pub(super) const fn rest(&mut self, of: u64) -> usize {
        if self.of != of {
            (self.of, self.came) = (of, 0);
        }
        self.limit - self.came
    }

    /// Notes entries that came.
    #[inline]
    pub(super) fn note(&mut self, came: usize) {
        self.came = (self.came + came).min(self.limit);
    }

    /// Yields up to `left` entries of a bucket, which belong to the row `of`, to `due`. What is left when the row is
    /// full goes to the backlog.
    #[inline]
    pub(super) fn give<const N: usize>(
        &mut self,
        of: u64,
        chunks: &mut Chunks<N>,
        bucket: &mut Bucket,
        backlog: &mut Bucket,
        left: &mut usize,
        due: &mut Vec<Entry>,
    ) {
        let taken = chunks.take(bucket, self.rest(of).min(*left), due);
        *left -= taken;
        self.note(taken);
        if self.came == self.limit {
            chunks.append(backlog, bucket);
        }
    }

    /// Lets the same row begin anew.
    #[inline]
    pub(super) const fn restart(&mut self) {
        self.came = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_full_at_its_limit_and_another_one_begins_anew() {
        let mut row = RunLimiter::of_at_most(3);
        assert_eq!(row.rest(5), 3);
        row.note(2);
        assert_eq!(row.rest(5), 1);
        row.note(7);
        assert_eq!((row.rest(5), row.rest(6)), (0, 3));
        row.note(1);
        row.restart();
        assert_eq!(row.rest(6), 3);
        assert_eq!(RunLimiter::of_at_most(0).rest(0), 1, "or nothing would ever come");
    }
}
