//! A thread's end of the inbox: a chain of blocks, and how far the last of them is written.
//!
//! A writer belongs to a thread state, so it has one user at a time, and the next thread with that slot goes on
//! where the last one stopped. The words that the reader does not share are atomic only so that the type is `Sync`.
//!
//! ```text
//!   first ---> block ---> block ---> null        state:  63  62        32  31 .. 0
//!   (reader's)            ^ open (writer's)              lap   block size   slots left
//! ```

use super::block::{InboxBlock, LAP, Slot};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

const LEFT: u64 = (1 << SIZE_SHIFT) - 1;
const SIZE_SHIFT: u32 = 32;

/// See the module. All bytes zero: a writer without a block.
#[derive(Default)]
pub(crate) struct Writer {
    /// The slot that the next message goes to, if there is one left.
    slot: AtomicPtr<Slot>,
    /// The open block, at which the next one is linked.
    open: AtomicPtr<InboxBlock>,
    state: AtomicU64,
    /// The first block that is not read to its end, or the one that was read last. The reader's, once it has heard of
    /// the writer.
    pub(super) first: AtomicPtr<InboxBlock>,
    /// The next drain collects the writer. The writer sets it, the reader resets it.
    pub(super) listed: AtomicBool,
    /// The writer below this one in the stack of listed ones. The writer's while it is not listed.
    pub(super) below: AtomicPtr<Writer>,
    /// The writer that the drain reads after this one. The reader's.
    pub(super) after: AtomicPtr<Writer>,
}

impl Writer {
    /// Returns whether a message can be written at once.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        // ORDERING: Relaxed: only the slot's holder looks at `slot`, `open` and `state`.
        self.state.load(Ordering::Relaxed) & LEFT != 0
    }

    /// Returns the size of the open block; 0 before the first.
    pub(super) fn size(&self) -> usize {
        // ORDERING: Relaxed: as in `is_ready`.
        ((self.state.load(Ordering::Relaxed) & !LAP) >> SIZE_SHIFT) as usize
    }

    #[cfg(all(test, not(tickwheel_loom)))]
    pub(super) fn open_block(&self) -> *mut InboxBlock {
        // ORDERING: Relaxed: as in `is_ready`.
        self.open.load(Ordering::Relaxed)
    }

    /// Appends a block to the chain. The last one must be full.
    pub(super) fn append(&self, block: Box<InboxBlock>) {
        debug_assert!(!self.is_ready());
        let (lap, size) = (block.lap(), block.slots().len() as u64);
        let block = Box::into_raw(block);
        // SAFETY: just made of a box; it is not given up before its last slot is written.
        let first = unsafe { (*block).slots().as_ptr() };
        // ORDERING: Relaxed: as in `is_ready`.
        self.slot.store(first.cast_mut(), Ordering::Relaxed);
        let full = self.open.load(Ordering::Relaxed);
        self.open.store(block, Ordering::Relaxed);
        self.state
            .store(lap | size << SIZE_SHIFT | size, Ordering::Relaxed);
        // SAFETY: the reader does not give a block up before it has found the link to the next one.
        match unsafe { full.as_ref() } {
            // ORDERING: Release pairs with the Acquire in `Reader::read_chain`: the block is initialised. [P7]
            Some(full) => full.next.store(block, Ordering::Release),
            // ORDERING: Relaxed: the reader comes here only after the writer was listed, which publishes it.
            None => self.first.store(block, Ordering::Relaxed),
        }
    }

    /// Writes and publishes a message. The writer must be ready. The reader sees it once the writer is
    /// [listed](super::Inbox::list).
    #[inline(always)]
    pub(crate) fn write(&self, word: u64) {
        debug_assert!(self.is_ready());
        // ORDERING: Relaxed: as in `is_ready`.
        let state = self.state.load(Ordering::Relaxed);
        let slot = self.slot.load(Ordering::Relaxed);
        self.state.store(state - 1, Ordering::Relaxed);
        self.slot.store(slot.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: slots are left, so this is one of the open block, which the reader does not give up before the next
        // one is linked.
        unsafe { &*slot }.write(word, state & LAP);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // ORDERING: Relaxed, both: `&mut self` means that every write and drain happened before.
        let mut block = self.first.load(Ordering::Relaxed);
        while !block.is_null() {
            // SAFETY: the blocks of the chain are boxes in no other list, and no thread looks any more.
            let left = unsafe { Box::from_raw(block) };
            block = left.next.load(Ordering::Relaxed);
        }
    }
}
