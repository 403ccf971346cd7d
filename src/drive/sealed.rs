//! The sealed log: what has left the staging buffer alive, in the order of arrival, until something in it may be due.
//!
//! Where timers live long they die before they are due all the same, and an entry that dies here has cost two copies
//! and a look or two, all of them in the order of memory; the wheel never hears of it.
//!
//! ```text
//! staging buffer full of the living --> [block][block][block] -- a block may be due: it and all before it --> wheel
//!                                          the sweep goes round and packs what lives
//! ```
//!
//! Whole blocks are filed, and the older ones first, so that the wheel gets the entries of one tick in the order in
//! which they came. Each block knows its earliest deadline, or an earlier one.

use super::TimerStore;
use super::young::{Kept, Young, earliest, keep_live};
use crate::wheel::{Entry, Sweep, discard};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::iter;

/// Entries of a block: 16 KiB, a piece of what a poll may file or a cancel may sweep.
#[cfg(not(fuzzing))]
pub(super) const BLOCK: usize = 1024;
#[cfg(fuzzing)]
pub(super) const BLOCK: usize = 4;

/// Empty blocks that are kept, beside as many as there are full ones. As many as the zombies that are always tolerated
/// take, and what comes while they are swept, so that a steady state allocates nothing.
const RESERVE: usize = 32;

/// Blocks by which its memory grows: what one staging buffer fills.
const GROWTH: usize = 8;

/// How many blocks are filed without a look after one in which hardly anything was dead.
pub(super) const SKIPPED_LOOKS: u32 = 7;

/// How often a staging buffer is sealed after many zombies were seen the last time.
const SEALED_AFTER: u32 = 16;

/// Whether it pays to seal: not where hardly any timer dies. Then an entry here is only copied once more.
#[derive(Default)]
pub(super) struct Seals {
    left: u32,
}

impl Seals {
    pub(super) fn pay(&mut self, entries: u64, pending: u64) -> bool {
        let are_many = entries > pending + pending / 16;
        self.left = if are_many { SEALED_AFTER } else { self.left.saturating_sub(1) };
        self.left > 0
    }
}

struct Block {
    /// The places; those before `len` are taken.
    places: Box<[Young]>,
    len: usize,
    /// At or before every deadline.
    min: u64,
}

impl Block {
    fn young(&self) -> &[Young] {
        &self.places[..self.len]
    }

    fn is_full(&self) -> bool {
        self.len == BLOCK
    }

    /// Appends as many as there is room for; how many that are.
    fn append(&mut self, more: &[Young]) -> usize {
        let fitting = more.len().min(BLOCK - self.len);
        self.places[self.len..self.len + fitting].copy_from_slice(&more[..fitting]);
        self.len += fitting;
        self.min = self.min.min(earliest(&more[..fitting]));
        fitting
    }

    /// Removes entries from the front.
    fn advance(&mut self, by: usize) {
        self.places.copy_within(by..self.len, 0);
        self.len -= by;
        self.min = earliest(self.young());
    }

    fn keep(&mut self, kept: &Kept) {
        (self.len, self.min) = (kept.len, kept.min);
    }
}

/// What a call has taken out.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) filed: usize,
    /// Dead ones.
    pub(super) removed: usize,
}

/// See the module.
pub(super) struct SealedLog {
    /// The oldest first.
    blocks: VecDeque<Block>,
    /// Blocks without entries, for later.
    free: Vec<Box<[Young]>>,
    len: usize,
    /// At or before every deadline; `u64::MAX` when there is none.
    min: u64,
    /// Blocks that the sweep has gone through in this round.
    swept: usize,
    /// How many blocks are filed without a look at their entries.
    skipped_looks: u32,
}

impl Default for SealedLog {
    fn default() -> Self {
        Self {
            blocks: VecDeque::new(),
            free: Vec::new(),
            len: 0,
            min: u64::MAX,
            swept: 0,
            skipped_looks: 0,
        }
    }
}

impl SealedLog {
    /// Entries, dead ones included.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// At or before the earliest deadline; `u64::MAX` when there is none. Exact until a sweep removes something.
    #[inline]
    pub(super) const fn earliest(&self) -> u64 {
        self.min
    }

    /// Appends entries that are younger than all others; says how many, which is all of them if there is memory.
    pub(super) fn append(&mut self, young: &[Young]) -> usize {
        let mut taken = 0;
        while taken < young.len() {
            if self.blocks.back().is_none_or(Block::is_full) && !self.add_block() {
                break;
            }
            let Some(last) = self.blocks.back_mut() else { break };
            taken += last.append(&young[taken..]);
            self.min = self.min.min(last.min);
        }
        self.len += taken;
        taken
    }

    /// Adds an empty block; false if there is no memory.
    fn add_block(&mut self) -> bool {
        if self.blocks.try_reserve(1).is_err() {
            return false;
        }
        if self.free.is_empty() {
            self.grow();
        }
        let Some(places) = self.free.pop() else {
            return false;
        };
        self.blocks.push_back(Block { places, len: 0, min: u64::MAX });
        true
    }

    /// Adds memory for more blocks, as far as there is any.
    #[cold]
    fn grow(&mut self) {
        if self.free.try_reserve(GROWTH).is_ok() {
            self.free.extend(iter::from_fn(allocate).take(GROWTH));
        }
    }

    /// Keeps the memory of a block for later, or gives back what is too much.
    fn recycle(&mut self, block: Block) {
        let bound = self.blocks.len() + RESERVE;
        if self.free.len() < bound && self.free.try_reserve(1).is_ok() {
            self.free.push(block.places);
        } else {
            discard(block.places);
        }
        let kept = self.free.len().min(bound);
        self.free.drain(kept..).for_each(discard);
    }

    /// Hands blocks to `file`, from the oldest to the last one that may be due at `now`, until about `limit` entries
    /// have been looked at; one block at least.
    pub(super) fn file_due(
        &mut self,
        now: u64,
        limit: usize,
        records: &impl TimerStore,
        mut file: impl FnMut(Entry),
    ) -> Taken {
        let mut taken = Taken::default();
        if self.min > now {
            return taken;
        }
        let last_due = self.blocks.iter().rposition(|block| block.min <= now);
        for _ in 0..last_due.map_or(0, |last| last + 1) {
            let Some(mut block) = self.blocks.pop_front() else { break };
            self.swept = self.swept.saturating_sub(1);
            let len = block.len;
            self.look_at(&mut block, records);
            block.young().iter().for_each(|young| file(young.entry()));
            taken.filed += block.len;
            taken.removed += len - block.len;
            self.recycle(block);
            if taken.filed + taken.removed >= limit {
                break;
            }
        }
        self.len -= taken.filed + taken.removed;
        self.renew_min();
        taken
    }

    /// Removes what is dead, unless the last looks did not pay.
    fn look_at(&mut self, block: &mut Block, records: &impl TimerStore) {
        if self.skipped_looks > 0 {
            self.skipped_looks -= 1;
            return;
        }
        let len = block.len;
        let kept = keep_live(&mut block.places[..len], records, true);
        block.keep(&kept);
        if len - block.len < len / 8 {
            self.skipped_looks = SKIPPED_LOOKS;
        }
    }

    /// Hands all entries to `file`, the oldest first, until it has no room for one; that one stays, with those behind.
    pub(super) fn empty(&mut self, mut file: impl FnMut(Entry) -> bool) {
        while let Some(block) = self.blocks.front_mut() {
            let len = block.len;
            let filed = block.young().iter().position(|young| !file(young.entry())).unwrap_or(len);
            self.len -= filed;
            if filed < len {
                block.advance(filed);
                break;
            }
            self.swept = self.swept.saturating_sub(1);
            if let Some(block) = self.blocks.pop_front() {
                self.recycle(block);
            }
        }
        self.renew_min();
    }

    fn renew_min(&mut self) {
        self.min = self.blocks.iter().map(|block| block.min).min().unwrap_or(u64::MAX);
    }

    /// Goes on with the round of the sweep, a block at a time, until `budget` entries have been looked at or the
    /// round has ended. `keep` moves what stays to the front.
    pub(super) fn sweep(
        &mut self,
        budget: usize,
        mut keep: impl FnMut(&mut [Young]) -> Kept,
    ) -> Sweep {
        let mut sweep = Sweep { examined: 0, removed: 0, cycle_done: false };
        while sweep.examined < budget {
            let at = self.swept;
            let Some(block) = self.blocks.get_mut(at) else {
                self.end_round();
                sweep.cycle_done = true;
                break;
            };
            let len = block.len;
            let kept = keep(&mut block.places[..len]);
            block.keep(&kept);
            let removed = len - block.len;
            sweep.examined += len;
            sweep.removed += removed;
            self.len -= removed;
            self.pack(at);
        }
        sweep
    }

    /// The next sweep begins with the oldest block.
    pub(super) fn end_round(&mut self) {
        self.swept = 0;
        self.renew_min();
    }

    /// Fills the block before this one up with its entries.
    fn pack(&mut self, at: usize) {
        self.swept = at + 1;
        if at > 0 {
            let (before, block) = {
                let mut two = self.blocks.range_mut(at - 1..=at);
                (two.next(), two.next())
            };
            if let (Some(before), Some(block)) = (before, block) {
                let moved = before.append(block.young());
                if moved > 0 {
                    block.advance(moved);
                }
            }
        }
        if self.blocks[at].len == 0 {
            self.swept = at;
            if let Some(block) = self.blocks.remove(at) {
                self.recycle(block);
            }
        }
    }

    /// Forgets every entry.
    pub(super) fn clear(&mut self) {
        while let Some(block) = self.blocks.pop_back() {
            self.recycle(block);
        }
        (self.len, self.min, self.swept) = (0, u64::MAX, 0);
    }

    /// The memory that it holds, in bytes, its reserve included.
    pub(super) fn held_bytes(&self) -> usize {
        let blocks = self.blocks.capacity() * size_of::<Block>();
        let free = self.free.capacity() * size_of::<Box<[Young]>>();
        blocks + free + (self.blocks.len() + self.free.len()) * BLOCK * size_of::<Young>()
    }
}

/// Memory of a block; `None` if there is none.
fn allocate() -> Option<Box<[Young]>> {
    let mut places = Vec::new();
    places.try_reserve_exact(BLOCK).ok()?;
    places.resize(BLOCK, Young::NONE);
    Some(places.into_boxed_slice())
}

#[cfg(test)]
mod tests;
