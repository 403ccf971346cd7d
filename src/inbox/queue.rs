//! The outer queue of the inbox, after Michael and Scott (1996): threads append their blocks to it, and the [`Reader`]
//! takes them from it and reads them.

use super::block::{InboxBlock, Message, SLOTS};
use super::rest::AtRest;
use super::writer::Writer;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::{self, Domain};
use crossbeam_utils::CachePadded;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The part of the inbox that all producers share.
pub(crate) struct Inbox {
    /// The block that the next one is linked to, or one before it; never behind a block that has been retired.
    tail: CachePadded<AtomicPtr<InboxBlock>>,
    /// Slots in the blocks that were handed over.
    handed: CachePadded<AtomicU64>,
    /// Those of them that the reader knew of in its last drain.
    known: AtomicU64,
    /// The first block of those that are not read to their end, or the one that was taken last. Written by the reader.
    first: AtomicPtr<InboxBlock>,
    domain: Domain,
    pub(super) at_rest: AtRest,
}

impl Inbox {
    /// Creates an inbox, with the empty block that its reader begins with.
    pub(super) fn new() -> Self {
        let Some(dummy) = InboxBlock::new(0) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<InboxBlock>())
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
    /// All that a later write and hand-over need is there afterwards, and they do not unwind. The hand-over pins the
    /// epoch, each 128th pin of which frees what was retired, and may allocate a list of the epoch's.
    #[cold]
    #[inline(never)]
    pub(crate) fn prepare(&self, writer: &Writer) -> Option<()> {
        if !writer.participates() && !epoch::has_memory() {
            return None;
        }
        let size = InboxBlock::next_size(writer.size());
        let mut rested = self.at_rest.take(&writer.pin(&self.domain), size == SLOTS);
        rested.iter_mut().for_each(|block| block.renew());
        let block = rested.or_else(|| InboxBlock::new(size))?;
        epoch::serves_again::<InboxBlock>(&self.domain, &*block);
        writer.open(block);
        Some(())
    }

    /// Hands a block with a first message to the reader: about how many messages lie unread now. Any thread, with its
    /// own writer; lock-free; pins the epoch for its length.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over(&self, writer: &Writer, block: NonNull<InboxBlock>) -> u64 {
        // SAFETY: the caller's open block, which stays open until it is full.
        let slots = unsafe { block.as_ref() }.slots().len() as u64;
        self.link(writer, block);
        // ORDERING: Relaxed, also the load: an estimate of the backlog.
        let handed = self.handed.fetch_add(slots, Ordering::Relaxed) + slots;
        handed.saturating_sub(self.known.load(Ordering::Relaxed))
    }

    fn link(&self, writer: &Writer, block: NonNull<InboxBlock>) {
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
    pub(super) fn advance(&self, from: *mut InboxBlock, next: *mut InboxBlock) {
        // ORDERING: Release publishes the block to producers that load the tail [P7]. Failure means that the tail
        // has left `from`.
        let _ = self
            .tail
            .compare_exchange(from, next, Ordering::Release, Ordering::Relaxed);
    }

    /// Returns the block at which the reader begins a drain.
    pub(super) fn first(&self) -> NonNull<InboxBlock> {
        // ORDERING: Relaxed: only the reader writes it, and a new one is given it with the inbox.
        // SAFETY: never null: `new` made the first one of a box, and `leave_out` stores no null.
        unsafe { NonNull::new_unchecked(self.first.load(Ordering::Relaxed)) }
    }

    /// Lets `next` follow `before` in the reader's list, or come first.
    pub(super) fn leave_out(&self, before: Option<NonNull<InboxBlock>>, next: NonNull<InboxBlock>) {
        // SAFETY: the reader has not put it to rest.
        let link = before
            .as_ref()
            .map_or(&self.first, |before| unsafe { &before.as_ref().next });
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

/// One per inbox; held by the shard's owner. Neither allocates nor frees anything, and never pins: the blocks from the
/// first to the head are its own to read, and only the reader gives one of them up.
pub(crate) struct Reader {
    inbox: Arc<Inbox>,
    /// The block that was taken last, whose link leads to the next one.
    head: NonNull<InboxBlock>,
}

// SAFETY: the links that it follows are its own; it may move between threads as a whole.
unsafe impl Send for Reader {}

/// The result of a drain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drained {
    pub(crate) taken: usize,
    /// The limit ended the drain: readable messages may be left.
    pub(crate) more: bool,
}

impl Reader {
    /// Creates an inbox, and its one reader.
    pub(crate) fn new() -> Self {
        let inbox = Arc::new(Inbox::new());
        let head = inbox.first();
        Self { inbox, head }
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Takes up to `limit` messages, in order per producer.
    ///
    /// Returns after everything that was written (and handed over) before the call, unless the limit ends it.
    pub(crate) fn drain(&mut self, limit: usize, mut take: impl FnMut(Message)) -> Drained {
        // Before the first look into a block: what is handed over later may follow something that a look has missed.
        let mut more = !self.take_blocks(limit);
        let mut left = limit;
        let (mut before, mut at) = (None, self.inbox.first());
        loop {
            // SAFETY: from the first block to the head none is put to rest but here, where the list leaves it out.
            let block = unsafe { at.as_ref() };
            let is_finished = block.read(&mut left, &mut take);
            more |= !is_finished && left == 0;
            // ORDERING: Relaxed: the reader has looked at the links up to the head before, or has written them.
            let next = NonNull::new(block.next.load(Ordering::Relaxed));
            let (false, Some(next)) = (at == self.head, next) else {
                break;
            };
            if is_finished {
                self.inbox.leave_out(before, next);
                // SAFETY: read to its end, and so written to its end; the head has moved on, hence the tail, too; the
                // list has just left it out.
                unsafe { self.inbox.at_rest.put(at) };
            } else {
                before = Some(at);
            }
            at = next;
        }
        Drained {
            taken: limit - left,
            more,
        }
    }

    /// Takes blocks from the queue, `most` at most; false if there may be more.
    fn take_blocks(&mut self, most: usize) -> bool {
        // ORDERING: Relaxed: an estimate.
        let handed = self.inbox.handed.load(Ordering::Relaxed);
        for _ in 0..most {
            // SAFETY: the head is put to rest only when it is the head no more.
            let head = unsafe { self.head.as_ref() };
            // ORDERING: Acquire pairs with the link in `Inbox::link`: the block, its first message, and all that its
            // thread has written before. [P7]
            let Some(next) = NonNull::new(head.next.load(Ordering::Acquire)) else {
                // ORDERING: Relaxed: an estimate.
                self.inbox.known.store(handed, Ordering::Relaxed);
                return true;
            };
            // The tail must have left a block before that is retired, so that no producer that pins from now on can
            // reach it.
            self.inbox.advance(self.head.as_ptr(), next.as_ptr());
            self.head = next;
        }
        false
    }

    #[cfg(all(test, not(tickwheel_loom)))]
    pub(super) fn open_blocks(&self) -> usize {
        let next = |block: &NonNull<InboxBlock>| {
            // SAFETY: as in `drain`.
            // ORDERING: Relaxed: the reader's own links.
            NonNull::new(unsafe { block.as_ref() }.next.load(Ordering::Relaxed))
        };
        std::iter::successors(Some(self.inbox.first()), next).count()
    }
}
