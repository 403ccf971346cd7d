//! The rings: each is as coarse as all of the one below is long. Entries are inserted by deadline and come tick by tick.
//!
//! A deadline is read as a row of digits, one per ring. An entry lies in the ring of the highest digit in which its
//! deadline differs from `base`, in the bucket that this digit names (scheme 7 of Varghese and Lauck; the search by
//! occupancy words is Linux's and tokio's). Ten rings cover all of `u64`, so there is no overflow list and no deadline
//! is ever inserted in a wrong bucket; their widths stand in `row`.
//!
//! Entries that are due within 64 ticks when they are inserted are *recent*: they lie in a ring of their own, bucket by
//! tick. The other entries of that tick were inserted earlier and come first. A burst takes longer than that to insert,
//! so entries that are inserted for its tick shortly before are apart from it. And an entry that is due before the
//! earliest one of a crowded bucket does not wait until that bucket has cascaded.
//!
//! What holds between any two calls:
//! * `hand`: every entry with a deadline at or before it has been yielded, or is in `overdue` or the `backlog`.
//! * `base`: where the rings are anchored; at most `hand + 1`. It may lag far behind the hand, because it enters a
//!   bucket's range only when that bucket's earliest entry is due. Far timers therefore cost nothing while time passes,
//!   and no wake-up is needed just to reinsert them.
//! * Entries of a lower ring are due before those of a higher one, and within a ring before those of a higher bucket.
//!   So the earliest entry is in the lowest occupied bucket of the lowest ring.
//! * `cascading`: the bucket whose entries are being inserted into lower rings, anchored at its start.
//!   `base` is the tick before that start until the bucket is empty, so a new entry in its range is
//!   appended to the rest of the bucket and stays behind older entries of the same tick.

use alloc::vec::Vec;
use core::num::NonZero;

use super::Entry;
use super::burst::{BURST, RunLimiter};
use super::chunks::{Bucket, Chunks};
use super::row::{Place, RECENT_BUCKETS, Row, bucket_of, is_tick, recent_bucket_of};
use super::sweep::{BACKLOG, DEFERRED, OVERDUE, Sweeper, position_of};
use super::timers::no_memory;

/// Entries that an advance may move to lower rings per entry of its budget: a move costs little beside a firing.
const MOVES_PER_YIELD: usize = 4;

/// Moves that every advance may make, so that small budgets make headway.
const MOVES_AT_LEAST: usize = 64;

/// Entries that are due so soon when they are inserted are recent. So all of them are due within as many ticks from the
/// hand, and each lies in the bucket of its tick.
const RECENT_TICKS: u64 = RECENT_BUCKETS as u64;

/// Moves that a chunk counts for which moves as it is: all of it is read.
const MOVES_PER_CHUNK: usize = 4;

/// A set of entries ordered by deadline, with a hand that only moves forward: any delay from one tick to `u64::MAX` ticks, exact to the tick.
///
/// Inserting and finding the next deadline are O(1); every entry moves to a lower ring at most nine
/// times in its life, in practice once.
pub struct Rings {
    hand: u64,
    base: u64,
    pub(super) cascading: Option<Place>,
    /// Entries in all buckets.
    pub(super) len: usize,
    pub(super) row: Row,
    pub(super) overdue: Bucket,
    /// Entries set aside, see `burst`.
    pub(super) backlog: Bucket,
    /// Entries inserted during a turn that are due already: they wait for the next turn, so that a handler that schedules
    /// zero delays for ever cannot keep a turn going.
    pub(super) deferred: Bucket,
    /// Overdue entries that came while the hand stood still.
    overdue_run: RunLimiter,
    /// Entries of one tick that came from the lowest ring, or from that of the recent ones.
    tick_run: RunLimiter,
    pub(super) chunks: Chunks,
    pub(super) sweeper: Sweeper,
}

impl Default for Rings {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the earlier of two ticks, if there is one.
#[inline(always)] // a chain of iterators is not inlined everywhere, which costs 20 instructions of a turn
fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Rings {
    /// Creates an empty wheel whose hand is at tick 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            hand: 0,
            base: 0,
            cascading: None,
            len: 0,
            row: Row::new(),
            overdue: Bucket::EMPTY,
            backlog: Bucket::EMPTY,
            deferred: Bucket::EMPTY,
            overdue_run: RunLimiter::of_at_most(BURST),
            tick_run: RunLimiter::of_at_most(BURST),
            chunks: Chunks::default(),
            sweeper: Sweeper::START,
        }
    }

    /// Creates the same with bursts of `entries` in place of [`BURST`]: for tests.
    #[must_use]
    pub fn with_bursts_of(mut self, entries: usize) -> Self {
        self.overdue_run = RunLimiter::of_at_most(entries);
        self.tick_run = RunLimiter::of_at_most(entries);
        self
    }

    /// Inserts an entry. O(1); allocates only while the rings grow beyond what it held before. False if there is no
    /// memory for that: then nothing has changed.
    ///
    /// A deadline at or before the hand is *overdue*: the next [`advance`](Self::advance) yields
    /// overdue entries first, in the order in which they were inserted.
    // Inlined all the way: a caller that passes an entry through memory writes it in parts and reads it back as a whole,
    // and that stall doubles the cost of an insert.
    #[inline(always)]
    #[must_use = "an entry that is not inserted is lost"]
    pub fn try_insert(&mut self, entry: Entry) -> bool {
        self.len += 1;
        if entry.deadline <= self.hand {
            return self.chunks.try_push(&mut self.overdue, entry) || self.not_inserted();
        }
        // One push for both kinds: what is inlined here is inlined into every schedule.
        let is_recent = entry.deadline - self.hand <= RECENT_TICKS;
        let bucket = if is_recent {
            recent_bucket_of(entry.deadline)
        } else {
            bucket_of(self.base, entry.deadline)
        };
        self.row.try_push(bucket, &mut self.chunks, entry) || self.not_inserted()
    }

    /// Takes an entry out of the count, because there was no memory for it.
    #[cold]
    #[inline(never)]
    fn not_inserted(&mut self) -> bool {
        self.len -= 1;
        false
    }

    /// Like [`try_insert`](Self::try_insert), but ends the process if there is no memory.
    #[inline(always)]
    pub fn insert(&mut self, entry: Entry) {
        if !self.try_insert(entry) {
            no_memory();
        }
    }

    /// Returns the earliest deadline of all entries, `None` when there are none. O(1).
    ///
    /// Exact as long as no sweep has removed an entry; after that it may be earlier than the
    /// earliest entry (never later) until the sweep has finished the bucket of the removed one. It is at or
    /// before the hand while overdue entries or a backlog wait, and at or before `to` while an advance to
    /// `to` is unfinished.
    #[inline]
    #[must_use]
    pub fn earliest(&self) -> Option<u64> {
        let in_rings = self.earliest_in_rings(self.row.first(self.base));
        let in_time = earlier(self.earliest_recent(), in_rings);
        let aside = earlier(self.overdue.earliest(), self.backlog.earliest());
        earlier(aside, in_time)
    }

    /// Moves the hand towards `to` and appends the entries that are due by then to `due`: overdue
    /// ones first, then by deadline, and in the order of their insertion within one tick.
    ///
    /// At most `budget` entries are appended, and inserting work is bounded by a multiple of the
    /// budget. A `to` before the hand yields overdue entries only. The hand never passes a tick that
    /// has not been yielded completely, so an entry inserted for that tick meanwhile still comes
    /// last in it. With nothing due the cost is O(1) for any distance; otherwise it depends on
    /// the entries yielded and moved, never on the number of ticks passed.
    ///
    /// After [`BURST`] entries of one tick, the rest of that tick goes to the backlog. The same holds for overdue entries
    /// while the hand stands still. So later entries do not wait for long.
    ///
    /// Returns the earliest deadline that is left but for the backlog, `u64::MAX` for none; `None` if the budget ran out.
    /// Then entries due at `to` remain beside the backlog, and the caller must call again.
    #[must_use = "an advance that ran out of budget has to be called again"]
    pub fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> Option<u64> {
        let mut left = budget;
        if !self.overdue.is_empty() {
            left -= self.yield_overdue(left, due);
        }
        let next = if !self.overdue.is_empty() {
            None
        } else if to < self.hand {
            Some(self.earliest().unwrap_or(u64::MAX))
        } else {
            let mut moves = budget
                .saturating_mul(MOVES_PER_YIELD)
                .saturating_add(MOVES_AT_LEAST);
            self.advance_rings(to, &mut left, &mut moves, due)
        };
        self.len -= budget - left;
        next
    }

    /// Appends up to `limit` of the entries that were set aside to `due`; those of one tick come in the order of their
    /// insertion.
    pub fn take_backlog(&mut self, limit: usize, due: &mut Vec<Entry>) {
        let Self {
            chunks,
            backlog,
            sweeper,
            len,
            ..
        } = self;
        *len -= chunks.take(backlog, limit, due, |chunk| {
            sweeper.released(BACKLOG, chunk)
        });
    }

    /// Returns whether there are entries that were set aside.
    #[inline]
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Keeps an entry for the next turn; false if there is no memory.
    #[must_use = "an entry that is not inserted is lost"]
    pub(super) fn defer(&mut self, entry: Entry) -> bool {
        let is_kept = self.chunks.try_push(&mut self.deferred, entry);
        self.len += usize::from(is_kept);
        is_kept
    }

    /// Inserts the entries that have waited for this turn.
    #[cold]
    #[inline(never)]
    pub(super) fn insert_deferred(&mut self) {
        self.sweeper.disturb(DEFERRED);
        while let Some(chunk) = self.chunks.pop(&mut self.deferred) {
            self.len -= chunk.entries().len();
            for entry in chunk.entries() {
                self.insert(*entry);
            }
        }
    }

    /// Returns the number of entries inserted, dead ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no entry is inserted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the last tick of which every entry has been yielded; 0 at first.
    #[must_use]
    pub fn hand(&self) -> u64 {
        self.hand
    }

    /// Returns the memory that the buckets hold, in bytes, reserves included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.row.held_bytes() + self.chunks.held_bytes()
    }

    /// Returns the tick of the earliest recent entry.
    #[inline]
    fn earliest_recent(&self) -> Option<u64> {
        let next = self.hand.wrapping_add(1);
        let ahead = NonZero::new(self.row.occupied[0].rotate_right(next as u32 % u64::BITS))?;
        Some(next + u64::from(ahead.trailing_zeros()))
    }

    /// Returns the earliest deadline in the rings, or an earlier one after a sweep; `first` is their first bucket.
    #[inline]
    fn earliest_in_rings(&self, first: Option<Place>) -> Option<u64> {
        let next = first.map(|first| self.row.buckets[first.bucket].min);
        let Some(from) = self.cascading else {
            return next;
        };
        // An entry not yet moved may be due before all those that were moved.
        earlier(next, self.row.buckets[from.bucket].earliest())
    }

    /// Inserts an entry that is due at or after `base` into the rings anchored there.
    #[inline(always)]
    fn insert_in_rings(&mut self, base: u64, entry: Entry) {
        if !self
            .row
            .try_push(bucket_of(base, entry.deadline), &mut self.chunks, entry)
        {
            no_memory();
        }
    }

    /// Inserts entries of the bucket at `from` into lower rings until it is empty or `moves` are used
    /// up, and says whether it is empty. Full chunks of one tick, of which bursts are made, move as they are.
    fn cascade(&mut self, from: Place, moves: &mut usize) -> bool {
        self.sweeper.disturb(position_of(from.bucket));
        while *moves > 0 {
            let bucket = &mut self.row.buckets[from.bucket];
            let cost = if let Some((tick, mut whole)) = self.chunks.pop_uniform(bucket) {
                self.row
                    .append(bucket_of(from.start, tick), &mut self.chunks, &mut whole);
                MOVES_PER_CHUNK
            } else if let Some(chunk) = self.chunks.pop(bucket) {
                for entry in chunk.entries() {
                    self.insert_in_rings(from.start, *entry);
                }
                chunk.entries().len()
            } else {
                break;
            };
            *moves = moves.saturating_sub(cost);
        }
        if !self.row.buckets[from.bucket].is_empty() {
            return false;
        }
        self.row.vacate(from.bucket);
        self.base = from.start;
        self.cascading = None;
        true
    }

    /// Yields what the budget allows of the bucket of one `tick`, and says whether that was all of it. `others`: the
    /// row of buckets that may hold more entries of that tick.
    ///
    /// The hand stays one tick behind until the tick is complete, so that an entry inserted for it is not taken for
    /// overdue and does not overtake.
    fn yield_tick(
        &mut self,
        tick: Place,
        others: u64,
        left: &mut usize,
        due: &mut Vec<Entry>,
    ) -> bool {
        self.sweeper.disturb(position_of(tick.bucket));
        let Self {
            chunks,
            row,
            backlog,
            tick_run,
            ..
        } = self;
        let bucket = &mut row.buckets[tick.bucket];
        tick_run.give(tick.start, chunks, bucket, backlog, left, due);
        let all = bucket.is_empty();
        if all {
            tick_run.came = 0;
            row.vacate(tick.bucket);
        }
        let is_complete = all && others >> recent_bucket_of(tick.start) & 1 == 0;
        self.hand = tick.start - u64::from(!is_complete);
        all
    }

    /// Yields up to `limit` overdue entries, sets the rest of too many aside, and says how many came.
    #[inline(never)]
    fn yield_overdue(&mut self, limit: usize, due: &mut Vec<Entry>) -> usize {
        self.sweeper.disturb(OVERDUE);
        let Self {
            chunks,
            overdue,
            backlog,
            overdue_run,
            hand,
            ..
        } = self;
        let mut left = limit;
        overdue_run.give(*hand, chunks, overdue, backlog, &mut left, due);
        limit - left
    }

    /// Yields everything due up to `to`, which is not before the hand. Returns the earliest deadline left, `None` if more
    /// is due.
    fn advance_rings(
        &mut self,
        to: u64,
        left: &mut usize,
        moves: &mut usize,
        due: &mut Vec<Entry>,
    ) -> Option<u64> {
        loop {
            let first = self.row.first(self.base);
            let next = self.earliest_in_rings(first);
            let recent = self.earliest_recent();
            if let Some(start) = recent.filter(|&recent| recent <= to) {
                if next.is_none_or(|next| start < next) {
                    let recent = Place {
                        bucket: recent_bucket_of(start),
                        start,
                    };
                    if *left == 0 || !self.yield_tick(recent, 0, left, due) {
                        return None;
                    }
                    continue;
                }
            }
            if let Some(from) = self.cascading {
                if next.is_none_or(|next| next > to) {
                    // Left over from an advance to a later tick than this one; it can wait.
                    self.hand = to;
                    return Some(earlier(recent, next).unwrap_or(u64::MAX));
                }
                if !self.cascade(from, moves) {
                    return None;
                }
                continue;
            }
            let Some(first) = first.filter(|_| next.is_some_and(|next| next <= to)) else {
                // Nothing is due. The rings' anchor follows the hand as far as their first bucket lets it.
                let limit = first.map_or(to, |place| to.min(place.start.saturating_sub(1)));
                self.base = self.base.max(limit);
                self.hand = to;
                return Some(earlier(recent, next).unwrap_or(u64::MAX));
            };
            if is_tick(first.bucket) {
                if *left == 0 {
                    return None;
                }
                self.base = first.start;
                if !self.yield_tick(first, self.row.occupied[0], left, due) {
                    return None;
                }
            } else {
                self.base = first.start - 1;
                self.hand = self.hand.max(self.base);
                self.cascading = Some(first);
            }
        }
    }
}
