//! The shared part of the inbox: a stack of the writers that have news, after Treiber (1986), and the [`Reader`], which
//! takes all of them at once and reads their chains.

use super::block::{InboxBlock, SLOTS};
use super::rest::AtRest;
use super::writer::Writer;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::bounded;
use crossbeam_utils::CachePadded;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Messages that may lie unread before a producer requests a turn.
///
/// The inbox holds entries back, because an entry that is cancelled here never reaches the wheel. Each node that the
/// owner looks at is a cache line which the producer's next cancel wants back. So the owner should come late; but 512
/// KiB of messages is as much as should lie around.
pub(super) const MOST_UNREAD: u64 = bounded(64 * 1024, 4);

/// The part of the inbox that all producers share.
pub(crate) struct Inbox {
    /// The writer that was listed last.
    listed: CachePadded<AtomicPtr<Writer>>,
    /// Slots of all blocks that are full.
    filled: CachePadded<AtomicU64>,
    /// Those of them that the last drain knew of.
    known: AtomicU64,
    at_rest: AtRest,
}

impl Inbox {
    fn new() -> Self {
        Self {
            listed: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
            filled: CachePadded::new(AtomicU64::new(0)),
            known: AtomicU64::new(0),
            at_rest: AtRest::new(),
        }
    }

    /// Returns whether so many messages lie unread that the owner must come. Any thread; an estimate.
    pub(crate) fn is_long(&self) -> bool {
        // ORDERING: Relaxed, both: an estimate.
        let filled = self.filled.load(Ordering::Relaxed);
        filled.saturating_sub(self.known.load(Ordering::Relaxed)) >= MOST_UNREAD
    }

    /// Gives a writer whose block is full the next one; `None` if there is no memory. Any thread, for its own writer;
    /// lock-free.
    ///
    /// All that a later write needs is there afterwards. Now and then it pins the epoch, which frees what was retired.
    #[cold]
    #[inline(never)]
    pub(crate) fn prepare(&self, writer: &Writer) -> Option<()> {
        let full = writer.size();
        let size = InboxBlock::next_size(full, self.is_long());
        // A thread's first block is new, so that a thread with few timers never comes to the epoch.
        let rested = if full == 0 {
            None
        } else {
            self.at_rest.take(size == SLOTS)
        };
        let block = rested.or_else(|| InboxBlock::new(size))?;
        // ORDERING: Relaxed: an estimate.
        self.filled.fetch_add(full as u64, Ordering::Relaxed);
        writer.append(block);
        Some(())
    }

    /// Has the next drain read a writer, if it would not. Any thread, for its own writer, after the fence that follows
    /// the writer's message; lock-free.
    ///
    /// Either the drain that has reset `listed` sees the message, or this finds it reset. [F1]
    ///
    /// # Safety
    ///
    /// The writer must stay where it is until the reader is gone, or reads no more.
    #[inline(always)]
    pub(crate) unsafe fn list(&self, writer: &Writer) {
        // ORDERING: Relaxed: ordered by the fence.
        if !writer.listed.load(Ordering::Relaxed) {
            self.push(writer);
        }
    }

    /// Lists a writer, as its thread or as the reader, if the other one does not.
    #[cold]
    fn push(&self, writer: &Writer) {
        // Of two threads that set it, one goes on.
        // ORDERING: Acquire pairs with the Release in `collect`: the reader is done with the link. [P30]
        if writer.listed.swap(true, Ordering::Acquire) {
            return;
        }
        // ORDERING: Relaxed to guess, and for the link: published by the exchange.
        let mut top = self.listed.load(Ordering::Relaxed);
        loop {
            writer.below.store(top, Ordering::Relaxed);
            // ORDERING: Release pairs with the Acquire in `collect`: the link, the chain and its messages. Acquire pairs
            // with the Release there: a drain that misses this writer has reset `inbox_due` for the look that
            // follows. [P29]
            match self.listed.compare_exchange_weak(
                top,
                ptr::from_ref(writer).cast_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

/// One per inbox; held by the shard's owner. It neither allocates nor frees anything, and never pins.
pub(crate) struct Reader {
    inbox: Arc<Inbox>,
}

/// The writers that a drain reads: those that were listed when it began.
#[must_use = "what is not read now is read never"]
pub(crate) struct News(*mut Writer);

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
        Self {
            inbox: Arc::new(Inbox::new()),
        }
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Begins a drain: takes the writers that are listed, the one that has waited longest first. O(writers taken).
    ///
    /// To be called after the owner has reset `inbox_due`, and before its fence.
    pub(crate) fn collect(&mut self) -> News {
        // ORDERING: Relaxed, both: an estimate.
        let filled = self.inbox.filled.load(Ordering::Relaxed);
        self.inbox.known.store(filled, Ordering::Relaxed);
        // ORDERING: Acquire and Release pair with `push`. [P29]
        let mut top = self.inbox.listed.swap(ptr::null_mut(), Ordering::AcqRel);
        let mut first = ptr::null_mut();
        // SAFETY: a listed writer stays where it is, as `Inbox::list` demands.
        while let Some(writer) = unsafe { top.as_ref() } {
            // ORDERING: Relaxed, both: acquired with the stack's top; the reader's own.
            let below = writer.below.load(Ordering::Relaxed);
            writer.after.store(first, Ordering::Relaxed);
            // An exchange only for loom, which has a store overtaken by an exchange of `push` that came before it. It
            // costs 0 to 9 ns of 16 to 28 per writer.
            // ORDERING: Release pairs with the Acquire in `push`: the reader is done with the link [P30]. The handshake
            // needs only the fence that follows [F1].
            writer.listed.swap(false, Ordering::Release);
            first = top;
            top = below;
        }
        News(first)
    }

    /// Takes up to `limit` messages of the collected writers, in order per writer.
    ///
    /// Returns after everything that was written before the fence, unless the limit ends it. Then it lists the writers
    /// that it has not read to the end, for the next drain.
    pub(crate) fn read(&mut self, news: News, limit: usize, mut take: impl FnMut(u64)) -> Drained {
        let (mut left, mut more) = (limit, false);
        let mut next = news.0;
        // SAFETY: as in `collect`.
        while let Some(writer) = unsafe { next.as_ref() } {
            // ORDERING: Relaxed: the reader's own.
            next = writer.after.load(Ordering::Relaxed);
            if !self.read_chain(writer, &mut left, &mut take) {
                self.inbox.push(writer);
                more = true;
            }
        }
        Drained {
            taken: limit - left,
            more,
        }
    }

    /// Reads what a writer has published; returns whether that is all, or the limit has ended it.
    fn read_chain(&self, writer: &Writer, left: &mut usize, take: &mut impl FnMut(u64)) -> bool {
        loop {
            // ORDERING: Relaxed: published when the writer was listed, and the reader's own since.
            // SAFETY: a writer that was listed has a block, and the reader alone gives it up.
            let block = unsafe { NonNull::new_unchecked(writer.first.load(Ordering::Relaxed)) };
            // SAFETY: as above.
            let shared = unsafe { block.as_ref() };
            if !shared.read(left, take) {
                return *left > 0;
            }
            // ORDERING: Acquire pairs with the Release in `Writer::append`. [P7]
            let Some(next) = NonNull::new(shared.next.load(Ordering::Acquire)) else {
                return true;
            };
            // ORDERING: Relaxed: the reader's own.
            writer.first.store(next.as_ptr(), Ordering::Relaxed);
            // SAFETY: written and read to its end; its writer has left it, and the chain begins after it.
            unsafe { self.inbox.at_rest.put(block) };
        }
    }
}
