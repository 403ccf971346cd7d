//! The reader's end of the inbox: takes blocks from the queue and reads them.

use super::block::{Block, Message};
use super::open::{Open, Progress};
use super::queue::Inbox;
use crate::sync::atomic::Ordering;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

/// One per inbox; held by the shard's owner.
#[derive(Debug)]
pub(crate) struct Reader {
    inbox: Arc<Inbox>,
    /// The block that was taken last, whose link leads to the next one.
    head: NonNull<Block>,
    /// The head is read to its end, and waits for a successor to be retired.
    head_is_read: bool,
    /// Blocks that are not read to their end, in the order of their hand-overs.
    open: Vec<Open>,
}

// SAFETY: the links that it follows and the list of open blocks are its own; it may move between threads as a whole.
unsafe impl Send for Reader {}

/// What a drain came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drained {
    pub(crate) taken: usize,
    /// The limit ended the drain: readable messages may be left.
    pub(crate) more: bool,
}

impl Reader {
    /// An inbox, and its one reader.
    pub(crate) fn new() -> Self {
        let (inbox, head) = Inbox::new();
        Self { inbox: Arc::new(inbox), head, head_is_read: true, open: Vec::new() }
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    #[cfg(all(test, not(tickwheel_loom)))]
    pub(super) fn open_blocks(&self) -> usize {
        self.open.len()
    }

    /// Takes up to `limit` messages, in order per producer.
    ///
    /// Returns after everything that was written (and handed over) before the call, unless the limit ends it.
    pub(crate) fn drain(&mut self, limit: usize, mut take: impl FnMut(Message)) -> Drained {
        // Before the first look into a block: what is handed over later may follow something that a look has missed.
        let mut more = !self.take_blocks(limit);
        let mut left = limit;
        let mut retired = false;
        let Self { inbox, head, head_is_read, open } = self;
        open.retain_mut(|open| match open.read(&mut left, &mut take) {
            Progress::UpToDate => true,
            Progress::OutOfBudget => {
                more = true;
                true
            }
            Progress::Finished if open.block() == *head => {
                *head_is_read = true;
                false
            }
            Progress::Finished => {
                // SAFETY: read to its end, and so written to its end; the head has moved on, hence the tail, too;
                // it leaves the list here.
                unsafe { inbox.retire(open.block()) };
                retired = true;
                false
            }
        });
        if retired {
            inbox.collect();
        }
        Drained { taken: limit - left, more }
    }

    /// Moves blocks from the queue to the list of open ones, `most` at most; false if there may be more.
    fn take_blocks(&mut self, most: usize) -> bool {
        let handed = self.inbox.handed();
        for _ in 0..most {
            // SAFETY: the head is retired only here, when it is the head no more.
            let head = unsafe { self.head.as_ref() };
            // ORDERING: Acquire pairs with the link in `Inbox::link`: the block, its first message, and whatever its
            // thread has written before. [P7]
            let Some(next) = NonNull::new(head.next.load(Ordering::Acquire)) else {
                self.inbox.note_known(handed);
                return true;
            };
            if self.open.try_reserve(1).is_err() {
                // It stays in the queue until there is memory.
                return false;
            }
            self.take(next);
        }
        false
    }

    fn take(&mut self, next: NonNull<Block>) {
        self.open.push(Open::new(next));
        let old = std::mem::replace(&mut self.head, next);
        // The tail must have left a block before that is retired, so that no producer that pins from now on can
        // reach it.
        self.inbox.advance(old.as_ptr(), next.as_ptr());
        // ORDERING: Relaxed: read only by `drop`, which whoever drops the inbox orders after everything.
        self.inbox.head.store(next.as_ptr(), Ordering::Relaxed);
        if std::mem::take(&mut self.head_is_read) {
            // SAFETY: read to its end and not in the list; neither head nor tail nor a link leads to it any more.
            unsafe { self.inbox.retire(old) };
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut left_open = self.inbox.left_open.lock().unwrap_or_else(PoisonError::into_inner);
        *left_open = std::mem::take(&mut self.open);
    }
}
