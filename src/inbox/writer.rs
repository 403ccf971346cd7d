//! A thread's end of the inbox: its open block, and how far it is written.
//!
//! A writer belongs to a thread state, so it has one user at a time, and the next thread with that slot goes on
//! where the last one stopped. Everything in it is atomic only so that the type is `Sync`.
//!
//! ```text
//!   state:  63  62        32  31      30 .. 0
//!          lap   block size   fresh   slots left
//! ```

use super::block::{InboxBlock, LAP, Message, Slot};
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::{Domain, Guard, Participant};
use std::ptr::NonNull;

/// No message has been written into the block yet.
const FRESH: u64 = 1 << 31;
const LEFT: u64 = FRESH - 1;
const SIZE_SHIFT: u32 = 32;

/// See the module. All bytes zero: a writer without a block.
#[derive(Default)]
pub(crate) struct Writer {
    /// The slot that the next message goes to, if there is one left.
    slot: AtomicPtr<Slot>,
    /// The open block; looked at only while it is fresh.
    block: AtomicPtr<InboxBlock>,
    state: AtomicU64,
    /// Its place in the inbox's epoch, from its first pin on.
    participant: AtomicPtr<Participant>,
}

impl Writer {
    /// Returns whether a message can be written at once.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        // ORDERING: Relaxed throughout this file: only the slot's holder looks at its writer.
        self.state.load(Ordering::Relaxed) & LEFT != 0
    }

    /// Returns the size of the open block, or of the last one; 0 before the first.
    pub(super) fn size(&self) -> usize {
        // ORDERING: Relaxed: as in `is_ready`.
        ((self.state.load(Ordering::Relaxed) & !LAP) >> SIZE_SHIFT) as usize
    }

    /// Begins a new block. The last one must be full.
    pub(super) fn open(&self, block: Box<InboxBlock>) {
        debug_assert!(!self.is_ready());
        let (lap, size) = (block.lap(), block.slots().len() as u64);
        let block = Box::into_raw(block);
        // SAFETY: just made of a box; it is not freed before its last slot is written.
        let first = unsafe { (*block).slots().as_ptr() };
        // ORDERING: Relaxed: as in `is_ready`.
        self.slot.store(first.cast_mut(), Ordering::Relaxed);
        self.block.store(block, Ordering::Relaxed);
        self.state
            .store(lap | size << SIZE_SHIFT | FRESH | size, Ordering::Relaxed);
    }

    /// Writes and publishes a message. The writer must be ready. A block comes back with its first message, which is
    /// not seen before [`Inbox::hand_over`](super::Inbox::hand_over).
    #[must_use = "the first message of a block is not seen before the block is handed over"]
    #[inline(always)]
    pub(crate) fn write(&self, message: Message) -> Option<NonNull<InboxBlock>> {
        debug_assert!(self.is_ready());
        // ORDERING: Relaxed: as in `is_ready`.
        let state = self.state.load(Ordering::Relaxed);
        let slot = self.slot.load(Ordering::Relaxed);
        // The writer is up to date before the message is out: the reader of the last one gives the block up.
        // ORDERING: Relaxed: as in `is_ready`.
        self.state.store((state - 1) & !FRESH, Ordering::Relaxed);
        self.slot.store(slot.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: slots are left, so this is one of the open block, which the reader does not give up before it has
        // read all of them, this one included.
        unsafe { &*slot }.write(message, state & LAP);
        (state & FRESH != 0).then(|| self.opened())
    }

    #[cold]
    fn opened(&self) -> NonNull<InboxBlock> {
        // ORDERING: Relaxed: as in `is_ready`.
        let block = self.block.load(Ordering::Relaxed);
        // SAFETY: `open` made it of a box, which is never null.
        unsafe { NonNull::new_unchecked(block) }
    }

    /// Returns whether [`pin`](Self::pin) needs no memory.
    pub(super) fn participates(&self) -> bool {
        // ORDERING: Relaxed: as in `is_ready`.
        !self.participant.load(Ordering::Relaxed).is_null()
    }

    /// Keeps everything that is retired from now on alive until the guard is dropped. Allocates the first time.
    pub(super) fn pin(&self, domain: &Domain) -> Guard {
        // ORDERING: Relaxed: as in `is_ready`.
        let mut participant = self.participant.load(Ordering::Relaxed);
        if participant.is_null() {
            participant = Box::into_raw(Box::new(domain.register()));
            self.participant.store(participant, Ordering::Relaxed);
        }
        // SAFETY: made of a box, which lives as long as the writer. A participant is one thread's at a time, and so is
        // the writer; its heir comes after everything that the last thread did.
        unsafe { &*participant }.pin()
    }

    /// Returns a block that was opened and never written to, if there is one: no other thread knows it.
    pub(super) fn take_fresh(&self) -> Option<Box<InboxBlock>> {
        // ORDERING: Relaxed: as in `is_ready`.
        let state = self.state.load(Ordering::Relaxed);
        if state & FRESH == 0 {
            return None;
        }
        self.state.store(0, Ordering::Relaxed);
        // SAFETY: `open` made it of a box; it is fresh, so it was not handed over; and the state forgets it.
        Some(unsafe { Box::from_raw(self.block.load(Ordering::Relaxed)) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.take_fresh());
        // ORDERING: Relaxed: as in `is_ready`.
        let participant = self.participant.load(Ordering::Relaxed);
        if !participant.is_null() {
            // SAFETY: made of a box by `pin`, whose guards are gone.
            drop(unsafe { Box::from_raw(participant) });
        }
    }
}
