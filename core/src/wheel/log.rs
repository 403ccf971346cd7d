//! The log: where entries wait, in the order in which they came, before they are inserted into the rings.
//!
//! Most timers die young. An entry in the log costs one append to a line that is hot anyway; if its timer is cancelled
//! while it lies here, the rings never hear of it. The newest blocks are *young*: when they are full, the dead leave
//! them. If most of their entries live on, they are *sealed*: nothing looks at them until something in them may be due,
//! or the sweep comes by. Where sealing does not pay, they are inserted.
//!
//! ```text
//! push --> [ tail ]                                        the dead leave when the young blocks are full
//!          [sealed][sealed][sealed] | [young][young][tail]
//!          a block may be due: it and all before it --> rings
//! ```
//!
//! A wheel yields the entries of a tick in the order of their insertion. Three rules of the log keep it:
//!
//! * The log holds only deadlines at or after its threshold. Earlier ones bypass it. While the log has earlier entries,
//!   the threshold does not move beyond the present. So an entry that bypasses the log does not overtake an older entry
//!   of its tick. Exception: the tick has passed; then both are due now.
//! * A young entry is inserted before the sealed ones only if it is due before all of them.
//! * Blocks are inserted whole, the oldest first.

use super::block::{BLOCK, Block, BlockPool};
use super::policy::{LookPolicy, SealPolicy};
use super::{Entry, Records, Sweep, Wheel};
use crate::sync::bounded;
use alloc::collections::VecDeque;
use core::mem::{size_of, take};

/// Young blocks at most: going through their entries and inserting them, at some ten nanoseconds each, takes less
/// than a tenth of a millisecond.
pub(crate) const MOST_YOUNG: usize = if cfg!(fuzzing) { 2 } else { bounded(16, 2) };

/// Ticks from the hand to the threshold: what is due so soon is inserted at once, as a recent entry.
const NEAR: u64 = 64;

/// Entries due within this many ticks are not sealed, and sealed ones are inserted when they are due so soon. Otherwise
/// few entries at short notice would bring all that is older along when they are due.
const SOON: u64 = 512;

/// See the module.
pub(crate) struct Log {
    /// The newest block.
    tail: Block,
    /// All other blocks, the oldest first.
    pub(super) blocks: VecDeque<Block>,
    /// How many of these are sealed.
    sealed: usize,
    /// Entries in blocks other than the tail.
    older: usize,
    /// At or before every deadline in the young blocks before the tail; `u64::MAX` when there is none.
    closed_min: u64,
    /// The same of the sealed blocks.
    sealed_min: u64,
    threshold: u64,
    /// Before it, deadlines are too soon to be sealed.
    soon: u64,
    /// Young blocks that are filled before their entries are looked at.
    most_young: usize,
    /// Looks at young blocks, and at sealed ones that may be due: the dead of the two are found apart.
    looks: (LookPolicy, LookPolicy),
    seals: SealPolicy,
    /// Sealed blocks that the sweep has gone through in this round.
    swept: usize,
    pub(super) pool: BlockPool,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            tail: Block::default(),
            blocks: VecDeque::new(),
            sealed: 0,
            older: 0,
            closed_min: u64::MAX,
            sealed_min: u64::MAX,
            threshold: NEAR,
            soon: SOON,
            most_young: 1,
            looks: Default::default(),
            seals: SealPolicy::default(),
            swept: 0,
            pool: BlockPool::default(),
        }
    }
}

impl Log {
    /// Returns whether an entry with this deadline is to be kept here.
    #[inline(always)]
    pub(crate) const fn admits(&self, deadline: u64) -> bool {
        deadline >= self.threshold
    }

    /// Returns whether the entry of a timer that was accepted earlier need not be kept here: if it is not
    /// [admitted](Self::admits), and is due before all that is here. Its tick may have come, and so may that of older
    /// entries.
    #[inline]
    pub(crate) fn may_bypass(&self, deadline: u64) -> bool {
        !self.admits(deadline) && deadline < self.earliest()
    }

    /// Keeps an entry, if there is a place left: otherwise call [`Wheel::begin_block`] and try again. O(1).
    #[inline(always)]
    #[must_use]
    pub(crate) fn push(&mut self, entry: Entry) -> bool {
        debug_assert!(self.admits(entry.deadline) || entry.deadline >= self.earliest());
        self.tail.push(entry)
    }

    /// Returns a tick at or before the earliest deadline; `u64::MAX` when there is none. Exact as long as none of the
    /// timers in here has been cancelled since the last look at them.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.young_min().min(self.sealed_min)
    }

    #[inline]
    fn young_min(&self) -> u64 {
        self.tail_min().min(self.closed_min)
    }

    /// Returns the same of the newest block alone, to which every entry goes first.
    #[inline(always)]
    pub(crate) fn tail_min(&self) -> u64 {
        self.tail.min
    }

    /// Entries kept, dead ones included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tail.len + self.older
    }

    /// Lets the threshold follow the present: well ahead of it if nothing is here that is due so soon, else just
    /// behind it.
    #[inline]
    pub(crate) fn follow(&mut self, now: u64) {
        let next = now.saturating_add(1);
        let has_young = self.tail.len > 0 || self.blocks.len() > self.sealed;
        let ahead = if has_young {
            next
        } else {
            now.saturating_add(NEAR).min(self.sealed_min)
        };
        self.threshold = self.threshold.max(next).max(ahead);
        self.soon = now.saturating_add(SOON);
    }

    /// Returns whether there is no room for an entry.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.tail.is_full()
    }

    /// Removes the dead from the young blocks: how many those were, and how many entries are left there.
    pub(super) fn remove_dead(&mut self, records: &impl Records) -> (usize, usize) {
        // The records of few timers are in cache anyway.
        let far = self.most_young == MOST_YOUNG;
        let (before, mut at) = (self.len(), self.sealed);
        self.close_tail();
        while let Some(block) = self.blocks.get_mut(at) {
            self.older -= block.remove_dead(records, far);
            at += usize::from(!self.pack(at, self.sealed));
        }
        self.open_tail();
        let young = self.blocks.range(self.sealed..);
        let left = young.map(|block| block.len).sum::<usize>() + self.tail.len;
        (before - self.len(), left)
    }

    /// Seals all that is young, and fills the last sealed block up: with few entries at a time each would have a block.
    fn seal(&mut self) {
        self.sealed_min = self.earliest();
        self.close_tail();
        if self.sealed < self.blocks.len() {
            self.pack(self.sealed, 0);
        }
        self.sealed = self.blocks.len();
        self.closed_min = u64::MAX;
    }

    /// Makes the last young block the tail again.
    fn open_tail(&mut self) {
        if self.blocks.len() > self.sealed {
            self.tail = self.blocks.pop_back().unwrap_or_default();
            self.older -= self.tail.len;
        }
        let young = self.blocks.range(self.sealed..).map(|block| block.min);
        self.closed_min = young.min().unwrap_or(u64::MAX);
    }

    /// Puts the tail behind the other blocks; there is none then.
    fn close_tail(&mut self) {
        let tail = take(&mut self.tail);
        if tail.len > 0 {
            self.older += tail.len;
            self.closed_min = self.closed_min.min(tail.min);
            self.blocks.push_back(tail);
        } else {
            self.pool.put(tail);
        }
    }

    /// Fills the block before this one up with its entries, unless that lies before `from`. Whether this one is gone.
    fn pack(&mut self, at: usize, from: usize) -> bool {
        let mut block = take(&mut self.blocks[at]);
        if at > from {
            self.blocks[at - 1].fill_from(&mut block);
        }
        if block.len > 0 {
            self.blocks[at] = block;
            return false;
        }
        self.blocks.remove(at);
        self.pool.put(block);
        true
    }

    /// Begins a new tail if this one is full and there is memory.
    fn add_block(&mut self) {
        // For the old tail and, when it is looked at, the new one. When all are empty, all of them lie in the pool.
        let all = self.blocks.len() + self.pool.0.len() + 2;
        if self.tail.is_full() && self.blocks.try_reserve(2).is_ok() && self.pool.try_reserve(all) {
            if let Some(block) = self.pool.get() {
                self.close_tail();
                self.tail = block;
            }
        }
    }

    /// Returns the tick before which [`Wheel::insert_due`] has nothing to do. It is at or before the
    /// [earliest](Self::earliest).
    #[inline]
    pub(crate) fn idle_until(&self) -> u64 {
        self.young_min().min(self.sealed_min.saturating_sub(SOON))
    }

    /// Takes the first sealed block out.
    fn pop_sealed(&mut self) -> Block {
        let block = self.blocks.pop_front().unwrap_or_default();
        self.older -= block.len;
        self.sealed -= 1;
        self.swept = self.swept.saturating_sub(1);
        block
    }

    /// Puts it back.
    fn push_sealed(&mut self, block: Block) {
        self.older += block.len;
        self.sealed += 1;
        self.blocks.push_front(block);
    }

    fn renew_sealed_min(&mut self) {
        let sealed = self.blocks.range(..self.sealed).map(|block| block.min);
        self.sealed_min = sealed.min().unwrap_or(u64::MAX);
    }

    /// Goes on with a round of the sweep through the sealed blocks, until `budget` entries have been looked at or the
    /// last one has been passed.
    pub(super) fn sweep(&mut self, budget: usize, records: &impl Records) -> Sweep {
        let mut sweep = Sweep {
            examined: 0,
            removed: 0,
            cycle_done: false,
        };
        while sweep.examined < budget {
            let at = self.swept;
            if at >= self.sealed {
                sweep.cycle_done = true;
                break;
            }
            let block = &mut self.blocks[at];
            sweep.examined += block.len;
            let removed = block.remove_dead(records, true);
            sweep.removed += removed;
            self.older -= removed;
            if self.pack(at, 0) {
                self.sealed -= 1;
            } else {
                self.swept += 1;
            }
        }
        sweep
    }

    /// Lets the next sweep begin with the oldest entries.
    pub(super) fn restart_sweep(&mut self) {
        self.swept = 0;
        self.renew_sealed_min();
    }

    /// Makes room for the places of half a million entries, if there is memory.
    pub(super) fn reserve_places(&mut self) {
        _ = self.blocks.try_reserve(1024);
        _ = self.pool.try_reserve(1024);
    }

    /// Forgets every entry.
    pub(super) fn clear(&mut self) {
        self.seal();
        self.blocks.drain(..).for_each(|block| self.pool.put(block));
        (self.sealed, self.older, self.swept, self.sealed_min) = (0, 0, 0, u64::MAX);
    }

    /// Returns the memory that it holds, in bytes, its reserve included.
    pub(super) fn held_bytes(&self) -> usize {
        let tail = usize::from(!self.tail.places.is_empty());
        let memory = (tail + self.blocks.len()) * BLOCK * size_of::<Entry>();
        memory + self.blocks.capacity() * size_of::<Block>() + self.pool.held_bytes()
    }
}

/// The methods that work on the log's entries.
impl Wheel {
    /// Begins a new block if the newest is full. When the young blocks are full the dead leave them. If most entries live,
    /// they are sealed, if that pays; else they are inserted, in the order in which they came. Without memory the log
    /// [is full](Log::is_full) even then.
    pub(super) fn begin_block(&mut self, records: &impl Records) {
        let entries = self.len();
        let log = &mut self.log;
        let (young, room) = (log.blocks.len() - log.sealed + 1, log.most_young * BLOCK);
        if log.tail.len == 0 || young < log.most_young {
            // Another block will do.
        } else if log.looks.0.skips() {
            self.settle(entries, records);
        } else {
            let (removed, left) = log.remove_dead(records);
            self.removed += removed as u64;
            if left > room / 2 && log.most_young == MOST_YOUNG {
                log.looks.0.note(removed, room);
                self.settle(entries, records);
            } else if left > room / 4 {
                log.most_young = (2 * log.most_young).min(MOST_YOUNG);
            } else if left < room / 16 {
                log.most_young = (log.most_young / 2).max(1);
            }
        }
        self.log.add_block();
    }

    /// Seals the young entries if that pays, else inserts them. `entries`: how many there were, with the dead that were
    /// found since.
    fn settle(&mut self, entries: usize, records: &impl Records) {
        let pending = records.pending();
        let seals = self.log.seals.should_seal(entries as u64, pending);
        self.insert_young(seals);
    }

    /// Inserts what is due soon and before all that is sealed, and seals the rest; inserts all if nothing `seals` and
    /// nothing has been sealed. What there is no memory for stays.
    #[inline(never)]
    fn insert_young(&mut self, seals: bool) {
        let log = &mut self.log;
        let is_sealed = seals || log.sealed > 0;
        let soon = if seals { log.soon } else { u64::MAX };
        let end = is_sealed.then(|| soon.min(log.sealed_min));
        if end.is_none_or(|end| log.young_min() < end) {
            log.close_tail();
            let (mut at, mut has_room) = (log.sealed, true);
            while let Some(mut block) = self.log.blocks.get_mut(at).map(take) {
                let before = block.len;
                block.retain(|entry| {
                    let waits = end.is_some_and(|end| entry.deadline >= end);
                    has_room = has_room && (waits || self.rings.try_insert(entry));
                    waits || !has_room
                });
                let log = &mut self.log;
                log.older -= before - block.len;
                log.blocks[at] = block;
                at += usize::from(!log.pack(at, log.sealed));
            }
            self.log.open_tail();
        }
        if is_sealed {
            self.log.seal();
        }
    }

    /// Inserts what may be due at `now`, in order and with what is older; the rest is sealed if that pays. Of the sealed
    /// ones about `limit` entries at a time: call again while something is [due](Log::earliest). Returns how many
    /// entries have left the log.
    pub(super) fn insert_due(&mut self, now: u64, limit: usize, records: &impl Records) -> usize {
        let (entries, before) = (self.len(), self.log.len());
        if self.log.sealed_min <= now.saturating_add(SOON) {
            // What is not due yet leaves most of the time to what is.
            let limit = if self.log.sealed_min <= now {
                limit
            } else {
                limit / 4
            };
            self.insert_sealed(now.saturating_add(SOON), limit, records);
        }
        let log = &mut self.log;
        if log.young_min() <= now && (log.sealed_min > now || log.sealed == 0) {
            let (removed, left) = log.remove_dead(records);
            self.removed += removed as u64;
            if left > BLOCK / 2 {
                self.settle(entries, records);
            } else {
                self.insert_young(false);
            }
        }
        before - self.log.len()
    }

    /// Inserts the sealed blocks up to the last one of which something is due at `end`, but stops after about `limit`
    /// entries.
    fn insert_sealed(&mut self, end: u64, limit: usize, records: &impl Records) {
        let sealed = self.log.blocks.range(..self.log.sealed);
        let last = sealed.rev().position(|block| block.min <= end);
        let (mut blocks, mut taken) = (last.map_or(0, |last| self.log.sealed - last), 0);
        while blocks > 0 {
            blocks -= 1;
            let mut block = self.log.pop_sealed();
            taken += block.len;
            let look = &mut self.log.looks.1;
            if !look.skips() {
                let len = block.len;
                let dead = block.remove_dead(records, true);
                look.note(dead, len);
                self.removed += dead as u64;
            }
            block.entries().for_each(|entry| self.rings.insert(entry));
            self.log.pool.put(block);
            if taken >= limit {
                break;
            }
        }
        self.log.renew_sealed_min();
    }

    /// Makes room without memory for another block: inserts all entries, the oldest first, until there is no room for
    /// one; that one stays, with those behind.
    #[cold]
    pub(super) fn insert_all(&mut self) {
        self.log.seal();
        while self.log.sealed > 0 {
            let mut block = self.log.pop_sealed();
            let full = block
                .entries()
                .position(|entry| !self.rings.try_insert(entry));
            if let Some(inserted) = full {
                block.advance(inserted);
                self.log.push_sealed(block);
                break;
            }
            self.log.pool.put(block);
        }
        self.log.renew_sealed_min();
        self.log.add_block();
    }
}

#[cfg(test)]
mod tests;
