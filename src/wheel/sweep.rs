//! Sweeps and bursts: what keeps one part of a wheel from holding up the rest.
//!
//! A sweep removes dead entries, a bounded piece at a time.
//!
//! Cancelling a timer does not touch the wheel, so its entry stays behind as a zombie. The sweeper
//! goes round the buckets of a wheel in positions that the wheel numbers itself, one chunk per step,
//! drops what its caller calls dead and packs what lives. It keeps its place between calls.
//!
//! Rules: while a [`Pass`] is open, only appends may happen to its bucket; code that takes entries out
//! of a bucket calls [`Sweeper::disturb`] first, or [`Sweeper::released`] if it takes them from the front.
//! A wheel that moves entries between buckets has to
//! number its positions so that they only move towards positions that the cycle has yet to visit.
//!
//! A tick with very many timers, a burst, does not keep those of later ticks waiting for all of them.
//! Entries come tick by tick, and those that were overdue when they were inserted come first. A wheel counts how many
//! of one kind have come in a row. When they are a [`BURST`], it sets what is left of them aside, a whole chain at
//! once, and goes on with what is due after them. These entries are the *backlog*; the driver takes from it in turn
//! ([`Wheel::take_backlog`](super::Wheel::take_backlog)).

use super::chunks::{Bucket, Chunks};
use super::pass::Pass;
use super::{DeadMask, Entry, Sweep};
use alloc::vec::Vec;

/// Where the sweep stands.
#[derive(Clone, Copy)]
pub(super) struct Sweeper {
    /// The position that is looked at next, or in part already when `pass` is set.
    position: usize,
    pass: Option<Pass>,
}

/// A wheel as the sweeper sees it.
pub(super) trait Sweepable<const N: usize> {
    /// Returns the first position at or after `position` whose bucket holds entries.
    fn occupied_from(&self, position: usize) -> Option<usize>;
    /// Returns the bucket at a position, with the pool of its chunks.
    fn bucket_mut(&mut self, position: usize) -> (&mut Bucket, &mut Chunks<N>);
    /// Returns whether another pass is under way in this bucket: the sweep waits there for a later call.
    fn is_busy(&self, position: usize) -> bool;
    /// Notes that a pass through the bucket has ended: its emptiness and its `min` may have changed.
    fn update_occupancy(&mut self, position: usize);

    /// Takes every entry out of all buckets.
    fn drain(&mut self, f: &mut dyn FnMut(Entry)) {
        while let Some(position) = self.occupied_from(0) {
            let (bucket, chunks) = self.bucket_mut(position);
            let popped = chunks.pop(bucket);
            self.update_occupancy(position);
            popped
                .iter()
                .flat_map(|chunk| chunk.entries())
                .for_each(|entry| f(*entry));
        }
    }
}

impl Sweeper {
    pub(super) const START: Self = Self {
        position: 0,
        pass: None,
    };

    /// Tells the sweeper that entries leave the bucket at `position` by another way.
    #[inline]
    pub(super) fn disturb(&mut self, position: usize) {
        if self.position == position {
            self.pass = None;
        }
    }

    /// Tells the sweeper that a chunk has left the bucket at `position` by its front: what the pass has gone through
    /// before it is gone as well, so the pass goes on where the bucket begins now.
    #[inline]
    pub(super) fn released(&mut self, position: usize, chunk: u32) {
        if self.position == position && self.pass.is_some_and(|pass| pass.stands_on(chunk)) {
            self.pass = None;
        }
    }

    /// Examines about `budget` entries: it ends after the chunk that reaches the budget, and always
    /// at the end of a cycle.
    pub(super) fn run<const N: usize, W: Sweepable<N>>(
        &mut self,
        wheel: &mut W,
        budget: usize,
        is_dead: DeadMask<'_>,
    ) -> Sweep {
        let mut report = Sweep {
            examined: 0,
            removed: 0,
            cycle_done: false,
        };
        loop {
            let Some(position) = wheel.occupied_from(self.position) else {
                *self = Self::START;
                report.cycle_done = true;
                break;
            };
            if report.examined >= budget {
                break;
            }
            // A bucket with an open pass holds entries: each way to empty it ends the pass as well.
            debug_assert!(self.pass.is_none() || position == self.position);
            self.position = position;
            if wheel.is_busy(position) {
                break;
            }
            let mut pass = self.pass.unwrap_or(Pass::START);
            let (bucket, chunks) = wheel.bucket_mut(position);
            let step = pass.step(chunks, bucket, |chunks, id| {
                is_dead(chunks.chunk(id).entries())
            });
            report.examined += step.examined;
            report.removed += step.removed;
            self.pass = Some(pass);
            if step.cycle_done {
                wheel.update_occupancy(position);
                *self = Self {
                    position: position + 1,
                    pass: None,
                };
            }
        }
        report
    }
}

/// How many entries of one tick come before anything of a later one, and how many overdue ones before anything else,
/// dead ones included.
pub const BURST: usize = 16 * 1024;

/// Counts the entries that come in a row.
pub(super) struct RunLimiter {
    limit: usize,
    /// The property that the entries share.
    of: u64,
    /// Those that have come; zero begins the row anew.
    pub(super) came: usize,
}

impl RunLimiter {
    /// Creates a limiter whose runs are full with `limit` entries; at least one.
    pub(super) const fn of_at_most(limit: usize) -> Self {
        Self {
            limit: if limit == 0 { 1 } else { limit },
            of: 0,
            came: 0,
        }
    }

    /// Yields up to `left` entries of a bucket, which belong to the row `of`, to `due`; another row begins anew. What is
    /// left when the row is full goes to the backlog.
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
        if self.of != of {
            (self.of, self.came) = (of, 0);
        }
        let taken = chunks.take(bucket, (self.limit - self.came).min(*left), due, |_| ());
        *left -= taken;
        self.came += taken;
        if self.came == self.limit {
            chunks.append(backlog, bucket);
        }
    }
}
