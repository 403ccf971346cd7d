//! The blocks of the inbox: rows of slots, each of which one thread writes and the reader reads.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::bounded;
use crate::sync::segments::{Segments, Zeroable};
use crate::sync::stack::{Linked, Stack};
use crossbeam_utils::CachePadded;

/// Slots of a block: two pages of 4 KiB, of which a thread that sends little touches one. Two slots under loom, so that
/// models cross the border.
pub(crate) const SLOTS: usize = bounded(512, 2);

/// Free blocks that keep their pages: those of a drain serve until the next one.
const AT_REST: u32 = bounded(64, 2);

/// In a slot's word: the lap of the block in which it was written.
pub(super) const LAP: u64 = 1 << 63;

/// What a producer hands over: a tick, and a word of the shard's making below 2^63.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) tick: u64,
    pub(crate) word: u64,
}

/// One message's place. Aligned, so that none lies in two cache lines.
#[derive(Debug, Default)]
#[repr(align(16))]
pub(super) struct Slot {
    tick: AtomicU64,
    word: AtomicU64,
}

impl Slot {
    /// Writes and publishes a message. The writer's alone, once per lap.
    #[inline(always)]
    pub(super) fn write(&self, message: Message, lap: u64) {
        debug_assert!(message.word < LAP);
        // ORDERING: Relaxed: published by the next store.
        self.tick.store(message.tick, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `read`: the tick, and everything the producer did before. [P6]
        self.word.store(message.word | lap, Ordering::Release);
    }

    /// The message of this lap, if it is published. The reader's alone.
    #[inline(always)]
    pub(super) fn read(&self, lap: u64) -> Option<Message> {
        // ORDERING: Acquire pairs with `write`. [P6]
        let word = self.word.load(Ordering::Acquire);
        // ORDERING: Relaxed: published with the word.
        (word & LAP == lap)
            .then(|| Message { tick: self.tick.load(Ordering::Relaxed), word: word & !LAP })
    }
}

/// The slots of a block, in pages of their own.
#[derive(Debug)]
pub(super) struct Row(pub(super) [Slot; SLOTS]);

impl Default for Row {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Slot::default()))
    }
}

// SAFETY: atomics of zero bytes are the integer 0.
unsafe impl Zeroable for Row {
    #[cfg(tickwheel_loom)]
    fn make_idle(&self) {
        // ORDERING: Relaxed: the system orders nothing.
        self.0.iter().for_each(|slot| slot.word.store(0, Ordering::Relaxed));
    }
}

/// What is known of a block beside its slots. The writer's until the block is handed over, the reader's then.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// The next block, plus one, in the stack or list that this one lies in; 0 for none.
    pub(super) next: AtomicU32,
    /// The slot to be read next.
    pub(super) at: AtomicU32,
    /// What the words of this lap carry in bit 63. Every slot is written in each lap, so the other value means a
    /// message of the lap before, which the reader has read, or a slot that was never written.
    pub(super) lap: AtomicU64,
}

// SAFETY: atomics of zero bytes are the integer 0.
unsafe impl Zeroable for Head {}

impl Linked for Head {
    fn link(&self) -> &AtomicU32 {
        &self.next
    }
}

/// All blocks of an inbox, by number. They are never freed before it.
#[derive(Debug)]
pub(super) struct Blocks {
    heads: Segments<Head>,
    rows: Segments<Row>,
    free: CachePadded<Stack>,
    /// About how many blocks are free.
    at_rest: AtomicU32,
    /// The first block that was never used.
    fresh: AtomicU32,
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self {
            heads: Segments::new(),
            rows: Segments::new(),
            free: CachePadded::default(),
            at_rest: AtomicU32::new(0),
            fresh: AtomicU32::new(0),
        }
    }

    /// A block that was taken; nothing else has a number.
    #[inline]
    pub(super) fn get(&self, block: u32) -> (&Head, &Row) {
        (self.heads.get_or_alloc(block), self.rows.get_or_alloc(block))
    }

    /// A block for the caller alone, in its next lap; `None` if there is no memory. Any thread; lock-free.
    pub(super) fn take(&self) -> Option<u32> {
        let block = match self.free.pop(&self.heads) {
            Some(block) => {
                // ORDERING: Relaxed: an estimate.
                self.at_rest.fetch_sub(1, Ordering::Relaxed);
                block
            }
            None => self.take_fresh()?,
        };
        let (head, _) = self.get(block);
        // ORDERING: Relaxed, all: nobody else has the block; its hand-over publishes them.
        head.lap.store(head.lap.load(Ordering::Relaxed) ^ LAP, Ordering::Relaxed);
        head.at.store(0, Ordering::Relaxed);
        Some(block)
    }

    /// A block that was never used; there is memory for it before anybody has its number.
    fn take_fresh(&self) -> Option<u32> {
        // ORDERING: Relaxed, also in the exchange: the number alone is the result.
        let mut fresh = self.fresh.load(Ordering::Relaxed);
        loop {
            self.heads.try_get_or_alloc(fresh)?;
            self.rows.try_get_or_alloc(fresh)?;
            let (relaxed, next) = (Ordering::Relaxed, fresh + 1);
            match self.fresh.compare_exchange(fresh, next, relaxed, relaxed) {
                Ok(_) => return Some(fresh),
                Err(now) => fresh = now,
            }
        }
    }

    /// Reader: gives a block up that is read to its end. At the end of a backlog, when many are free, the system has
    /// their pages back, which takes a call each, and no allocator.
    pub(super) fn give(&self, block: u32) {
        let (head, _) = self.get(block);
        // ORDERING: Relaxed: an estimate.
        let at_rest = self.at_rest.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the reader has the block alone, every slot of which is written and read.
        if at_rest >= AT_REST && unsafe { self.rows.give_back_one(block) } {
            // ORDERING: Relaxed: published by the push. Zeros are the lap before the first one.
            head.lap.store(0, Ordering::Relaxed);
        }
        self.free.push(&self.heads, block);
    }

    #[cfg(all(test, not(tickwheel_loom)))]
    pub(super) fn used(&self) -> u32 {
        // ORDERING: Relaxed: one thread.
        self.fresh.load(Ordering::Relaxed)
    }
}
