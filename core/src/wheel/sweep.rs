//! The sweep through the buckets: it removes dead entries, a bounded piece at a time.
//!
//! Cancelling a timer does not touch the wheel, so its entry stays behind as a zombie. The sweeper
//! goes round the buckets in positions, one chunk per step,
//! drops what its caller calls dead and packs what lives. It keeps its place between calls.
//!
//! Rules: while a [`Pass`] is open, only appends may happen to its bucket; code that takes entries out
//! of a bucket calls [`Sweeper::disturb`] first, or [`Sweeper::released`] if it takes them from the front.
//! Entries move between buckets only towards positions that the cycle has yet to visit.

use super::chunks::{Bucket, Chunks};
use super::pass::Pass;
use super::row::BUCKETS;
use super::{Entry, Rings};

/// The result of one call of [`Rings::sweep`](super::Rings::sweep).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Entries looked at.
    pub examined: usize,
    /// Entries dropped because they were dead.
    pub removed: usize,
    /// The sweep has been through every bucket and starts over with the next call.
    pub cycle_done: bool,
}

/// Tells a sweep which entries of a batch are dead: bit `n` of the answer stands for entry `n`.
///
/// A batch has between 1 and 64 entries. Looking at a whole batch lets the owner load the records
/// of its timers side by side instead of one after the other.
pub type DeadMask<'a> = &'a mut dyn FnMut(&[Entry]) -> u64;

/// Where the sweep stands.
#[derive(Clone, Copy)]
pub(super) struct Sweeper {
    /// The position that is looked at next, or in part already when `pass` is set.
    position: usize,
    pass: Option<Pass>,
}

/// The position of the sweep before those of the rings, to which its entries move.
pub(super) const DEFERRED: usize = 0;

/// Positions of the sweep after those of the rings.
pub(super) const OVERDUE: usize = BUCKETS + 1;
pub(super) const BACKLOG: usize = OVERDUE + 1;

/// Returns the position of a bucket of the rings, and the bucket at a position.
///
/// Entries move to lower rings, so the sweep goes through the row of buckets from its end, and nothing slips past it.
/// From the lowest ring, and from the recent and overdue entries, they may go to the backlog, which is last.
#[inline]
pub(super) const fn position_of(bucket: usize) -> usize {
    BUCKETS - bucket
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
    fn run(&mut self, rings: &mut Rings, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
        let mut report = Sweep {
            examined: 0,
            removed: 0,
            cycle_done: false,
        };
        loop {
            let Some(position) = rings.occupied_from(self.position) else {
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
            let mut pass = self.pass.unwrap_or(Pass::START);
            let (bucket, chunks) = rings.bucket_mut(position);
            let step = pass.step(chunks, bucket, is_dead);
            report.examined += step.examined;
            report.removed += step.removed;
            self.pass = Some(pass);
            if step.cycle_done {
                rings.update_occupancy(position);
                *self = Self {
                    position: position + 1,
                    pass: None,
                };
            }
        }
        report
    }
}

impl Rings {
    /// Examines about `budget` entries (one batch more at most), continuing where the last call
    /// ended, and drops those that `is_dead` marks.
    ///
    /// Once a call has reported `cycle_done`, the calls up to and including the next one that
    /// reports it see every entry that was present at their start and has neither come due nor
    /// belongs to an unfinished advance. The order of what remains does not change.
    pub fn sweep(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
        let mut sweeper = self.sweeper;
        let report = sweeper.run(self, budget, is_dead);
        self.sweeper = sweeper;
        self.len -= report.removed;
        report
    }

    /// Lets the next sweep begin with a whole cycle.
    pub fn restart_sweep(&mut self) {
        self.sweeper = Sweeper::START;
    }

    /// Takes every entry out, in no particular order. The hand stays where it is.
    pub fn drain_all(&mut self, f: &mut dyn FnMut(Entry)) {
        self.sweeper = Sweeper::START;
        while let Some(position) = self.occupied_from(0) {
            let (bucket, chunks) = self.bucket_mut(position);
            let popped = chunks.pop(bucket);
            self.update_occupancy(position);
            popped
                .iter()
                .flat_map(|chunk| chunk.entries())
                .for_each(|entry| f(*entry));
        }
        self.len = 0;
        self.cascading = None;
    }

    /// Returns the first position at or after `position` whose bucket holds entries.
    fn occupied_from(&self, position: usize) -> Option<usize> {
        if position == DEFERRED && !self.deferred.is_empty() {
            return Some(DEFERRED);
        }
        if position < OVERDUE {
            if let Some(bucket) = self.row.last_to(position_of(position.max(1))) {
                return Some(position_of(bucket));
            }
        }
        if position <= OVERDUE && !self.overdue.is_empty() {
            return Some(OVERDUE);
        }
        (position <= BACKLOG && !self.backlog.is_empty()).then_some(BACKLOG)
    }

    /// Returns the bucket at a position, with the pool of its chunks.
    fn bucket_mut(&mut self, position: usize) -> (&mut Bucket, &mut Chunks) {
        let bucket = match position {
            DEFERRED => &mut self.deferred,
            OVERDUE => &mut self.overdue,
            BACKLOG => &mut self.backlog,
            _ => &mut self.row.buckets[position_of(position)],
        };
        (bucket, &mut self.chunks)
    }

    /// Notes that a pass through the bucket has ended: it may be empty.
    fn update_occupancy(&mut self, position: usize) {
        if (1..OVERDUE).contains(&position) {
            self.row.update_occupancy(position_of(position));
        }
    }
}
