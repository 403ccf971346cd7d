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
use crate::sync::epoch::{self, Epoch, Guard};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Blocks in the stack from which on the system has their pages back. One drain of as many messages as may lie unread
/// leaves 128.
const MANY: usize = 160;

/// The most blocks that are retired at a time: fewer than a bag of the epoch's holds.
const MOST_RETIRED: usize = 48;

/// Blocks in the stack from which on a producer retires them: each time takes the epoch a bag, which it allocates.
const RETIRED_TOGETHER: usize = bounded(32, 1);

/// See the module.
pub(super) struct AtRest {
    /// The stack's top: the block that was read last.
    read: AtomicPtr<InboxBlock>,
    /// About how many lie in it.
    len: AtomicUsize,
    epoch: Epoch,
    /// Shared with what the epoch has yet to do.
    pool: Arc<Pool>,
}

impl AtRest {
    pub(super) fn new() -> Self {
        Self {
            read: AtomicPtr::new(ptr::null_mut()),
            len: AtomicUsize::new(0),
            epoch: Epoch::new(),
            pool: Arc::new(Pool::new()),
        }
    }

    /// Puts a block on the stack. The reader's; it neither allocates nor frees.
    ///
    /// # Safety
    ///
    /// The block must have been made by `Block::new`; its thread has written its last slot and left it, and the reader
    /// has read it and follows no link to it; it is not put twice.
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

    /// Returns a block that serves again, renewed, if one is wanted and there is one. Retires what has been put, if that
    /// is enough.
    pub(super) fn take(&self, is_wanted: bool) -> Option<Box<InboxBlock>> {
        let take = || if is_wanted { self.pool.take() } else { None };
        let mut rested = take();
        // ORDERING: Relaxed: a rough count.
        let retires = self.len.load(Ordering::Relaxed) >= RETIRED_TOGETHER;
        let waits = is_wanted && rested.is_none() && self.pool.is_expecting();
        if retires || waits {
            if let Some(pin) = self.epoch.pin() {
                if retires {
                    self.retire(pin.guard());
                }
                pin.guard().flush();
            }
            rested = rested.or_else(take);
        }
        let mut block = rested?;
        self.epoch.serves_again(&*block);
        block.renew();
        Some(block)
    }

    /// Hands what has been put to the epoch.
    fn retire(&self, guard: &Guard) {
        for _ in 0..MOST_RETIRED {
            let Some(block) = self.pop(guard) else { break };
            let pool = Arc::clone(&self.pool);
            pool.expect();
            let heir = move |block: Box<InboxBlock>| {
                pool.arrive();
                // A block that is not kept is freed here.
                _ = block.serves_again().then(|| pool.put(block));
            };
            // SAFETY: blocks are boxes; producers that look at the block as the stack's top are pinned; the pop has given
            // it to the caller alone.
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
