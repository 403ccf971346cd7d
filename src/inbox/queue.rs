//! The outer queue: blocks in a row, after Michael and Scott (1996). Threads append theirs, the reader takes them.

use super::block::{Block, SLOTS};
use super::rest::AtRest;
use super::writer::Writer;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::{self, Domain};
use crossbeam_utils::CachePadded;
use std::ptr::{self, NonNull};

/// The part of the inbox that all producers share.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The block that the next one is linked to, or one before it; never behind a block that has been retired.
    tail: CachePadded<AtomicPtr<Block>>,
    /// Slots in the blocks that were handed over.
    handed: CachePadded<AtomicU64>,
    /// Those of them that the reader knew of in its last drain.
    known: AtomicU64,
    /// The first block of those that are not read to their end, or the one that was taken last. Written by the reader.
    first: AtomicPtr<Block>,
    domain: Domain,
    pub(super) at_rest: AtRest,
}

impl Inbox {
    /// Creates an inbox, with the empty block that its reader begins with.
    pub(super) fn new() -> Self {
        let Some(dummy) = Block::new(0) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<Block>())
        };
        let dummy = Box::into_raw(dummy);
        Self {
            tail: CachePadded::new(AtomicPtr::new(dummy)),
            handed: CachePadded::new(AtomicU64::new(0)),
            known: AtomicU64::new(0),
            first: AtomicPtr::new(dummy),
            domain: Domain::new(),
            at_rest: AtRest::new(),
        }
    }

    /// Gives a writer whose block is full the next one; `None` if there is no memory. Any thread, for its own writer;
    /// lock-free.
    ///
    /// All that a later write and hand-over need is there afterwards: they neither allocate nor unwind.
    #[cold]
    #[inline(never)]
    pub(crate) fn prepare(&self, writer: &Writer) -> Option<()> {
        if !writer.participates() && !epoch::has_memory() {
            return None;
        }
        let size = Block::next_size(writer.size());
        let rested = self.at_rest.take(&writer.pin(&self.domain), size == SLOTS);
        let block = match rested {
            Some(mut block) => {
                block.renew();
                block
            }
            None => Block::new(size)?,
        };
        epoch::serves_again::<Block>(&self.domain, &*block);
        writer.open(block);
        Some(())
    }

    /// Hands a block with a first message to the reader: about how many messages lie unread now. Any thread, with its
    /// own writer; lock-free; pins the epoch for its length.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over(&self, writer: &Writer, block: NonNull<Block>) -> u64 {
        // SAFETY: the caller's open block, which stays open until it is full.
        let slots = unsafe { block.as_ref() }.slots().len() as u64;
        self.link(writer, block);
        // ORDERING: Relaxed, also the load: an estimate of the backlog.
        let handed = self.handed.fetch_add(slots, Ordering::Relaxed) + slots;
        handed.saturating_sub(self.known.load(Ordering::Relaxed))
    }

    fn link(&self, writer: &Writer, block: NonNull<Block>) {
        let guard = writer.pin(&self.domain);
        loop {
            // ORDERING: Acquire pairs with the Release in `advance`: the block is initialised. [P7]
            let tail = self.tail.load(Ordering::Acquire);
            epoch::check(&guard, tail);
            // SAFETY: the tail is never null. A block is retired only after the tail has left it, and reused or
            // freed only when every guard from before that is gone; ours was taken before the load.
            let last = unsafe { &*tail };
            // ORDERING: Release publishes the block, its first message and all that its thread has written into
            // the blocks before [P7]. Acquire on failure, to pass the winner's block on.
            match last.next.compare_exchange(
                ptr::null_mut(),
                block.as_ptr(),
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => return self.advance(tail, block.as_ptr()),
                // Its thread may have stopped before it moved the tail: the next thread does it.
                Err(next) => self.advance(tail, next),
            }
        }
    }

    /// Moves the tail from a block to the one after it, if no other thread has yet.
    pub(super) fn advance(&self, from: *mut Block, next: *mut Block) {
        // ORDERING: Release publishes the block to producers that load the tail [P7]. Failure means that the tail
        // has left `from`.
        let _ = self.tail.compare_exchange(from, next, Ordering::Release, Ordering::Relaxed);
    }

    /// Slots handed over so far, for [`Inbox::note_known`].
    pub(super) fn handed(&self) -> u64 {
        // ORDERING: Relaxed: an estimate.
        self.handed.load(Ordering::Relaxed)
    }

    /// Notes that the reader knows of `slots` slots now.
    pub(super) fn note_known(&self, slots: u64) {
        // ORDERING: Relaxed: an estimate.
        self.known.store(slots, Ordering::Relaxed);
    }

    /// Returns the block at which the reader begins a drain.
    pub(super) fn first(&self) -> NonNull<Block> {
        // ORDERING: Relaxed: only the reader writes it, and a new one is given it with the inbox.
        // SAFETY: never null: `new` made the first one of a box, and `leave_out` stores no null.
        unsafe { NonNull::new_unchecked(self.first.load(Ordering::Relaxed)) }
    }

    /// Lets `next` follow `before` in the reader's list, or come first.
    pub(super) fn leave_out(&self, before: Option<NonNull<Block>>, next: NonNull<Block>) {
        // SAFETY: the reader has not put it to rest.
        let link = before.as_ref().map_or(&self.first, |before| unsafe { &before.as_ref().next });
        // ORDERING: Relaxed: the reader's own. A producer that still looks at a link finds that it is not null, and
        // makes nothing of it, because the tail has left the block.
        link.store(next.as_ptr(), Ordering::Relaxed);
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // ORDERING: Relaxed, both: `&mut self` means that every write and drain happened before.
        let mut block = self.first.load(Ordering::Relaxed);
        while !block.is_null() {
            // SAFETY: blocks from the first on are boxes in no other list, and no thread looks any more.
            let left = unsafe { Box::from_raw(block) };
            block = left.next.load(Ordering::Relaxed);
        }
    }
}
