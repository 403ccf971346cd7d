//! The blocks of the inbox: a row of slots that one thread writes and the reader reads.

use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::boxed::EmptyBox;
use crate::sync::cell::Tracked;
use crate::sync::{bounded, pages};
use std::ptr;

/// Slots in the blocks of a busy thread: 32 KiB of messages, so that fewer than one schedule in 1000 begins one.
/// Two under loom, so that models cross it.
pub(crate) const SLOTS: usize = bounded(2048, 2);

/// Slots in a thread's first block, and how many times more the next one has, up to [`SLOTS`]. A thousand threads
/// that each set a timer now and then hold little.
pub(crate) const FIRST: usize = bounded(8, 2);
const GROWTH: usize = 4;

/// In a slot's word: the lap of the block in which it was written.
pub(super) const LAP: u64 = 1 << 63;

/// A producer's message: a tick, and a word of the shard's making below 2^63.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) tick: u64,
    pub(crate) word: u64,
}

/// One message's place. Aligned, so that none lies in two cache lines.
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

    /// Returns the message of this lap, if it is published. The reader's alone.
    #[inline(always)]
    pub(super) fn read(&self, lap: u64) -> Option<Message> {
        // ORDERING: Acquire pairs with `write`. [P6]
        let word = self.word.load(Ordering::Acquire);
        if word & LAP != lap {
            return None;
        }
        // ORDERING: Relaxed: published with the word.
        Some(Message {
            tick: self.tick.load(Ordering::Relaxed),
            word: word & !LAP,
        })
    }
}

pub(crate) struct InboxBlock {
    /// The block that was handed over after this one. Once the queue's tail has left this one, the link is the
    /// reader's, which leaves out blocks that are read.
    pub(super) next: AtomicPtr<InboxBlock>,
    /// The block below this one in the stack of those that are read to their end.
    pub(super) below: AtomicPtr<InboxBlock>,
    /// Bit 63 of the words of this lap. Every slot is written in each lap, so the other value means a
    /// message of the lap before, which the reader has read. Written before the block is handed over.
    lap: AtomicU64,
    /// The slot to be read next. The reader's.
    at: AtomicUsize,
    slots: Box<[Slot]>,
    _tracked: Tracked,
}

impl InboxBlock {
    /// Returns a block with this many slots, in its first lap; `None` if there is no memory.
    pub(crate) fn new(slots: usize) -> Option<Box<Self>> {
        let mut row = Vec::new();
        row.try_reserve_exact(slots).ok()?;
        row.resize_with(slots, || Slot {
            tick: AtomicU64::new(0),
            word: AtomicU64::new(0),
        });
        let place = EmptyBox::new()?;
        Some(place.put(Self {
            next: AtomicPtr::new(ptr::null_mut()),
            below: AtomicPtr::new(ptr::null_mut()),
            lap: AtomicU64::new(LAP),
            at: AtomicUsize::new(0),
            slots: row.into_boxed_slice(),
            _tracked: Tracked::new(),
        }))
    }

    /// Makes a block that was read to its end ready for its next lap.
    pub(crate) fn renew(&mut self) {
        // ORDERING: Relaxed: no other thread has the block; its hand-over publishes all of it.
        self.next.store(ptr::null_mut(), Ordering::Relaxed);
        self.lap.store(self.lap() ^ LAP, Ordering::Relaxed);
        self.at.store(0, Ordering::Relaxed);
    }

    /// Reads what is published, `left` messages at most; returns whether that is the whole block. The reader's alone.
    #[inline]
    pub(super) fn read(&self, left: &mut usize, take: &mut impl FnMut(Message)) -> bool {
        // ORDERING: Relaxed: only the reader looks at it, and what its thread has written came with the hand-over.
        let from = self.at.load(Ordering::Relaxed);
        let lap = self.lap();
        let mut at = from;
        let is_finished = loop {
            let Some(slot) = self.slots.get(at) else {
                break true;
            };
            if *left == 0 {
                break false;
            }
            let Some(message) = slot.read(lap) else {
                break false;
            };
            at += 1;
            *left -= 1;
            take(message);
        };
        if at != from {
            // ORDERING: Relaxed: as above.
            self.at.store(at, Ordering::Relaxed);
        }
        is_finished
    }

    /// Gives the pages of a block's slots back to the system. The reader's, of a block that is read to its end.
    pub(super) fn spend(&self) {
        // ORDERING: Relaxed: as in `read`; published with the block.
        self.at.store(0, Ordering::Relaxed);
        // SAFETY: the slots are plain atomics. Their thread and the reader are done with them, and no thread uses
        // them again: through the queue a thread reaches the link only.
        unsafe { pages::empty(&*self.slots) };
    }

    /// Returns whether a block that was read to its end can serve again: a large one that is not spent.
    pub(super) fn serves_again(&self) -> bool {
        // ORDERING: Relaxed: the caller alone has the block.
        self.at.load(Ordering::Relaxed) == SLOTS
    }

    pub(crate) fn lap(&self) -> u64 {
        // ORDERING: Relaxed: the hand-over (or being alone with the block) orders it after `renew`.
        self.lap.load(Ordering::Relaxed)
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Slots of the block that follows one with this many, or none, at a writer.
    pub(super) fn next_size(slots: usize) -> usize {
        if slots == 0 {
            FIRST
        } else {
            (slots * GROWTH).min(SLOTS)
        }
    }
}
