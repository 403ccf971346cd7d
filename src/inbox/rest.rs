//! Blocks that are read to their end: on their way to the next use, or to the allocator.
//!
//! The reader puts them on a stack and does nothing else: it may not call the allocator, in which a thread that stops
//! would stop it as well. Producers take them from there, retire them, and keep a few for later (`pool`); the rest
//! they free. While many lie in the stack, as after a backlog when no producer comes, the system gets their pages back,
//! which takes a call each. About an eighth stays, because blocks do not begin and end with a page.
//!
//! The stack is one after Treiber (1986), which the epoch protects: a producer that takes a block looks at the one
//! below it under a guard, and no block comes back to the stack before that guard is gone.
//!
//! Any thread; lock-free.

use super::block::InboxBlock;
use super::pool::Pool;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::bounded;
use crate::sync::epoch::{self, Guard};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Blocks in the stack from which on the system has their pages back; and the most that are retired at a time.
const MANY: usize = 48;

/// See the module.
pub(super) struct AtRest {
    /// The stack's top: the block that was read last.
    read: AtomicPtr<InboxBlock>,
    /// About how many lie in it.
    len: AtomicUsize,
    /// Shared with what the epoch has yet to do.
    pool: Arc<Pool>,
}

impl AtRest {
    pub(super) fn new() -> Self {
        let (read, len) = (AtomicPtr::new(ptr::null_mut()), AtomicUsize::new(0));
        Self {
            read,
            len,
            pool: Arc::new(Pool::new()),
        }
    }

    /// Puts a block on the stack. The reader's; it neither allocates nor frees.
    ///
    /// # Safety
    ///
    /// The block must have been made by `Block::new`; neither head nor tail of the queue leads to it (links do not
    /// matter: only the reader follows one); its thread has written its last slot, and the reader has read it; it
    /// is not put twice.
    pub(super) unsafe fn put(&self, block: NonNull<InboxBlock>) {
        // SAFETY: the caller's promise; the block is not retired yet.
        let put = unsafe { block.as_ref() };
        // ORDERING: Relaxed: a rough count.
        if self.len.fetch_add(1, Ordering::Relaxed) >= MANY {
            put.spend();
        }
        // ORDERING: Relaxed to guess, and for the link: published by the exchange.
        let mut top = self.read.load(Ordering::Relaxed);
        loop {
            put.below.store(top, Ordering::Relaxed);
            // ORDERING: Release pairs with the Acquire in `pop`: the link, and that the reader is done with it. [P18]
            match self.read.compare_exchange_weak(
                top,
                block.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Returns a block that serves again, if one is wanted and there is one. Retires what has been put, if that is
    /// enough.
    pub(super) fn take(&self, guard: &Guard, is_wanted: bool) -> Option<Box<InboxBlock>> {
        let rested = if is_wanted { self.pool.take() } else { None };
        // Each time takes the epoch a bag, which it allocates: so several blocks together, but under loom.
        // ORDERING: Relaxed: a rough count.
        let retires = self.len.load(Ordering::Relaxed) >= bounded(8, 1);
        if !retires && (rested.is_some() || !is_wanted) || !epoch::has_memory() {
            return rested;
        }
        if retires {
            self.retire(guard);
        }
        guard.flush();
        rested.or_else(|| if is_wanted { self.pool.take() } else { None })
    }

    /// Hands what has been put to the epoch.
    fn retire(&self, guard: &Guard) {
        for _ in 0..MANY {
            let Some(block) = self.pop(guard) else { break };
            let pool = Arc::clone(&self.pool);
            let heir = move |block: Box<InboxBlock>| {
                // What is not kept is freed here.
                _ = block.serves_again().then(|| pool.put(block));
            };
            // SAFETY: blocks are boxes; producers that loaded the queue's tail while it led here are pinned, and so are
            // those that look at the block as the stack's top; the pop has given it to the caller alone.
            unsafe { epoch::retire(guard, block.as_ptr(), heir) };
        }
    }

    /// Takes the top off.
    fn pop(&self, guard: &Guard) -> Option<NonNull<InboxBlock>> {
        // ORDERING: Acquire pairs with `put`. [P18]
        let mut top = self.read.load(Ordering::Acquire);
        loop {
            let block = NonNull::new(top)?;
            epoch::check(guard, top);
            // SAFETY: the block was in the stack after the guard was taken, so it is retired later than that, or not
            // yet, and the guard keeps it.
            let below = unsafe { block.as_ref() }.below.load(Ordering::Relaxed);
            // ORDERING: Relaxed, above and on success: the top was acquired, and every change of it is a
            // read-modify-write. Acquire on failure, as above [P18].
            match self
                .read
                .compare_exchange_weak(top, below, Ordering::Relaxed, Ordering::Acquire)
            {
                Ok(_) => {
                    // ORDERING: Relaxed: a rough count.
                    self.len.fetch_sub(1, Ordering::Relaxed);
                    return Some(block);
                }
                Err(now) => top = now,
            }
        }
    }
}

impl Drop for AtRest {
    fn drop(&mut self) {
        // ORDERING: Relaxed, both: `&mut self` means that everything happened before.
        let mut block = self.read.load(Ordering::Relaxed);
        while !block.is_null() {
            // SAFETY: blocks of the stack are boxes that are not retired, and no thread looks any more.
            let read = unsafe { Box::from_raw(block) };
            block = read.below.load(Ordering::Relaxed);
        }
    }
}
