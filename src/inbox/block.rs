//! One block of the inbox: claim, publish, read, close.

use super::Message;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::cell::Tracked;

/// Slots in a block: 2 KiB of messages, so that a new block is rare and yet costs its producer little. Two under loom,
/// so that models cross it.
#[cfg(not(tickwheel_loom))]
pub(crate) const SLOTS: usize = 128;
#[cfg(tickwheel_loom)]
pub(crate) const SLOTS: usize = 2;

const PUBLISHED: u64 = 1 << 63;
const CONSUMED: u64 = u64::MAX;
const CLOSED: u64 = 1 << 63;

/// One message's place.
#[derive(Debug)]
struct Slot {
    tick: AtomicU64,
    word: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Block {
    /// Slots claimed so far, refused attempts included; `CLOSED` once nothing more is accepted here.
    claim: AtomicU64,
    /// Messages in all blocks before this one.
    pub(super) first: u64,
    pub(super) next: AtomicPtr<Block>,
    slots: [Slot; SLOTS],
    _tracked: Tracked,
}

/// The answer to a claim.
#[must_use]
pub(super) enum Claim {
    Slot(usize),
    Full,
    Closed,
}

/// What the reader finds in a slot.
#[must_use]
pub(super) enum Found {
    Message(Message),
    /// Claimed, perhaps, but not written yet.
    Hole,
    /// Read before, out of order.
    Consumed,
}

impl Block {
    /// A block for the messages from number `first` on.
    #[cfg(tickwheel_loom)]
    pub(super) fn new(first: u64) -> Box<Self> {
        Box::new(Self {
            claim: AtomicU64::new(0),
            first,
            next: AtomicPtr::new(std::ptr::null_mut()),
            slots: std::array::from_fn(|_| Slot {
                tick: AtomicU64::new(0),
                word: AtomicU64::new(0),
            }),
            _tracked: Tracked::new(),
        })
    }

    /// A block for the messages from number `first` on.
    #[cfg(not(tickwheel_loom))]
    pub(super) fn new(first: u64) -> Box<Self> {
        let layout = std::alloc::Layout::new::<Self>();
        // SAFETY: the layout is not empty; zero bytes are a block: atomic integers and a null pointer.
        let block = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<Self>();
        if block.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        // SAFETY: allocated with the layout that the box frees it with, and initialised.
        let mut block = unsafe { Box::from_raw(block) };
        block.first = first;
        block
    }

    /// The same of a block that has served before.
    #[cfg(not(tickwheel_loom))]
    pub(super) fn again(block: Box<Self>, first: u64) -> Box<Self> {
        let block = Box::into_raw(block);
        // SAFETY: it came from a box, so it is ours alone; zero bytes are a block, as in `new`.
        let mut block = unsafe {
            block.write_bytes(0, 1);
            Box::from_raw(block)
        };
        block.first = first;
        block
    }

    #[cfg(tickwheel_loom)]
    pub(super) fn again(_: Box<Self>, first: u64) -> Box<Self> {
        Self::new(first)
    }

    #[inline]
    pub(super) fn claim(&self) -> Claim {
        // ORDERING: Release pairs with the Acquire in `close`: a producer whose claim came first has armed
        // its timer where `stop` will look for it, even if it has not written the slot yet [P10]. It pairs
        // with the Acquire in `claimed` as well: this producer's earlier messages are no holes any more
        // [P13]. This one's contents are published per slot. The counter cannot reach bit 63: that would
        // take 2^63 refused attempts.
        let claim = self.claim.fetch_add(1, Ordering::Release);
        if claim & CLOSED != 0 {
            Claim::Closed
        } else if claim < SLOTS as u64 {
            Claim::Slot(claim as usize)
        } else {
            Claim::Full
        }
    }

    /// Writes and publishes a claimed slot.
    #[inline]
    pub(super) fn publish(&self, slot: usize, message: Message) {
        debug_assert!(message.word < PUBLISHED);
        let place = &self.slots[slot];
        // ORDERING: Relaxed: published by the next store.
        place.tick.store(message.tick, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `read`: tick, and everything the producer did before. [P6]
        place.word.store(message.word | PUBLISHED, Ordering::Release);
    }

    /// Slots that have been claimed. A lower bound: the handshake's fences make it include every push that
    /// does not raise its own alarm (see `park`).
    #[inline]
    pub(super) fn claimed(&self) -> usize {
        // ORDERING: Acquire pairs with `claim`: whatever the producers of these slots published before they
        // claimed them is read as published from here on. Order per producer rests on that. [P13]
        let claim = self.claim.load(Ordering::Acquire) & !CLOSED;
        claim.min(SLOTS as u64) as usize
    }

    #[inline]
    pub(super) fn read(&self, slot: usize) -> Found {
        let place = &self.slots[slot];
        // ORDERING: Acquire pairs with `publish`. [P6]
        match place.word.load(Ordering::Acquire) {
            0 => Found::Hole,
            CONSUMED => Found::Consumed,
            // ORDERING: Relaxed: published with the word.
            word => Found::Message(Message {
                tick: place.tick.load(Ordering::Relaxed),
                word: word & !PUBLISHED,
            }),
        }
    }

    /// Marks a slot that was read while an earlier one was still a hole.
    pub(super) fn consume(&self, slot: usize) {
        // ORDERING: Relaxed: only the reader looks at a published slot.
        self.slots[slot].word.store(CONSUMED, Ordering::Relaxed);
    }

    /// Refuses everything from now on; whether the block had room left, so that nothing can follow it.
    pub(super) fn close(&self) -> bool {
        // ORDERING: Acquire pairs with every earlier `claim` on this word: read-modify-writes continue each
        // other's release sequences. [P10]
        let claim = self.claim.fetch_or(CLOSED, Ordering::Acquire);
        claim & !CLOSED < SLOTS as u64
    }
}
