//! The reader's end of the inbox: takes blocks from the queue and reads them.

use super::block::{Block, Message, Progress};
use super::queue::Inbox;
use crate::sync::atomic::Ordering;
use std::ptr::NonNull;
use std::sync::Arc;

/// One per inbox; held by the shard's owner. Neither allocates nor frees anything, and never pins: the blocks from the
/// first to the head are its own to read, and only the reader gives one of them up.
#[derive(Debug)]
pub(crate) struct Reader {
    inbox: Arc<Inbox>,
    /// The block that was taken last, whose link leads to the next one.
    head: NonNull<Block>,
}

// SAFETY: the links that it follows are its own; it may move between threads as a whole.
unsafe impl Send for Reader {}

/// The result of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
            let progress = block.read(&mut left, &mut take);
            more |= progress == Progress::OutOfBudget;
            // ORDERING: Relaxed: the reader has looked at the links up to the head before, or has written them.
            let next = NonNull::new(block.next.load(Ordering::Relaxed));
            let (false, Some(next)) = (at == self.head, next) else { break };
            if progress == Progress::Finished {
                self.inbox.leave_out(before, next);
                // SAFETY: read to its end, and so written to its end; the head has moved on, hence the tail, too; the
                // list has just left it out.
                unsafe { self.inbox.at_rest.put(at) };
            } else {
                before = Some(at);
            }
            at = next;
        }
        Drained { taken: limit - left, more }
    }

    /// Takes blocks from the queue, `most` at most; false if there may be more.
    fn take_blocks(&mut self, most: usize) -> bool {
        let handed = self.inbox.handed();
        for _ in 0..most {
            // SAFETY: the head is put to rest only when it is the head no more.
            let head = unsafe { self.head.as_ref() };
            // ORDERING: Acquire pairs with the link in `Inbox::link`: the block, its first message, and all that its
            // thread has written before. [P7]
            let Some(next) = NonNull::new(head.next.load(Ordering::Acquire)) else {
                self.inbox.note_known(handed);
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
        let next = |block: &NonNull<Block>| {
            // SAFETY: as in `drain`.
            // ORDERING: Relaxed: the reader's own links.
            NonNull::new(unsafe { block.as_ref() }.next.load(Ordering::Relaxed))
        };
        std::iter::successors(Some(self.inbox.first()), next).count()
    }
}
