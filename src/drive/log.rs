//! The log: where the owner's entries wait, in the order in which they came, before they are filed.
//!
//! Most timers die young. An entry in the log costs one append to a line that is hot anyway; if its timer is cancelled
//! while it lies here, the wheel never hears of it. The newest blocks are *young*: when they are full, the dead leave
//! them. If most of their entries live on, they are *sealed*: nothing looks at them until something in them may be due,
//! or the sweep comes by. Where sealing does not pay, they are filed.
//!
//! ```text
//! push --> [ tail ]                                        the dead leave when the young blocks are full
//!          [sealed][sealed][sealed] | [young][young][tail]
//!          a block may be due: it and all before it --> wheel
//! ```
//!
//! Rules that keep the order of insertion within a tick, in which a wheel yields its entries: the log only holds
//! deadlines at or after its threshold, all others go past it; while it holds earlier entries the threshold does not
//! move beyond the present. So an entry that goes past it never overtakes an older one of the same tick, unless that
//! tick has come already, and what has come already is never kept back. For the same reason a young entry is filed
//! before the sealed ones only if it is due before all of them, and blocks are filed whole, the oldest first.

use super::TimerStore;
use super::block::{BLOCK, Block, Places, allocate};
use crate::sync::bounded;
use crate::wheel::{Entry, Sweep, discard};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem::take;

/// Young blocks at most: going through their entries and filing them, at some ten nanoseconds each, takes less than a
/// tenth of a millisecond.
const MOST_YOUNG: usize = if cfg!(fuzzing) { 2 } else { bounded(16, 2) };

/// How many looks for the dead are skipped after one that found hardly any: then looking costs an eighth.
const SKIPPED_LOOKS: u32 = 7;

/// Ticks from the hand to the threshold: what is due so soon is filed at once, as a recent entry.
const NEAR: u64 = 64;

/// What is due within so many ticks is not sealed, and what has been sealed is filed when it is due so soon: or few
/// entries at short notice would bring all that is older along when they are due.
const SOON: u64 = 512;

/// Empty blocks that are kept, next to as many as there are full ones: as many as the zombies that are always tolerated
/// take, so that a steady state allocates nothing.
const RESERVE: usize = 32;

/// How often the young blocks are sealed after many zombies were seen the last time.
const SEALED_AFTER: u32 = 16;

/// See the module.
pub(crate) struct Log {
    /// The newest block.
    tail: Block,
    /// All other blocks, the oldest first.
    blocks: VecDeque<Block>,
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
    /// How many looks for the dead are still to be skipped.
    skipped_looks: u32,
    /// Sealed blocks that the sweep has gone through in this round.
    swept: usize,
    /// Memory of blocks without entries, for later.
    free: Vec<Places>,
}

/// Decides whether it pays to seal: not where hardly any timer dies. Then an entry here is only copied once more.
#[derive(Default)]
pub(super) struct SealPolicy {
    left: u32,
}

impl SealPolicy {
    pub(super) fn should_seal(&mut self, entries: u64, pending: u64) -> bool {
        let are_many = entries > pending + pending / 16;
        self.left = if are_many { SEALED_AFTER } else { self.left.saturating_sub(1) };
        self.left > 0
    }
}

/// What a call has taken out.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) filed: usize,
    /// Dead ones.
    pub(super) removed: usize,
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
            skipped_looks: 0,
            swept: 0,
            free: Vec::new(),
        }
    }
}

impl Log {
    /// Whether an entry with this deadline is to be kept here.
    #[inline(always)]
    pub(crate) const fn admits(&self, deadline: u64) -> bool {
        deadline >= self.threshold
    }

    /// Whether the entry of a timer that was accepted earlier need not be kept here: if it is not
    /// [admitted](Self::admits), and is due before all that is here. Its tick may have come, and so may that of others.
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

    /// At or before the earliest deadline; `u64::MAX` when there is none. Exact as long as none of the timers in
    /// here has been cancelled since the last look at them.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.earliest_young().min(self.sealed_min)
    }

    #[inline]
    fn earliest_young(&self) -> u64 {
        self.tail.min.min(self.young_min)
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
        let ahead = if has_young { next } else { now.saturating_add(NEAR).min(self.sealed_min) };
        self.threshold = self.threshold.max(next).max(ahead);
        self.soon = now.saturating_add(SOON);
    }

    /// Makes room for an entry, and says how many dead ones were removed. When the young blocks are full the dead leave
    /// them. If most entries live, they are sealed, if that `pays`; else they go to `file`, in the order in which they
    /// came, up to the first that it has no room for. Without memory the log [is full](Self::is_full) even then.
    pub(crate) fn make_room(
        &mut self,
        store: &impl TimerStore,
        pays: impl FnOnce() -> bool,
        file: impl FnMut(Entry) -> bool,
    ) -> usize {
        let mut removed = 0;
        if self.tail.len > 0 && self.blocks.len() + 1 - self.sealed >= self.most_young {
            removed = self.look(store, pays, file);
        }
        if self.tail.is_full() {
            self.add_block();
        }
        removed
    }

    /// Whether there is no room for an entry.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.tail.is_full()
    }

    /// See [`make_room`](Self::make_room).
    fn look(
        &mut self,
        store: &impl TimerStore,
        pays: impl FnOnce() -> bool,
        file: impl FnMut(Entry) -> bool,
    ) -> usize {
        if self.skipped_looks > 0 {
            self.skipped_looks -= 1;
            self.settle(pays(), file);
            return 0;
        }
        let (removed, left) = self.remove_dead(store);
        let room = self.most_young * BLOCK;
        if left > room / 2 && self.most_young == MOST_YOUNG {
            if removed < room / 8 {
                self.skipped_looks = SKIPPED_LOOKS;
            }
            self.settle(pays(), file);
        } else if left > room / 4 {
            self.most_young = (2 * self.most_young).min(MOST_YOUNG);
        } else if left < room / 16 {
            self.most_young = (self.most_young / 2).max(1);
        }
        removed
    }

    /// Removes the dead from the young blocks: how many those were, and how many entries are left there.
    pub(super) fn remove_dead(&mut self, store: &impl TimerStore) -> (usize, usize) {
        // The records of few timers are in cache anyway.
        let far = self.most_young == MOST_YOUNG;
        let mut removed = 0;
        self.filter_young(|block| removed += block.remove_dead(store, far));
        let young = self.blocks.range(self.sealed..).map(|block| block.len).sum::<usize>();
        (removed, young + self.tail.len)
    }

    /// Files what is due soon and before all that is sealed, and seals the others; files all if nothing `seals` and
    /// nothing has been sealed. What there is no memory for stays.
    #[inline(never)] // once, so that `file` is inlined into it
    fn settle(&mut self, seals: bool, mut file: impl FnMut(Entry) -> bool) {
        let is_sealed = seals || self.sealed > 0;
        let soon = if seals { self.soon } else { u64::MAX };
        let end = is_sealed.then(|| soon.min(self.sealed_min));
        if end.is_none_or(|end| self.earliest_young() < end) {
            let mut has_room = true;
            self.filter_young(|block| {
                block.retain(|entry| {
                    let waits = end.is_some_and(|end| entry.deadline >= end);
                    has_room = has_room && (waits || file(entry));
                    waits || !has_room
                });
            });
        }
        if is_sealed {
            self.seal();
        }
    }

    /// Seals all that is young.
    fn seal(&mut self) {
        self.sealed_min = self.earliest();
        self.close_tail();
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
        } else if !tail.places.is_empty() {
            self.recycle(tail);
        }
    }

    /// Fills the block before this one up with its entries, unless that lies before `from`. Whether this one is gone.
    fn pack(&mut self, at: usize, from: usize) -> bool {
        let mut block = take(&mut self.blocks[at]);
        if at > from {
            self.blocks[at - 1].fill_from(&mut block);
        }
        let is_empty = block.len == 0;
        if is_empty {
            self.blocks.remove(at);
            self.recycle(block);
        } else {
            self.blocks[at] = block;
        }
        is_empty
    }

    /// Begins a new tail, if there is memory.
    fn add_block(&mut self) {
        // For the old tail and, when it is looked at, the new one.
        if self.blocks.try_reserve(2).is_ok() {
            if let Some(places) = self.free.pop().or_else(allocate) {
                self.close_tail();
                self.tail = Block::new(places);
            }
        }
    }

    /// Keeps the memory of a block for later, or gives back what is too much.
    fn recycle(&mut self, block: Block) {
        if self.free.try_reserve(1).is_ok() {
            self.free.push(block.places);
        }
        let kept = self.free.len().min(self.blocks.len() + RESERVE);
        self.free.drain(kept..).for_each(discard);
    }

    /// The tick at which [`file_due`](Self::file_due) has something to do.
    #[inline]
    pub(crate) fn next_look(&self) -> u64 {
        self.earliest_young().min(self.sealed_min.saturating_sub(SOON))
    }

    /// Hands what may be due at `now` to `file`, in order and with what is older; the others are sealed if that `pays`.
    /// Of the sealed ones about `limit` entries at a time: call again while something is [due](Self::earliest).
    pub(crate) fn file_due(
        &mut self,
        now: u64,
        limit: usize,
        store: &impl TimerStore,
        pays: impl FnOnce() -> bool,
        mut file: impl FnMut(Entry),
    ) -> Taken {
        // What is not due yet leaves most of the time to what is.
        let limit = if self.sealed_min <= now { limit } else { limit / 4 };
        let mut taken = Taken::default();
        self.file_sealed(now.saturating_add(SOON), limit, store, &mut taken, &mut file);
        if self.earliest_young() <= now && (self.sealed_min > now || self.sealed == 0) {
            let (removed, left) = self.remove_dead(store);
            taken.removed += removed;
            let seals = left > BLOCK / 2 && pays();
            self.settle(seals, |entry| {
                file(entry);
                taken.filed += 1;
                true
            });
        }
        taken
    }

    /// Hands sealed blocks to `file`, from the oldest to the last one that may be due at `now`, until about `limit`
    /// entries have been looked at; one block at least.
    fn file_sealed(
        &mut self,
        now: u64,
        limit: usize,
        store: &impl TimerStore,
        taken: &mut Taken,
        mut file: impl FnMut(Entry),
    ) {
        if self.sealed_min > now {
            return;
        }
        let last_due = self.blocks.range(..self.sealed).rposition(|block| block.min <= now);
        for _ in 0..last_due.map_or(0, |last| last + 1) {
            let Some(mut block) = self.blocks.pop_front() else { break };
            self.forget_first(block.len);
            if self.skipped_looks > 0 {
                self.skipped_looks -= 1;
            } else {
                let len = block.len;
                let removed = block.remove_dead(store, true);
                taken.removed += removed;
                if removed < len / 8 {
                    self.skipped_looks = SKIPPED_LOOKS;
                }
            }
            block.entries().for_each(&mut file);
            taken.filed += block.len;
            self.recycle(block);
            if taken.filed + taken.removed >= limit {
                break;
            }
        }
        self.renew_sealed_min();
    }

    /// The first block, with so many entries, has been taken out.
    fn forget_first(&mut self, len: usize) {
        self.older -= len;
        self.sealed -= 1;
        self.swept = self.swept.saturating_sub(1);
    }

    fn renew_sealed_min(&mut self) {
        let sealed = self.blocks.range(..self.sealed).map(|block| block.min);
        self.sealed_min = sealed.min().unwrap_or(u64::MAX);
    }

    /// Makes room without memory for another block: hands all entries to `file`, the oldest first, until it has no room
    /// for one; that one stays, with those behind.
    #[cold]
    pub(crate) fn file_all(&mut self, mut file: impl FnMut(Entry) -> bool) {
        self.seal();
        while let Some(block) = self.blocks.front_mut() {
            let len = block.len;
            let filed = block.entries().position(|entry| !file(entry)).unwrap_or(len);
            if filed < len {
                block.advance(filed);
                self.older -= filed;
                break;
            }
            if let Some(block) = self.blocks.pop_front() {
                self.forget_first(len);
                self.recycle(block);
            }
        }
        self.renew_sealed_min();
        if self.tail.is_full() {
            self.add_block();
        }
    }

    /// Goes on with a round of the sweep through the sealed blocks, until `budget` entries have been looked at or the
    /// round has ended.
    pub(crate) fn sweep(&mut self, budget: usize, store: &impl TimerStore) -> Sweep {
        let mut sweep = Sweep { examined: 0, removed: 0, cycle_done: false };
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

    /// The next sweep begins with the oldest entries.
    pub(crate) fn end_round(&mut self) {
        self.swept = 0;
        self.renew_sealed_min();
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        self.seal();
        while let Some(block) = self.blocks.pop_back() {
            self.recycle(block);
        }
        (self.sealed, self.older, self.swept) = (0, 0, 0);
        self.sealed_min = u64::MAX;
    }

    /// The memory that it holds, in bytes, its reserve included.
    pub(crate) fn held_bytes(&self) -> usize {
        let blocks = self.blocks.capacity() * size_of::<Block>();
        let free = self.free.capacity() * size_of::<Places>();
        let tail = usize::from(!self.tail.places.is_empty());
        blocks + free + (tail + self.blocks.len() + self.free.len()) * BLOCK * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests;
