//! Sweeps and bursts: what keeps one part of a wheel from holding up the rest.
//!
//! A sweep removes dead entries, a bounded piece at a time.
//!
//! Cancelling a timer does not touch the wheel, so its entry stays behind as a zombie. The sweeper
//! goes round the buckets of a wheel in positions, one chunk per step,
//! drops what its caller calls dead and packs what lives. It keeps its place between calls.
//!
//! Rules: while a [`Pass`] is open, only appends may happen to its bucket; code that takes entries out
//! of a bucket calls [`Sweeper::disturb`] first, or [`Sweeper::released`] if it takes them from the front.
//! Entries move between buckets only towards positions that the cycle has yet to visit.
//!
//! A tick with very many timers, a burst, does not keep those of later ticks waiting for all of them.
//! Entries come tick by tick, and those that were overdue when they were inserted come first. A wheel counts how many
//! of one kind have come in a row. When they are a [`BURST`], it sets what is left of them aside, a whole chain at
//! once, and goes on with what is due after them. These entries are the *backlog*; a turn takes from it in between
//! ([`Wheel::take_backlog`]).

use super::bound::Bound;
use super::chunks::{Bucket, Chunks};
use super::pass::Pass;
use super::records::dead;
use super::rings::BUCKETS;
use super::{DeadMask, Entry, Records, Sweep, Wheel};
use alloc::vec::Vec;

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
/// Entries move to lower rings, so the sweep goes through the row of buckets from its end and nothing slips past it;
/// from the lowest ring, the recent and the overdue ones they may go to the backlog, which is last.
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
    fn run(&mut self, wheel: &mut Wheel, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
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
            let mut pass = self.pass.unwrap_or(Pass::START);
            let (bucket, chunks) = wheel.bucket_mut(position);
            let step = pass.step(chunks, bucket, is_dead);
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

impl Wheel {
    /// Examines about `budget` entries (one batch more at most), continuing where the last call
    /// ended, and drops those that `is_dead` marks.
    ///
    /// Once a call has reported `cycle_done`, the calls up to and including the next one that
    /// reports it see every entry that was present at their start and has neither come due nor
    /// belongs to an unfinished advance. The order of what remains does not change.
    pub fn sweep_batches(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
        let mut sweeper = self.sweeper;
        let report = sweeper.run(self, budget, is_dead);
        self.sweeper = sweeper;
        self.len -= report.removed;
        report
    }

    /// Sweeps like [`sweep_batches`](Self::sweep_batches), with a question per entry.
    pub fn sweep(&mut self, budget: usize, is_dead: &mut dyn FnMut(Entry) -> bool) -> Sweep {
        self.sweep_batches(budget, &mut |entries| {
            let dead = |(place, entry): (usize, &Entry)| u64::from(is_dead(*entry)) << place;
            entries
                .iter()
                .enumerate()
                .map(dead)
                .fold(0, |mask, bit| mask | bit)
        })
    }

    /// Lets the next sweep begin with a whole cycle.
    pub fn restart_sweep(&mut self) {
        self.sweeper = Sweeper::START;
        self.log.end_round();
    }

    /// Sweeps like [`sweep_batches`](Self::sweep_batches), first the sealed blocks of the log, and then the rest, to which
    /// they move.
    pub(super) fn sweep_all(&mut self, budget: usize, records: &impl Records) -> Sweep {
        let mut sweep = self.log.sweep(budget, records);
        if core::mem::take(&mut sweep.cycle_done) {
            let left = budget.saturating_sub(sweep.examined);
            let rest = self.sweep_batches(left, &mut |entries| dead(records, entries));
            sweep.examined += rest.examined;
            sweep.removed += rest.removed;
            sweep.cycle_done = rest.cycle_done;
            if rest.cycle_done {
                self.log.end_round();
            }
        }
        self.removed += sweep.removed as u64;
        sweep
    }

    /// Forgets every entry. The hand stays where it is.
    pub(crate) fn clear(&mut self) {
        self.drain_all(&mut |_| ());
        self.log.clear();
        self.bound = Bound::default();
    }

    /// Takes every entry out of the rings, in no particular order. The hand stays where it is.
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
            if let Some(bucket) = self.rings.last_to(position_of(position.max(1))) {
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
            _ => &mut self.rings.buckets[position_of(position)],
        };
        (bucket, &mut self.chunks)
    }

    /// Notes that a pass through the bucket has ended: it may be empty.
    fn update_occupancy(&mut self, position: usize) {
        if (1..OVERDUE).contains(&position) {
            self.rings.update_occupancy(position_of(position));
        }
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
    pub(super) fn give(
        &mut self,
        of: u64,
        chunks: &mut Chunks,
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
