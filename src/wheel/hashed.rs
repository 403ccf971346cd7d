//! The hashed wheel: one ring of a power-of-two number of buckets (scheme 6 of Varghese and Lauck).
//!
//! The low bits of a deadline name its bucket; whether an entry is due in this revolution follows from its deadline.
//! A visited bucket yields the entries of one tick and keeps the rest in order. Ticks are visited in order, each
//! found by the buckets' earliest deadlines, so an empty tick costs nothing. An entry that is due after `n` revolutions
//! is looked at by up to `n` visits. There is no backlog: a burst delays what is due after it.

use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

use super::chunks::{Bucket, Chunks};
use super::pass::Pass;
use super::sweep::{Sweepable, Sweeper};
use super::{DeadMask, Entry, Sweep, Wheel};
use crate::types::MAX_BUCKETS;

/// Entries that an advance may look at per entry of its budget, and in any case.
const LOOKS_PER_YIELD: usize = 4;
const LOOKS_AT_LEAST: usize = 64;
/// Buckets hold few entries each, so chunks are short.
const CHUNK_ENTRIES: usize = 7;

/// One ring of buckets, entries of later revolutions included.
pub struct Hashed {
    hand: u64,
    len: usize,
    buckets: Vec<Bucket>,
    /// Which buckets hold entries.
    occupied: Vec<u64>,
    /// The earliest deadline in the ring, or an earlier one after a sweep; while a tick is visited, that tick.
    earliest: u64,
    /// Entries due at `u64::MAX`, which is never.
    never: Bucket,
    overdue: Bucket,
    /// The tick that is being visited, and how far its bucket has been gone through.
    visit: Option<(u64, Option<Pass>)>,
    /// Entries of that tick that are still to be yielded.
    ready: Bucket,
    chunks: Chunks<CHUNK_ENTRIES>,
    sweeper: Sweeper,
}

impl Hashed {
    /// Creates an empty wheel whose hand is at tick 0; `buckets` is rounded up to a power of two.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        let buckets = buckets.clamp(1, MAX_BUCKETS).next_power_of_two();
        Self {
            hand: 0,
            len: 0,
            buckets: vec![Bucket::EMPTY; buckets],
            occupied: vec![0; buckets.div_ceil(64)],
            earliest: u64::MAX,
            never: Bucket::EMPTY,
            overdue: Bucket::EMPTY,
            visit: None,
            ready: Bucket::EMPTY,
            chunks: Chunks::default(),
            sweeper: Sweeper::START,
        }
    }

    /// Returns the number of buckets, a power of two.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Takes the memory of the first chunks; false if there is none.
    #[cfg(feature = "threads")]
    pub(super) fn reserve_first(&mut self) -> bool {
        self.chunks.reserve_first()
    }

    #[inline]
    fn bucket_of(&self, deadline: u64) -> usize {
        (deadline & (self.buckets.len() as u64 - 1)) as usize
    }

    fn occupied_bucket_from(&self, bucket: usize) -> Option<usize> {
        let word = bucket / 64;
        let first = self.occupied.get(word)? & (u64::MAX << (bucket % 64));
        if first != 0 {
            return Some(word * 64 + first.trailing_zeros() as usize);
        }
        let rest = self.occupied[word + 1..]
            .iter()
            .position(|word| *word != 0)?
            + word
            + 1;
        Some(rest * 64 + self.occupied[rest].trailing_zeros() as usize)
    }

    /// Looks for the earliest deadline in the ring. The first bucket after the hand whose earliest entry is due in
    /// this revolution has it.
    fn renew_earliest(&mut self) {
        let (next, ring) = (self.hand.wrapping_add(1), self.buckets.len() as u64);
        let start = self.bucket_of(next);
        let (mut earliest, mut at, mut wrapped) = (u64::MAX, start, false);
        loop {
            match self
                .occupied_bucket_from(at)
                .filter(|found| !wrapped || *found < start)
            {
                Some(found) => {
                    let min = self.buckets[found].min;
                    if min.wrapping_sub(next) < ring {
                        earliest = min;
                        break;
                    }
                    earliest = earliest.min(min);
                    at = found + 1;
                }
                None if wrapped => break,
                None => (at, wrapped) = (0, true),
            }
        }
        self.earliest = earliest;
    }

    /// Yields `tick` from its bucket; whether that was all of it.
    fn visit(
        &mut self,
        tick: u64,
        left: &mut usize,
        looks: &mut usize,
        due: &mut Vec<Entry>,
    ) -> bool {
        let at = self.bucket_of(tick);
        let mut open = self.visit.take().and_then(|(_, pass)| pass);
        loop {
            *left -= self.chunks.take(&mut self.ready, *left, due, |_| ());
            let is_seen = open.is_none() && self.buckets[at].earliest() != Some(tick);
            if is_seen && self.ready.is_empty() {
                self.hand = tick;
                self.renew_earliest();
                return true;
            }
            if *left == 0 || *looks == 0 {
                self.visit = Some((tick, open));
                return false;
            }
            self.sweeper.disturb(at + 1);
            let mut pass = open.unwrap_or(Pass::START);
            let Self {
                chunks,
                ready,
                buckets,
                ..
            } = self;
            let step = pass.step(chunks, &mut buckets[at], |chunks, id| {
                let (chunk, mut mask) = (*chunks.chunk(id), 0);
                for (place, entry) in chunk.entries().iter().enumerate() {
                    if entry.deadline <= tick {
                        mask |= 1 << place;
                        chunks.push(ready, *entry);
                    }
                }
                mask
            });
            *looks = looks.saturating_sub(step.examined);
            open = (!step.cycle_done).then_some(pass);
            if step.cycle_done {
                self.update_occupancy(at + 1);
            }
        }
    }

    /// Yields everything due up to `to`, which is not before the hand, and says whether more is due.
    fn advance_ring(&mut self, to: u64, left: &mut usize, due: &mut Vec<Entry>) -> bool {
        let mut looks = left
            .saturating_mul(LOOKS_PER_YIELD)
            .saturating_add(LOOKS_AT_LEAST);
        loop {
            let tick = self.visit.map_or(self.earliest, |(tick, _)| tick);
            if tick > to || tick == u64::MAX {
                break;
            }
            self.hand = self.hand.max(tick - 1);
            if !self.visit(tick, left, &mut looks, due) {
                return true;
            }
        }
        if self.visit.is_some() {
            return false;
        }
        self.hand = to;
        if to < u64::MAX {
            return false;
        }
        self.sweeper.disturb(0);
        *left -= self.chunks.take(&mut self.never, *left, due, |_| ());
        self.hand = if self.never.is_empty() {
            u64::MAX
        } else {
            u64::MAX - 1
        };
        self.hand < to
    }
}

impl Wheel for Hashed {
    #[inline(always)]
    fn try_insert(&mut self, entry: Entry) -> bool {
        let at = self.bucket_of(entry.deadline);
        let Self {
            chunks,
            buckets,
            occupied,
            never,
            overdue,
            ..
        } = self;
        let inserted = if entry.deadline <= self.hand {
            chunks.try_push(overdue, entry)
        } else if entry.deadline == u64::MAX {
            chunks.try_push(never, entry)
        } else {
            let inserted = chunks.try_push(&mut buckets[at], entry);
            if inserted {
                occupied[at / 64] |= 1 << (at % 64);
                self.earliest = self.earliest.min(entry.deadline);
            }
            inserted
        };
        self.len += usize::from(inserted);
        inserted
    }

    fn earliest(&self) -> Option<u64> {
        let ring = (self.earliest != u64::MAX).then_some(self.earliest);
        let others = [self.overdue.earliest(), ring];
        others.into_iter().flatten().min().or(self.never.earliest())
    }

    fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> bool {
        let mut left = budget;
        if !self.overdue.is_empty() {
            self.sweeper.disturb(self.buckets.len() + 1);
            left -= self.chunks.take(&mut self.overdue, left, due, |_| ());
        }
        let mut more = !self.overdue.is_empty();
        if !more && to >= self.hand {
            more = self.advance_ring(to, &mut left, due);
        }
        self.len -= budget - left;
        more
    }

    fn sweep_batches(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
        let mut sweeper = self.sweeper;
        let report = sweeper.run(self, budget, is_dead);
        self.sweeper = sweeper;
        self.len -= report.removed;
        if self.visit.is_none() {
            self.renew_earliest();
        }
        report
    }

    fn restart_sweep(&mut self) {
        self.sweeper = Sweeper::START;
    }

    fn drain_all(&mut self, f: &mut dyn FnMut(Entry)) {
        self.sweeper = Sweeper::START;
        self.visit = None;
        self.chunks.append(&mut self.overdue, &mut self.ready);
        self.drain(f);
        (self.len, self.earliest) = (0, u64::MAX);
    }

    fn len(&self) -> usize {
        self.len
    }

    fn hand(&self) -> u64 {
        self.hand
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.capacity() * size_of::<Bucket>() + self.chunks.held_bytes()
    }
}

/// Positions of the sweep: what is never due, the buckets, the overdue.
impl Sweepable<CHUNK_ENTRIES> for Hashed {
    fn occupied_from(&self, position: usize) -> Option<usize> {
        let overdue = self.buckets.len() + 1;
        if position == 0 && !self.never.is_empty() {
            return Some(0);
        }
        if let Some(bucket) = self.occupied_bucket_from(position.saturating_sub(1)) {
            return Some(bucket + 1);
        }
        (position <= overdue && !self.overdue.is_empty()).then_some(overdue)
    }

    fn bucket_mut(&mut self, position: usize) -> (&mut Bucket, &mut Chunks<CHUNK_ENTRIES>) {
        let overdue = self.buckets.len() + 1;
        let bucket = match position {
            0 => &mut self.never,
            at if at == overdue => &mut self.overdue,
            at => &mut self.buckets[at - 1],
        };
        (bucket, &mut self.chunks)
    }

    fn is_busy(&self, position: usize) -> bool {
        matches!(self.visit, Some((tick, Some(_))) if position == self.bucket_of(tick) + 1)
    }

    fn update_occupancy(&mut self, position: usize) {
        if let Some(bucket) = position
            .checked_sub(1)
            .filter(|at| *at < self.buckets.len())
        {
            if self.buckets[bucket].is_empty() {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_entries_of_its_ticks_and_is_marked_until_they_have_gone() {
        const BUCKETS: u64 = 128;
        let mut wheel = Hashed::new(BUCKETS as usize);
        for deadline in 1..=BUCKETS {
            let (index, mark) = (deadline as u32, 1);
            wheel.insert(Entry {
                deadline,
                index,
                mark,
            });
        }
        assert!(wheel.buckets.iter().all(|bucket| !bucket.is_empty()));
        let mut due = Vec::new();
        for now in 1..=BUCKETS {
            assert!(!wheel.advance(now, BUCKETS as usize, &mut due));
            let marked: u32 = wheel.occupied.iter().map(|word| word.count_ones()).sum();
            assert_eq!((due.len() as u64, u64::from(marked)), (now, BUCKETS - now));
        }
    }
}
