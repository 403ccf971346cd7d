//! The outer queue: blocks in a row, after Michael and Scott (1996). Threads append theirs, the reader takes them.

use super::block::{Block, SLOTS};
use super::open::Open;
use super::rest::AtRest;
use super::writer::{Opened, Writer};
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::Domain;
use crossbeam_utils::CachePadded;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

/// What all producers share.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The block that the next one is linked to, or one before it; never behind a block that has been retired.
    tail: CachePadded<AtomicPtr<Block>>,
    /// Slots in the blocks that were handed over.
    handed: CachePadded<AtomicU64>,
    /// Those of them that the reader knew of in its last drain.
    known: AtomicU64,
    /// The block before the first that the reader has not taken; written by the reader, read by `drop`.
    pub(super) head: AtomicPtr<Block>,
    domain: Domain,
    /// Shared with what the epoch has yet to do.
    at_rest: Arc<AtRest>,
    /// The blocks that the reader leaves behind: their threads may still write to them.
    pub(super) left_open: Mutex<Vec<Open>>,
}

/// There is no memory for another block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

impl Inbox {
    /// An inbox, and the empty block that its reader begins with.
    pub(super) fn new() -> (Self, NonNull<Block>) {
        let Some(dummy) = Block::new(0) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<Block>())
        };
        let dummy = NonNull::from(Box::leak(dummy));
        let inbox = Self {
            tail: CachePadded::new(AtomicPtr::new(dummy.as_ptr())),
            handed: CachePadded::new(AtomicU64::new(0)),
            known: AtomicU64::new(0),
            head: AtomicPtr::new(dummy.as_ptr()),
            domain: Domain::new(),
            at_rest: Arc::new(AtRest::new()),
            left_open: Mutex::default(),
        };
        (inbox, dummy)
    }

    /// Gives a writer whose block is full the next one. Any thread, for its own writer; lock-free.
    ///
    /// Whatever a later write and hand-over need is there afterwards: they neither allocate nor unwind.
    #[cold]
    #[inline(never)]
    pub(crate) fn prepare(&self, writer: &Writer) -> Result<(), NoMemory> {
        // The thread's place in the epoch is made by its first pin.
        drop(self.domain.pin());
        let size = Block::next_size(writer.size());
        let rested = if size == SLOTS { self.at_rest.take() } else { None };
        let block = match rested {
            Some(mut block) => {
                block.renew();
                block
            }
            None => Block::new(size).ok_or(NoMemory)?,
        };
        self.domain.serves_again::<Block>(&*block);
        writer.open(block);
        Ok(())
    }

    /// Hands a block with a first message to the reader: about how many messages lie unread now. Any thread;
    /// lock-free; pins the epoch for its length.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over(&self, Opened(block): Opened) -> u64 {
        // SAFETY: the caller's open block, which nobody gives up before it is full.
        let slots = unsafe { block.as_ref() }.slots().len() as u64;
        self.link(block);
        // ORDERING: Relaxed, also the load: an estimate of the backlog.
        let handed = self.handed.fetch_add(slots, Ordering::Relaxed) + slots;
        handed.saturating_sub(self.known.load(Ordering::Relaxed))
    }

    fn link(&self, block: NonNull<Block>) {
        let guard = self.domain.pin();
        loop {
            // ORDERING: Acquire pairs with the Release in `advance`: the block is initialised. [P7]
            let tail = self.tail.load(Ordering::Acquire);
            self.domain.check(&guard, tail);
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
                // Its thread may have stopped before it moved the tail: whoever finds that does it.
                Err(next) => self.advance(tail, next),
            }
        }
    }

    /// Moves the tail from a block to the one after it, if nobody has yet.
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

    /// The reader knows of so many slots now.
    pub(super) fn note_known(&self, slots: u64) {
        // ORDERING: Relaxed: an estimate.
        self.known.store(slots, Ordering::Relaxed);
    }

    /// Sends a block, which is read to its end and out of the queue, to where the next one comes from.
    ///
    /// # Safety
    ///
    /// The block must have been made by `Block::new`; neither head nor tail leads to it (links do not matter: nobody
    /// but the reader follows one); its thread has written its last slot; and it must not be retired twice.
    pub(super) unsafe fn retire(&self, block: NonNull<Block>) {
        let at_rest = Arc::clone(&self.at_rest);
        let heir = move |block: Box<Block>| {
            if block.slots().len() == SLOTS {
                at_rest.put(block);
            }
        };
        // SAFETY: blocks are boxes; producers that loaded the tail while it led here are pinned; the rest is the
        // caller's promise.
        unsafe { self.domain.retire(block.as_ptr(), heir) };
    }

    /// The owner reclaims, so that producers do not have to.
    pub(super) fn collect(&self) {
        self.domain.collect();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let left_open = self.left_open.get_mut().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed throughout: `&mut self` means that every write and drain happened before.
        let mut block = self.head.load(Ordering::Relaxed);
        // The head itself may be open as well, or read to its end.
        let among_the_open = left_open.iter().any(|open| open.block().as_ptr() == block);
        let mut owned = !among_the_open;
        while let Some(place) = NonNull::new(block) {
            // SAFETY: blocks from the head on are not retired, and nobody looks any more.
            block = unsafe { place.as_ref() }.next.load(Ordering::Relaxed);
            if owned {
                // SAFETY: made of a box; those in the queue are in no other list, the head excepted.
                drop(unsafe { Box::from_raw(place.as_ptr()) });
            }
            owned = true;
        }
        left_open.drain(..).for_each(Open::free);
    }
}
