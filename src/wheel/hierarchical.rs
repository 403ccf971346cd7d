//! The hierarchical wheel: rings of 64 buckets, each ring 64 times as coarse as the one below.
//!
//! An entry lies in the ring of the highest base-64 digit in which its deadline differs from `base`,
//! in the bucket that this digit names (scheme 7 of Varghese and Lauck; the search by occupancy
//! words is the one that Linux and tokio use). Eleven rings cover all of `u64`, so there is no
//! overflow list and no deadline is ever filed in a wrong bucket.
//!
//! What holds between any two calls:
//! * `hand`: every entry with a deadline at or before it has been yielded, or is in `overdue`.
//! * `base`: where the rings are anchored; at most `hand + 1`. It may lag far behind the hand,
//!   because it enters a bucket's range only when that bucket's earliest entry is due. Far timers
//!   therefore cost nothing while time passes, and no wake-up is needed just to refile them.
//! * Entries of a lower ring are due before those of a higher one, and within a ring before those of
//!   a higher bucket. So the earliest entry is in the lowest occupied bucket of the lowest ring.
//! * `cascading`: the bucket whose entries are being filed into lower rings, anchored at its start.
//!   `base` is the tick before that start until the bucket is empty, so a new entry in its range is
//!   appended to the rest of the bucket and stays behind older entries of the same tick.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::size_of;

use super::bits::{LEVELS, RING_BUCKETS, level_of, next_set, slot_of, start_of};
use super::chunks::{Bucket, Chunks};
use super::pass::{Pass, Step};
use super::ring::Ring;
use super::sweep::{Sweepable, Sweeper};
use super::{Advance, DeadMask, Entry, Sweep, Wheel};

/// Entries that an advance may move to lower rings per entry of its budget. A move costs a small
/// part of what firing a timer costs.
const MOVES_PER_YIELD: usize = 4;

/// Moves that every advance may make, so that small budgets make headway.
const MOVES_AT_LEAST: usize = 64;

/// Entries of one chunk. There are few buckets and each holds much, so chunks are long: 31 beat 15
/// by a fifth and 7 by a half in sweeps and cascades of a million timers; 63 gain a little more there but
/// double what a small wheel touches.
const CHUNK_ENTRIES: usize = 31;

/// The sweep's position of the overdue entries, after all rings.
const OVERDUE: usize = LEVELS * RING_BUCKETS;

/// Rings of growing span: any delay from one tick to `u64::MAX` ticks, exact to the tick.
///
/// Inserting and finding the next deadline are O(1); every entry moves to a lower ring at most ten
/// times in its life, in practice twice.
pub struct Hierarchical {
    hand: u64,
    base: u64,
    /// Bit `n` is set when ring `n` holds entries.
    levels: u64,
    cascading: Option<Place>,
    len: usize,
    rings: Box<[Ring; LEVELS]>,
    overdue: Bucket,
    chunks: Chunks<CHUNK_ENTRIES>,
    sweeper: Sweeper,
}

/// A bucket of a ring, and the first tick of its range.
#[derive(Clone, Copy)]
struct Place {
    level: usize,
    slot: usize,
    start: u64,
}

impl Place {
    /// The bucket's number in the order of the sweep: entries move to lower rings, so the highest
    /// ring comes first and nothing can slip past the sweep.
    #[inline]
    fn position(self) -> usize {
        (LEVELS - 1 - self.level) * RING_BUCKETS + self.slot
    }
}

/// Ring and bucket of a sweep position other than `OVERDUE`.
fn ring_and_slot(position: usize) -> (usize, usize) {
    (LEVELS - 1 - position / RING_BUCKETS, position % RING_BUCKETS)
}

impl Default for Hierarchical {
    fn default() -> Self {
        Self::new()
    }
}

impl Hierarchical {
    /// An empty wheel whose hand is at tick 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            hand: 0,
            base: 0,
            levels: 0,
            cascading: None,
            len: 0,
            rings: Box::new([Ring::EMPTY; LEVELS]),
            overdue: Bucket::EMPTY,
            chunks: Chunks::default(),
            sweeper: Sweeper::START,
        }
    }

    /// The bucket at a position of the sweep, with the pool of its chunks.
    fn bucket_mut(&mut self, position: usize) -> (&mut Bucket, &mut Chunks<CHUNK_ENTRIES>) {
        if position == OVERDUE {
            return (&mut self.overdue, &mut self.chunks);
        }
        let (level, slot) = ring_and_slot(position);
        (&mut self.rings[level].buckets[slot], &mut self.chunks)
    }

    /// Files an entry that is due at or after `base` into the rings anchored there.
    #[inline(always)]
    fn file(&mut self, base: u64, entry: Entry) {
        let level = level_of(base, entry.deadline);
        self.levels |= 1 << level;
        self.rings[level].push(slot_of(level, entry.deadline), &mut self.chunks, entry);
    }

    /// The bucket with the earliest entry, as long as no cascade is unfinished.
    #[inline]
    fn first(&self) -> Option<Place> {
        let level = next_set(self.levels, 0)?;
        let slot = self.rings[level].first()?;
        Some(Place { level, slot, start: start_of(self.base, level, slot) })
    }

    /// Brings both occupancy words in line after entries of a bucket were removed.
    #[inline]
    fn update_bucket_occupancy(&mut self, level: usize, slot: usize) {
        self.rings[level].update_occupancy(slot);
        if self.rings[level].occupied == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Files entries of the bucket at `from` into lower rings until it is empty or `moves` are used
    /// up, and says whether it is empty.
    fn cascade(&mut self, from: Place, moves: &mut usize) -> bool {
        self.sweeper.disturb(from.position());
        while let Some(chunk) = self.chunks.pop(&mut self.rings[from.level].buckets[from.slot]) {
            for entry in chunk.entries() {
                self.file(from.start, *entry);
            }
            *moves = moves.saturating_sub(chunk.entries().len());
            if *moves == 0 {
                break;
            }
        }
        self.update_bucket_occupancy(from.level, from.slot);
        if !self.rings[from.level].buckets[from.slot].is_empty() {
            return false;
        }
        self.base = from.start;
        self.cascading = None;
        true
    }

    /// Yields what the budget allows of the lowest ring's bucket at `tick`, and says whether that
    /// was all of it.
    fn yield_tick(&mut self, tick: Place, left: &mut usize, due: &mut Vec<Entry>) -> bool {
        self.sweeper.disturb(tick.position());
        let bucket = &mut self.rings[0].buckets[tick.slot];
        *left -= self.chunks.take(bucket, *left, due);
        let all = bucket.is_empty();
        self.base = tick.start;
        // The hand stays one tick behind until the tick is complete, so that an entry inserted for
        // it is not taken for overdue and does not overtake.
        self.hand = if all { tick.start } else { tick.start - 1 };
        self.update_bucket_occupancy(0, tick.slot);
        all
    }

    /// Moves the hand to `to`, before which nothing is due, and the rings' anchor as far as the
    /// first occupied bucket lets it.
    fn rest_at(&mut self, to: u64, first: Option<Place>) {
        let limit = first.map_or(to, |place| to.min(place.start.saturating_sub(1)));
        self.base = self.base.max(limit);
        self.hand = to;
    }

    /// Yields everything due up to `to`, which is not before the hand, and says whether more is due.
    fn advance_rings(
        &mut self,
        to: u64,
        left: &mut usize,
        moves: &mut usize,
        due: &mut Vec<Entry>,
    ) -> bool {
        loop {
            if let Some(from) = self.cascading {
                if self.next_deadline().is_none_or(|next| next > to) {
                    // Left over from an advance to a later tick than this one; it can wait.
                    self.hand = to;
                    return false;
                }
                if !self.cascade(from, moves) {
                    return true;
                }
            }
            let Some(first) = self.first() else {
                self.rest_at(to, None);
                return false;
            };
            if self.rings[first.level].buckets[first.slot].min > to {
                self.rest_at(to, Some(first));
                return false;
            }
            if first.level == 0 {
                if *left == 0 || !self.yield_tick(first, left, due) {
                    return true;
                }
            } else {
                self.base = first.start - 1;
                self.hand = self.hand.max(self.base);
                self.cascading = Some(first);
            }
        }
    }
}

impl Wheel for Hierarchical {
    #[inline(always)]
    fn insert(&mut self, entry: Entry) {
        self.len += 1;
        if entry.deadline <= self.hand {
            self.chunks.push(&mut self.overdue, entry);
        } else {
            self.file(self.base, entry);
        }
    }

    #[inline]
    fn next_deadline(&self) -> Option<u64> {
        let mut earliest = self.overdue.earliest();
        if let Some(first) = self.first() {
            let min = self.rings[first.level].buckets[first.slot].min;
            earliest = Some(earliest.map_or(min, |earlier| earlier.min(min)));
        }
        if let Some(from) = self.cascading {
            // An entry not yet moved may be due before all those that were moved.
            if let Some(min) = self.rings[from.level].buckets[from.slot].earliest() {
                earliest = Some(earliest.map_or(min, |earlier| earlier.min(min)));
            }
        }
        earliest
    }

    fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> Advance {
        let mut left = budget;
        if !self.overdue.is_empty() {
            self.sweeper.disturb(OVERDUE);
            left -= self.chunks.take(&mut self.overdue, left, due);
        }
        let mut more = !self.overdue.is_empty();
        if !more && to >= self.hand {
            let mut moves = budget.saturating_mul(MOVES_PER_YIELD).saturating_add(MOVES_AT_LEAST);
            more = self.advance_rings(to, &mut left, &mut moves, due);
        }
        self.len -= budget - left;
        Advance { more }
    }

    fn sweep_batches(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
        let mut sweeper = self.sweeper;
        let report = sweeper.run(self, budget, is_dead);
        self.sweeper = sweeper;
        self.len -= report.removed;
        report
    }

    fn drain_all(&mut self, f: &mut dyn FnMut(Entry)) {
        self.sweeper = Sweeper::START;
        while let Some(position) = self.occupied_from(0) {
            let (bucket, chunks) = self.bucket_mut(position);
            let popped = chunks.pop(bucket);
            self.update_occupancy(position);
            for entry in popped.iter().flat_map(|chunk| chunk.entries()) {
                f(*entry);
            }
        }
        self.len = 0;
        self.cascading = None;
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn hand(&self) -> u64 {
        self.hand
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + size_of::<[Ring; LEVELS]>() + self.chunks.held_bytes()
    }
}

impl Sweepable for Hierarchical {
    fn occupied_from(&self, position: usize) -> Option<usize> {
        if position < OVERDUE {
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
        (position <= OVERDUE && !self.overdue.is_empty()).then_some(OVERDUE)
    }

    fn step(&mut self, position: usize, pass: &mut Pass, is_dead: DeadMask<'_>) -> Step {
        let (bucket, chunks) = self.bucket_mut(position);
        pass.step(chunks, bucket, |chunks, id| is_dead(chunks.chunk(id).entries()))
    }

    /// A cascade reads from the bucket's head and keeps no place in it, so it never minds a sweep.
    fn is_busy(&self, _position: usize) -> bool {
        false
    }

    fn update_occupancy(&mut self, position: usize) {
        if position != OVERDUE {
            let (level, slot) = ring_and_slot(position);
            self.update_bucket_occupancy(level, slot);
        }
    }
}
