//! The outer queue: blocks on their way from the threads that fill them to the reader.
//!
//! Threads push a block on a stack, the reader takes all of them at once and turns them round. So nobody looks into a
//! block that is not its own, and no block has to be protected from its next use.

use super::block::{Blocks, SLOTS};
use super::writer::{Opened, Writer};
use crate::sync::atomic::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// What all producers share.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(super) blocks: Blocks,
    /// The block that was handed over last, plus one, or 0 (32 bits); above how many have been since the last drain.
    handed: CachePadded<AtomicU64>,
}

/// There is no memory for another block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

impl Inbox {
    pub(super) fn new() -> Self {
        Self { blocks: Blocks::new(), handed: CachePadded::default() }
    }

    /// Gives a writer whose block is full the next one. Any thread, for its own writer; lock-free.
    ///
    /// Whatever a later write and hand-over need is there afterwards: they neither allocate nor unwind.
    #[cold]
    #[inline(never)]
    pub(crate) fn prepare(&self, writer: &Writer) -> Result<(), NoMemory> {
        let block = self.blocks.take().ok_or(NoMemory)?;
        let (head, row) = self.blocks.get(block);
        // ORDERING: Relaxed: the caller alone has the block.
        writer.open(block, row, head.lap.load(Ordering::Relaxed));
        Ok(())
    }

    /// Hands a block with a first message to the reader: about how many messages have been since its last drain. Any
    /// thread; lock-free.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over(&self, Opened(block): Opened) -> u64 {
        let (head, _) = self.blocks.get(block);
        // ORDERING: Relaxed to guess; the compare-and-swap decides.
        let mut handed = self.handed.load(Ordering::Relaxed);
        loop {
            // ORDERING: Relaxed: published by the exchange.
            head.next.store(handed as u32, Ordering::Relaxed);
            let count = (handed >> 32) + 1;
            // ORDERING: Release publishes the block, its first message and all that its thread has written into the
            // blocks before [P7]. What others have pushed stays published: each change is a read-modify-write.
            match self.handed.compare_exchange_weak(
                handed,
                count << 32 | u64::from(block + 1),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return count * SLOTS as u64,
                Err(now) => handed = now,
            }
        }
    }

    /// Reader: the block that was handed over last, plus one, which leads to those before it; 0 if there is none.
    pub(super) fn take_handed(&self) -> u32 {
        // ORDERING: Relaxed: what is handed over before a drain is seen by it, because the drain's fence comes between.
        if self.handed.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // ORDERING: Acquire pairs with `hand_over`: the blocks, their first messages, and whatever their threads have
        // written before. [P7]
        self.handed.swap(0, Ordering::Acquire) as u32
    }
}
