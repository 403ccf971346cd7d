//! The blocks of the inbox: a row of slots that one thread writes and the reader reads.

use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::sync::boxed::EmptyBox;
use crate::sync::cell::Tracked;
use crate::sync::{bounded, pages};
use std::ptr;

/// Slots in the blocks of a busy thread: 4 KiB of messages. Two under loom, so that models cross it.
pub(crate) const SLOTS: usize = bounded(512, 2);

/// Slots in a thread's first block, and how many times more the next one has, up to [`SLOTS`]. Ten thousand threads
/// that each set a timer now and then hold little.
pub(crate) const FIRST: usize = bounded(8, 2);
const GROWTH: usize = 4;

/// Slots in the blocks of a backlog: 32 KiB, because the system takes back whole pages only.
const OF_BACKLOG: usize = bounded(4096, 2);

/// In a slot: the lap of the block in which it was written.
pub(super) const LAP: u64 = 1 << 63;

/// One message's place: a word of the shard's making below 2^63, and the lap.
pub(super) struct Slot(AtomicU64);

impl Slot {
    /// Writes and publishes a message. The writer's alone, once per lap.
    #[inline(always)]
    pub(super) fn write(&self, word: u64, lap: u64) {
        debug_assert!(word < LAP);
        // ORDERING: Release pairs with the Acquire in `read`: everything the producer did before. [P6]
        self.0.store(word | lap, Ordering::Release);
    }

    /// Returns the message of this lap, if it is published. The reader's alone.
    #[inline(always)]
    pub(super) fn read(&self, lap: u64) -> Option<u64> {
        // ORDERING: Acquire pairs with `write`. [P6]
        let word = self.0.load(Ordering::Acquire);
        (word & LAP == lap).then_some(word & !LAP)
    }
}

pub(crate) struct InboxBlock {
    /// The block that the same writer has begun after this one.
    pub(super) next: AtomicPtr<InboxBlock>,
    /// The block below this one in the stack of those that are read to their end.
    pub(super) below: AtomicPtr<InboxBlock>,
    /// Bit 63 of the words of this lap. Every slot is written in each lap, so the other value means a
    /// message of the lap before, which the reader has read. Written before the block is linked.
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
        row.resize_with(slots, || Slot(AtomicU64::new(0)));
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
        // ORDERING: Relaxed: no other thread has the block; the link to it publishes all of it.
        self.next.store(ptr::null_mut(), Ordering::Relaxed);
        self.lap.store(self.lap() ^ LAP, Ordering::Relaxed);
        self.at.store(0, Ordering::Relaxed);
    }

    /// Reads what is published, `left` messages at most; returns whether that is the whole block. The reader's alone.
    #[inline]
    pub(super) fn read(&self, left: &mut usize, take: &mut impl FnMut(u64)) -> bool {
        // ORDERING: Relaxed: only the reader looks at it, and the link to the block has published the rest.
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
            let Some(word) = slot.read(lap) else {
                break false;
            };
            at += 1;
            *left -= 1;
            take(word);
        };
        if at != from {
            // ORDERING: Relaxed: as above.
            self.at.store(at, Ordering::Relaxed);
        }
        is_finished
    }

    /// Returns the pages of a block's slots to the system. The reader's, of a block that is read to its end.
    pub(super) fn spend(&self) {
        // ORDERING: Relaxed: as in `read`; published with the block.
        self.at.store(0, Ordering::Relaxed);
        // SAFETY: the slots are plain atomics. Their thread and the reader are done with them, and no thread uses
        // them again: a block that is spent does not serve again.
        unsafe { pages::empty(&*self.slots) };
    }

    /// Returns whether a block that was read to its end can serve again: one of a busy thread that is not spent.
    pub(super) fn serves_again(&self) -> bool {
        // ORDERING: Relaxed: the caller alone has the block.
        self.at.load(Ordering::Relaxed) == SLOTS
    }

    pub(crate) fn lap(&self) -> u64 {
        // ORDERING: Relaxed: the link to the block (or being alone with it) orders it after `renew`.
        self.lap.load(Ordering::Relaxed)
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns the slots of the block that follows one with this many, or none, at a writer.
    pub(super) fn next_size(slots: usize, backlog: bool) -> usize {
        if slots == 0 {
            FIRST
        } else if backlog {
            OF_BACKLOG
        } else {
            (slots * GROWTH).min(SLOTS)
        }
    }
}
