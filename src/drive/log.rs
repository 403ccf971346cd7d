//! The log: where the owner's entries wait, in the order in which they came, before they are inserted.
//!
//! Most timers die young. An entry in the log costs one append to a line that is hot anyway; if its timer is cancelled
//! while it lies here, the wheel never hears of it. The newest blocks are *young*: when they are full, the dead leave
//! them. If most of their entries live on, they are *sealed*: nothing looks at them until something in them may be due,
//! or the sweep comes by. Where sealing does not pay, they are inserted.
//!
//! ```text
//! push --> [ tail ]                                        the dead leave when the young blocks are full
//!          [sealed][sealed][sealed] | [young][young][tail]
//!          a block may be due: it and all before it --> wheel
//! ```
//!
//! Rules that keep the order of insertion within a tick, in which a wheel yields its entries: the log only holds
//! deadlines at or after its threshold, earlier ones go past it; while it holds earlier entries the threshold does not
//! move beyond the present. So an entry that goes past it never overtakes an older one of the same tick, unless that
//! tick has come already, and what has come already is never kept back. For the same reason a young entry is inserted
//! before the sealed ones only if it is due before all of them, and blocks are inserted whole, the oldest first.

use super::TimerStore;
use super::block::{BLOCK, Block, BlockPool};
use super::policy::LookPolicy;
use crate::sync::bounded;
use crate::wheel::{Entry, Sweep};
use alloc::collections::VecDeque;
use core::mem::take;

/// Young blocks at most: going through their entries and inserting them, at some ten nanoseconds each, takes less
/// than a tenth of a millisecond.
pub(super) const MOST_YOUNG: usize = if cfg!(fuzzing) { 2 } else { bounded(16, 2) };

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
    young_min: u64,
    /// The same of the sealed blocks.
    sealed_min: u64,
    threshold: u64,
    /// Before it, deadlines are too soon to be sealed.
    soon: u64,
    /// Young blocks that are filled before their entries are looked at.
    most_young: usize,
    /// Looks at young blocks, and at sealed ones that may be due: the dead of the two are found apart.
    looks: (LookPolicy, LookPolicy),
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
            young_min: u64::MAX,
            sealed_min: u64::MAX,
            threshold: NEAR,
            soon: SOON,
            most_young: 1,
            looks: Default::default(),
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

    /// Keeps an entry, if there is a place left: otherwise call [`make_room`](Self::make_room) and try again. O(1).
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
        self.earliest_young().min(self.sealed_min)
    }

    #[inline]
    fn earliest_young(&self) -> u64 {
        self.earliest_in_tail().min(self.young_min)
    }

    /// Returns the same of the newest block alone, to which every entry goes first.
    #[inline(always)]
    pub(crate) fn earliest_in_tail(&self) -> u64 {
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

    /// Makes room for an entry, and says how many dead ones were removed. When the young blocks are full the dead
    /// leave them. If most entries live, they are sealed, if that `pays`; else they go to `insert`, in the order in
    /// which they came, up to the first that it has no room for. Without memory the log [is full](Self::is_full) even
    /// then.
    pub(crate) fn make_room(
        &mut self,
        store: &impl TimerStore,
        pays: impl FnOnce() -> bool,
        insert: impl FnMut(Entry) -> bool,
    ) -> usize {
        let mut removed = 0;
        let (young, room) = (self.blocks.len() - self.sealed + 1, self.most_young * BLOCK);
        if self.tail.len == 0 || young < self.most_young {
            // Another block will do.
        } else if self.looks.0.skips() {
            self.settle(pays(), insert);
        } else {
            let left;
            (removed, left) = self.remove_dead(store);
            if left > room / 2 && self.most_young == MOST_YOUNG {
                self.looks.0.note(removed, room);
                self.settle(pays(), insert);
            } else if left > room / 4 {
                self.most_young = (2 * self.most_young).min(MOST_YOUNG);
            } else if left < room / 16 {
                self.most_young = (self.most_young / 2).max(1);
            }
        }
        self.add_block();
        removed
    }

    /// Returns whether there is no room for an entry.
    pub(crate) fn is_full(&self) -> bool {
        self.tail.is_full()
    }

    /// Removes the dead from the young blocks: how many those were, and how many entries are left there.
    pub(super) fn remove_dead(&mut self, store: &impl TimerStore) -> (usize, usize) {
        // The records of few timers are in cache anyway.
        let far = self.most_young == MOST_YOUNG;
        let mut removed = 0;
        self.filter_young(|block| removed += block.remove_dead(store, far));
        let young = self
            .blocks
            .range(self.sealed..)
            .map(|block| block.len)
            .sum::<usize>();
        (removed, young + self.tail.len)
    }

    /// Inserts what is due soon and before all that is sealed, and seals the rest; files all if nothing `seals` and
    /// nothing has been sealed. What there is no memory for stays.
    #[inline(never)] // once, so that `insert` is inlined into it
    fn settle(&mut self, seals: bool, mut insert: impl FnMut(Entry) -> bool) {
        let is_sealed = seals || self.sealed > 0;
        let soon = if seals { self.soon } else { u64::MAX };
        let end = is_sealed.then(|| soon.min(self.sealed_min));
        if end.is_none_or(|end| self.earliest_young() < end) {
            let mut has_room = true;
            self.filter_young(|block| {
                block.retain(|entry| {
                    let waits = end.is_some_and(|end| entry.deadline >= end);
                    has_room = has_room && (waits || insert(entry));
                    waits || !has_room
                });
            });
        }
        if is_sealed {
            self.seal();
        }
    }

    /// Seals all that is young, and fills the last sealed block up: with few entries at a time each would have a block.
    fn seal(&mut self) {
        self.sealed_min = self.earliest();
        self.close_tail();
        if self.sealed < self.blocks.len() {
            self.pack(self.sealed, 0);
        }
        self.sealed = self.blocks.len();
        self.young_min = u64::MAX;
    }

    /// Applies a `filter` to each young block, and packs what it leaves.
    #[inline(always)]
    fn filter_young(&mut self, mut filter: impl FnMut(&mut Block)) {
        self.close_tail();
        let mut at = self.sealed;
        while let Some(block) = self.blocks.get_mut(at) {
            let before = block.len;
            filter(block);
            self.older -= before - block.len;
            at += usize::from(!self.pack(at, self.sealed));
        }
        if self.blocks.len() > self.sealed {
            self.tail = self.blocks.pop_back().unwrap_or_default();
            self.older -= self.tail.len;
        }
        let young = self.blocks.range(self.sealed..).map(|block| block.min);
        self.young_min = young.min().unwrap_or(u64::MAX);
    }

    /// Puts the tail behind the other blocks; there is none then.
    fn close_tail(&mut self) {
        let tail = take(&mut self.tail);
        if tail.len > 0 {
            self.older += tail.len;
            self.young_min = self.young_min.min(tail.min);
            self.blocks.push_back(tail);
        } else {
            self.pool.put(tail, self.blocks.len());
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
        self.pool.put(block, self.blocks.len());
        true
    }

    /// Begins a new tail if this one is full and there is memory.
    fn add_block(&mut self) {
        // For the old tail and, when it is looked at, the new one.
        if self.tail.is_full() && self.blocks.try_reserve(2).is_ok() {
            if let Some(block) = self.pool.get() {
                self.close_tail();
                self.tail = block;
            }
        }
    }

    /// Returns the tick at which [`insert_due`](Self::insert_due) has something to do.
    #[inline]
    pub(crate) fn insert_at(&self) -> u64 {
        self.earliest_young()
            .min(self.sealed_min.saturating_sub(SOON))
    }

    /// Hands what may be due at `now` to `insert`, in order and with what is older; the rest is sealed if that `pays`.
    /// Of the sealed ones about `limit` entries at a time: call again while something is [due](Self::earliest). Returns
    /// how many entries were inserted, and how many dead ones were removed.
    pub(crate) fn insert_due(
        &mut self,
        now: u64,
        limit: usize,
        store: &impl TimerStore,
        pays: impl FnOnce() -> bool,
        mut insert: impl FnMut(Entry),
    ) -> (usize, usize) {
        // What is not due yet leaves most of the time to what is.
        let limit = if self.sealed_min <= now {
            limit
        } else {
            limit / 4
        };
        let (mut inserted, mut removed) = (0, 0);
        if self.sealed_min <= now.saturating_add(SOON) {
            let is_due = |block: &Block| block.min <= now.saturating_add(SOON);
            let last = self.blocks.range(..self.sealed).rposition(is_due);
            for _ in 0..last.map_or(0, |last| last + 1) {
                let mut block = self.pop_sealed();
                if !self.looks.1.skips() {
                    let len = block.len;
                    let dead = block.remove_dead(store, true);
                    self.looks.1.note(dead, len);
                    removed += dead;
                }
                inserted += block.len;
                block.entries().for_each(&mut insert);
                self.pool.put(block, self.blocks.len());
                if inserted + removed >= limit {
                    break;
                }
            }
            self.renew_sealed_min();
        }
        if self.earliest_young() <= now && (self.sealed_min > now || self.sealed == 0) {
            let (dead, left) = self.remove_dead(store);
            removed += dead;
            let seals = left > BLOCK / 2 && pays();
            self.settle(seals, |entry| {
                insert(entry);
                inserted += 1;
                true
            });
        }
        (inserted, removed)
    }

    /// Takes the first sealed block out.
    fn pop_sealed(&mut self) -> Block {
        let block = self.blocks.pop_front().unwrap_or_default();
        self.older -= block.len;
        self.sealed -= 1;
        self.swept = self.swept.saturating_sub(1);
        block
    }

    fn renew_sealed_min(&mut self) {
        let sealed = self.blocks.range(..self.sealed).map(|block| block.min);
        self.sealed_min = sealed.min().unwrap_or(u64::MAX);
    }

    /// Makes room without memory for another block: hands all entries to `insert`, the oldest first, until it has no
    /// room for one; that one stays, with those behind.
    #[cold]
    pub(crate) fn insert_all(&mut self, mut insert: impl FnMut(Entry) -> bool) {
        self.seal();
        while let Some(block) = self.blocks.front_mut() {
            let len = block.len;
            let inserted = block
                .entries()
                .position(|entry| !insert(entry))
                .unwrap_or(len);
            if inserted < len {
                block.advance(inserted);
                self.older -= inserted;
                break;
            }
            let block = self.pop_sealed();
            self.pool.put(block, self.blocks.len());
        }
        self.renew_sealed_min();
        self.add_block();
    }

    /// Goes on with a round of the sweep through the sealed blocks, until `budget` entries have been looked at or the
    /// round has ended.
    pub(crate) fn sweep(&mut self, budget: usize, store: &impl TimerStore) -> Sweep {
        let mut sweep = Sweep {
            examined: 0,
            removed: 0,
            cycle_done: false,
        };
        while sweep.examined < budget {
            let at = self.swept;
            if at >= self.sealed {
                self.end_round();
                sweep.cycle_done = true;
                break;
            }
            let block = &mut self.blocks[at];
            sweep.examined += block.len;
            let removed = block.remove_dead(store, true);
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
    pub(crate) fn end_round(&mut self) {
        self.swept = 0;
        self.renew_sealed_min();
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        self.seal();
        self.blocks
            .drain(..)
            .for_each(|block| self.pool.put(block, 0));
        (self.sealed, self.older, self.swept, self.sealed_min) = (0, 0, 0, u64::MAX);
    }

    /// Returns the memory that it holds, in bytes, its reserve included.
    pub(crate) fn held_bytes(&self) -> usize {
        let tail = usize::from(!self.tail.places.is_empty());
        let memory = (tail + self.blocks.len()) * BLOCK * size_of::<Entry>();
        memory + self.blocks.capacity() * size_of::<Block>() + self.pool.held_bytes()
    }
}

#[cfg(test)]
mod tests;
