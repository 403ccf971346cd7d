//! A thread's end of the inbox: its open block, and how far it is written.
//!
//! A writer belongs to a thread state, so it has one user at a time, and the next thread with that slot goes on
//! where the last one stopped. Everything in it is atomic only so that the type is `Sync`.
//!
//! ```text
//!   state:  63    31      30 .. 0
//!          lap   fresh   slots left
//! ```

use super::block::{LAP, Message, Row, Slot};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// No message has been written into the block yet.
const FRESH: u64 = 1 << 31;
const LEFT: u64 = FRESH - 1;

/// See the module. All bytes zero: a writer without a block.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The slot that the next message goes to, if there is one left.
    slot: AtomicPtr<Slot>,
    /// The open block.
    block: AtomicU32,
    state: AtomicU64,
}

/// A block with a first message, which is not seen before [`Inbox::hand_over`](super::Inbox::hand_over).
#[must_use = "the first message of a block is not seen before the block is handed over"]
pub(crate) struct Opened(pub(super) u32);

impl Writer {
    /// Whether a message can be written at once.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        // ORDERING: Relaxed throughout this file: only the slot's holder looks at its writer.
        self.state.load(Ordering::Relaxed) & LEFT != 0
    }

    /// Begins a new block, which the caller alone has. The last one must be full.
    pub(super) fn open(&self, block: u32, row: &Row, lap: u64) {
        debug_assert!(!self.is_ready());
        // ORDERING: Relaxed: as in `is_ready`.
        self.slot.store(row.0.as_ptr().cast_mut(), Ordering::Relaxed);
        self.block.store(block, Ordering::Relaxed);
        self.state.store(lap | FRESH | row.0.len() as u64, Ordering::Relaxed);
    }

    /// Writes and publishes a message. The writer must be ready. A block comes back with its first message.
    #[inline(always)]
    pub(crate) fn write(&self, message: Message) -> Option<Opened> {
        debug_assert!(self.is_ready());
        // ORDERING: Relaxed: as in `is_ready`.
        let state = self.state.load(Ordering::Relaxed);
        let slot = self.slot.load(Ordering::Relaxed);
        // The writer is up to date before the message is out: whoever reads the last one gives the block up.
        // ORDERING: Relaxed: as in `is_ready`.
        self.state.store((state - 1) & !FRESH, Ordering::Relaxed);
        self.slot.store(slot.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: slots are left, so this is one of the open block, which lives as long as the inbox.
        unsafe { &*slot }.write(message, state & LAP);
        // ORDERING: Relaxed: as in `is_ready`.
        (state & FRESH != 0).then(|| Opened(self.block.load(Ordering::Relaxed)))
    }
}
