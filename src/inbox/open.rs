//! A block on the reader's list.

use super::block::{Block, Message};
use std::ptr::NonNull;

/// A block that is being read.
#[derive(Debug)]
pub(super) struct Open {
    block: NonNull<Block>,
    /// The slot to be read next.
    at: usize,
    lap: u64,
}

// SAFETY: how far a block is read is the reader's own, and so is the list; it may move between threads as a whole.
unsafe impl Send for Open {}

impl Open {
    /// Frees the block; for an inbox that nobody uses any more.
    pub(super) fn free(self) {
        // SAFETY: made of a box, and the list of open blocks owns it then.
        drop(unsafe { Box::from_raw(self.block.as_ptr()) });
    }

    /// A block that was handed over, read from its first slot on.
    pub(super) fn new(block: NonNull<Block>) -> Self {
        // SAFETY: linked blocks are alive until the reader retires them.
        let lap = unsafe { block.as_ref() }.lap();
        Self { block, at: 0, lap }
    }

    pub(super) fn block(&self) -> NonNull<Block> {
        self.block
    }

    /// Reads what is published, `left` messages at most.
    #[inline]
    pub(super) fn read(&mut self, left: &mut usize, take: &mut impl FnMut(Message)) -> Progress {
        // SAFETY: an open block belongs to the reader and to the thread that fills it, until the reader retires it.
        let block = unsafe { self.block.as_ref() };
        for slot in &block.slots()[self.at..] {
            if *left == 0 {
                return Progress::OutOfBudget;
            }
            let Some(message) = slot.read(self.lap) else { return Progress::UpToDate };
            self.at += 1;
            *left -= 1;
            take(message);
        }
        Progress::Finished
    }
}

/// How far a block is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    UpToDate,
    Finished,
    OutOfBudget,
}
