//! The reader's end of the inbox: takes blocks from the queue and reads them.

use super::block::{Blocks, Message, SLOTS};
use super::queue::Inbox;
use crate::sync::atomic::Ordering;
use std::sync::Arc;

/// One per inbox; held by the shard's owner. The open blocks, which are not read to their end, are linked in the order
/// of their hand-overs.
#[derive(Debug)]
pub(crate) struct Reader {
    inbox: Arc<Inbox>,
    /// The first open block, plus one; 0 if there is none.
    first: u32,
    last: u32,
}

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
        Self { inbox: Arc::new(Inbox::new()), first: 0, last: 0 }
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Takes up to `limit` messages, in order per producer.
    ///
    /// Returns after everything that was written (and handed over) before the call, unless the limit ends it.
    pub(crate) fn drain(&mut self, limit: usize, mut take: impl FnMut(Message)) -> Drained {
        // Before the first look into a block: what is handed over later may follow something that a look has missed.
        self.take_blocks();
        let (mut left, mut before, mut link) = (limit, 0, self.first);
        let mut more = false;
        while link != 0 {
            if left == 0 {
                more = true;
                break;
            }
            let next = self.next_of(link);
            if Self::read(&self.inbox.blocks, link - 1, &mut left, &mut take) {
                self.unlink(before, link, next);
                // Read to its end, and so written to its end.
                self.inbox.blocks.give(link - 1);
            } else {
                more |= left == 0;
                before = link;
            }
            link = next;
        }
        Drained { taken: limit - left, more }
    }

    /// Reads what is published of a block, `left` messages at most; whether that was all.
    #[inline]
    fn read(blocks: &Blocks, block: u32, left: &mut usize, take: &mut impl FnMut(Message)) -> bool {
        let (head, row) = blocks.get(block);
        // ORDERING: Relaxed, here and below: the reader's own, and the lap came with the hand-over.
        let (from, lap) =
            (head.at.load(Ordering::Relaxed) as usize, head.lap.load(Ordering::Relaxed));
        let mut at = from;
        for slot in row.0[from..].iter().take(*left) {
            let Some(message) = slot.read(lap) else { break };
            at += 1;
            take(message);
        }
        *left -= at - from;
        head.at.store(at as u32, Ordering::Relaxed);
        at == SLOTS
    }

    /// Appends the blocks that have been handed over.
    fn take_blocks(&mut self) {
        let last = self.inbox.take_handed();
        let (mut first, mut link) = (0, last);
        while link != 0 {
            let before = self.next_of(link);
            self.link(link, first);
            (first, link) = (link, before);
        }
        if first != 0 {
            self.link(self.last, first);
            self.last = last;
        }
    }

    fn unlink(&mut self, before: u32, link: u32, next: u32) {
        self.link(before, next);
        if self.last == link {
            self.last = before;
        }
    }

    fn next_of(&self, link: u32) -> u32 {
        // ORDERING: Relaxed: the reader's own since it has the block.
        self.inbox.blocks.get(link - 1).0.next.load(Ordering::Relaxed)
    }

    /// Lets `next` follow a block, or come first.
    fn link(&mut self, before: u32, next: u32) {
        if before == 0 {
            self.first = next;
        } else {
            // ORDERING: Relaxed: as in `next_of`.
            self.inbox.blocks.get(before - 1).0.next.store(next, Ordering::Relaxed);
        }
    }

    #[cfg(all(test, not(tickwheel_loom)))]
    pub(super) fn open_blocks(&self) -> usize {
        std::iter::successors(Some(self.first), |link| (*link != 0).then(|| self.next_of(*link)))
            .filter(|link| *link != 0)
            .count()
    }
}
