//! The hashed wheel: one ring of a power-of-two number of buckets.
//!
//! An entry lies in the bucket that the low bits of its deadline name (scheme 6 of Varghese and
//! Lauck). Its rounds are not counted down: whether it is due in this revolution follows from its
//! deadline. A bucket that is visited yields the entries due and keeps the others in order.
//!
//! Where the reference timers walk tick by tick, this wheel goes straight to the next bucket in which
//! something is due: every bucket knows its earliest deadline, and `Pages` the earliest of all.
//!
//! What holds between any two calls:
//! * `hand`: every entry with a deadline at or before it has been yielded, or is in `overdue` or the backlog.
//! * Entries due at `u64::MAX`, which is "practically never", lie in `never` and are not passed in
//!   every revolution. All other entries lie in their bucket or in an unfinished advance.
//! * `stage`: what an advance that ran out of budget has begun, see [`Stage`].

mod backlog;
mod positions;
mod stage;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::size_of;

use super::burst::{BURST, Row};
use super::chunks::{Bucket, Chunks};
use super::pages::Pages;
use super::pass::Pass;
use super::sweep::{Sweepable, Sweeper};
use super::{DeadMask, Entry, Hierarchical, Sweep, Wheel};
use stage::Stage;

/// Entries that an advance may look at per entry of its budget.
const LOOKS_PER_YIELD: usize = 4;

/// Looks that every advance may take, so that small budgets make headway.
const LOOKS_AT_LEAST: usize = 64;

/// Entries of one chunk. There may be many buckets with few entries each, so chunks are short.
const CHUNK_ENTRIES: usize = 7;

/// How many bursts the last ones of a tick may be that come in time. As many as may be filed at the last moment, out
/// of an inbox and a staging buffer, behind what was filed a tick before: 24 Ki.
const LAST_BURSTS: usize = 2;

/// The largest ring; more buckets than this are silently not made.
const MAX_BUCKETS: usize = 1 << 30;

/// One ring of buckets, entries in later revolutions included.
///
/// Inserting is O(1). An advance costs one visit for each tick that has something due, and a visit
/// looks at every entry of one bucket, whatever its revolution: choose at least as many buckets as
/// the usual delay has ticks.
pub struct Hashed {
    hand: u64,
    stage: Stage,
    len: usize,
    ring: Pages,
    overdue: Bucket,
    never: Bucket,
    /// Entries of the tick that is being visited which have not come yet.
    ready: Bucket,
    ready_len: usize,
    /// What was set aside.
    backlog: Bucket,
    /// Overdue entries that came while the hand stood still.
    overdue_row: Row,
    /// Entries that came of the tick that is being visited.
    tick_row: Row,
    /// The same of the last ones of a burst.
    last_row: Row,
    chunks: Chunks<CHUNK_ENTRIES>,
    /// Puts the entries of a jump over more than one revolution in order; exists after the first one.
    sorter: Option<Box<Hierarchical>>,
    sweeper: Sweeper,
}

impl Hashed {
    /// An empty wheel whose hand is at tick 0, with `buckets` rounded up to a power of two.
    ///
    /// Pages of buckets are allocated when they are first used, so that a huge ring costs memory
    /// only where entries lie. 0 is taken as 1, and more than 2^30 as 2^30.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        let buckets = buckets.clamp(1, MAX_BUCKETS).next_power_of_two();
        Self {
            hand: 0,
            stage: Stage::Idle,
            len: 0,
            ring: Pages::new(buckets),
            overdue: Bucket::EMPTY,
            never: Bucket::EMPTY,
            ready: Bucket::EMPTY,
            ready_len: 0,
            backlog: Bucket::EMPTY,
            overdue_row: Row::of_at_most(BURST),
            tick_row: Row::of_at_most(BURST),
            last_row: Row::of_at_most(LAST_BURSTS * BURST),
            chunks: Chunks::default(),
            sorter: None,
            sweeper: Sweeper::START,
        }
    }

    /// The number of buckets, a power of two.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.ring.mask() as usize + 1
    }

    /// One step of a pass through `bucket`: entries due up to `until` go to `sink`. Returns the
    /// entries looked at and whether the pass is over.
    fn extract(
        &mut self,
        bucket: usize,
        pass: &mut Pass,
        until: u64,
        mut sink: impl FnMut(&mut Chunks<CHUNK_ENTRIES>, Entry),
    ) -> (usize, bool) {
        self.sweeper.disturb(bucket + 1);
        let Some(chain) = self.ring.bucket_mut(bucket) else {
            return (0, true);
        };
        let step = pass.step(&mut self.chunks, chain, |chunks, id| {
            // A copy, because the sink uses the pool.
            let (chunk, mut mask) = (*chunks.chunk(id), 0);
            for (place, entry) in chunk.entries().iter().enumerate() {
                if entry.deadline <= until {
                    mask |= 1 << place;
                    sink(chunks, *entry);
                }
            }
            mask
        });
        if step.cycle_done {
            self.ring.update_occupancy(bucket);
        }
        (step.examined, step.cycle_done)
    }

    /// Yields `tick` from its bucket, from where `open` left off. Ends in `Idle`, or in `Visit` when
    /// the budget or the looks are used up.
    ///
    /// Of a burst, what comes after the first ones goes to `ready`, and from there is set aside but for the last ones:
    /// so what was filed for this tick shortly before it comes in time.
    fn visit(
        &mut self,
        tick: u64,
        mut open: Option<Pass>,
        left: &mut usize,
        looks: &mut usize,
        due: &mut Vec<Entry>,
    ) -> Stage {
        loop {
            let is_seen = open.is_none() && self.ring.earliest() != Some(tick);
            self.yield_ready(tick, is_seen, left, due);
            if self.ready.is_empty() && is_seen {
                self.hand = tick;
                return Stage::Idle;
            }
            if *left == 0 || *looks == 0 {
                return Stage::Visit { tick, pass: open };
            }
            if is_seen {
                continue;
            }
            let mut pass = open.unwrap_or(Pass::START);
            let (mut ready, mut kept, mut came) = (self.ready, 0, 0);
            let room = self.tick_row.rest(tick).min(*left);
            let (examined, done) =
                self.extract(self.ring.bucket_of(tick), &mut pass, tick, |chunks, entry| {
                    if came < room {
                        came += 1;
                        due.push(entry);
                    } else {
                        kept += 1;
                        chunks.push(&mut ready, entry);
                    }
                });
            self.ready = ready;
            self.ready_len += kept;
            *left -= came;
            self.tick_row.note(came);
            *looks = looks.saturating_sub(examined);
            open = (!done).then_some(pass);
        }
    }

    /// Moves everything due up to `target` to the sorter. Ends in `Sorted`, or in `Collect` when
    /// the looks are used up.
    fn collect(
        &mut self,
        target: u64,
        mut bucket: usize,
        mut open: Option<Pass>,
        looks: &mut usize,
    ) -> Stage {
        let mut sorter = self.sorter.take().unwrap_or_default();
        // The sorter is empty unless a collection is under way, so it only follows the hand here.
        if sorter.is_empty() {
            let _ = sorter.advance(self.hand, 0, &mut Vec::new());
        }
        let stage = loop {
            if open.is_none() {
                match self.ring.earliest() {
                    Some(earliest) if earliest <= target => bucket = self.ring.bucket_of(earliest),
                    _ => break Stage::Sorted { target },
                }
            }
            if *looks == 0 {
                break Stage::Collect { target, bucket, pass: open };
            }
            let mut pass = open.unwrap_or(Pass::START);
            let (examined, done) =
                self.extract(bucket, &mut pass, target, |_, entry| sorter.insert(entry));
            *looks = looks.saturating_sub(examined);
            open = (!done).then_some(pass);
        };
        self.sorter = Some(sorter);
        stage
    }

    /// Yields entries that are due at the very last tick.
    fn advance_to_the_end(&mut self, left: &mut usize, due: &mut Vec<Entry>) -> bool {
        self.sweeper.disturb(0);
        *left -= self.chunks.take(&mut self.never, *left, due);
        let all = self.never.is_empty();
        self.hand = if all { u64::MAX } else { u64::MAX - 1 };
        !all
    }

    /// The earliest deadline outside of the backlog, as [`next_deadline`](Wheel::next_deadline) tells it.
    fn next_in_time(&self) -> Option<u64> {
        let sorted = self.sorter.as_ref().and_then(|sorter| sorter.next_in_time());
        let candidates = [self.overdue.earliest(), self.ready.earliest(), sorted];
        let filed = self.ring.earliest().or(self.never.earliest());
        candidates.into_iter().chain([filed]).flatten().min()
    }

    /// What to do for an advance to `to` when nothing is under way; `None`: nothing is due.
    fn begin(&mut self, to: u64) -> Option<Stage> {
        let earliest = self.ring.earliest().filter(|&earliest| earliest <= to)?;
        if to - earliest <= self.ring.mask() {
            // In less than a revolution no bucket has two ticks due, so none is visited twice.
            self.hand = self.hand.max(earliest - 1);
            return Some(Stage::Visit { tick: earliest, pass: None });
        }
        let target = to.min(u64::MAX - 1);
        Some(Stage::Collect { target, bucket: self.ring.bucket_of(earliest), pass: None })
    }

    /// Yields everything due up to `to`, which is not before the hand, and says whether more is due.
    fn advance_ring(&mut self, to: u64, left: &mut usize, due: &mut Vec<Entry>) -> bool {
        let mut looks = left.saturating_mul(LOOKS_PER_YIELD).saturating_add(LOOKS_AT_LEAST);
        loop {
            match self.stage {
                Stage::Idle => match self.begin(to) {
                    Some(stage) => self.stage = stage,
                    None if to == u64::MAX => return self.advance_to_the_end(left, due),
                    None => {
                        self.hand = to;
                        return false;
                    }
                },
                Stage::Visit { tick, .. } if tick > to => return false,
                Stage::Visit { tick, pass } => {
                    self.stage = self.visit(tick, pass, left, &mut looks, due);
                    if matches!(self.stage, Stage::Visit { .. }) {
                        return true;
                    }
                }
                Stage::Collect { .. } if self.next_in_time().is_none_or(|next| next > to) => {
                    // Left over from an advance to a later tick than this one; it can wait.
                    self.hand = to;
                    return false;
                }
                Stage::Collect { target, bucket, pass } => {
                    self.stage = self.collect(target, bucket, pass, &mut looks);
                    if matches!(self.stage, Stage::Collect { .. }) {
                        return true;
                    }
                }
                Stage::Sorted { target } => {
                    let (stage, more) = self.hand_out(target, to, left, &mut looks, due);
                    self.stage = stage;
                    if more || matches!(stage, Stage::Sorted { .. }) {
                        return more;
                    }
                }
            }
        }
    }
}

impl Wheel for Hashed {
    #[inline(always)]
    fn try_insert(&mut self, entry: Entry) -> bool {
        let Self { chunks, ring, never, overdue, .. } = self;
        let filed = if entry.deadline <= self.hand {
            chunks.try_push(overdue, entry)
        } else if let Some(sorter) = self.stage.sorter_for(&mut self.sorter, entry.deadline) {
            sorter.try_insert(entry)
        } else if entry.deadline == u64::MAX {
            chunks.try_push(never, entry)
        } else {
            ring.try_push(chunks, entry)
        };
        self.len += usize::from(filed);
        filed
    }

    fn next_deadline(&self) -> Option<u64> {
        let sorted = self.sorter.as_ref().and_then(|sorter| sorter.next_deadline());
        [self.next_in_time(), self.backlog.earliest(), sorted].into_iter().flatten().min()
    }

    fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> bool {
        let mut left = budget;
        if !self.overdue.is_empty() {
            left -= self.yield_overdue(left, due);
        }
        let mut more = !self.overdue.is_empty();
        if !more && to >= self.hand {
            more = self.advance_ring(to, &mut left, due);
        }
        self.len -= budget - left;
        more
    }

    fn take_backlog(&mut self, limit: usize, due: &mut Vec<Entry>) {
        let position = self.backlog_position();
        let Self { chunks, backlog, sweeper, len, .. } = self;
        *len -= chunks.take_watched(backlog, limit, due, |chunk| sweeper.released(position, chunk));
    }

    fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
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
        self.stage = Stage::Idle;
        self.ready_len = 0;
        while let Some(chunk) = self.chunks.pop(&mut self.ready) {
            chunk.entries().iter().for_each(|entry| f(*entry));
        }
        if let Some(sorter) = &mut self.sorter {
            sorter.drain_all(f);
        }
        while let Some(position) = self.occupied_from(0) {
            let (bucket, chunks) = self.bucket_mut(position);
            while let Some(chunk) = chunks.pop(bucket) {
                chunk.entries().iter().for_each(|entry| f(*entry));
            }
            self.update_occupancy(position);
        }
        self.len = 0;
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
        size_of::<Self>()
            + self.ring.held_bytes()
            + self.chunks.held_bytes()
            + self.sorter.as_ref().map_or(0, |sorter| sorter.held_bytes())
    }
}
