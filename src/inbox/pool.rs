//! Blocks that are read to their end: on their way to the next use, or to the allocator.
//!
//! The reader puts them on a stack and does nothing else: it may not call the allocator, in which a thread that stops
//! would stop it as well. Producers take a block from there that serves again. By the allocator it would cost them a
//! microsecond now and then: memory that one thread allocates and another frees goes back to the system and returns as
//! fresh pages. What is too much they free, a few blocks at a time. While many lie in the stack, as after a backlog when
//! no producer comes, the system gets their pages back, which takes a call each. About an eighth stays, because blocks
//! do not begin and end with a page.
//!
//! The stack is one after Treiber (1986), but no thread looks into a block that lies in it: another one may free it at
//! any time. A producer takes the whole stack by one swap and puts back what it leaves. A producer that comes meanwhile
//! finds no block, and allocates one. One that stops in between keeps the blocks that it has taken, and no others.
//!
//! Any thread; lock-free.

use super::block::InboxBlock;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::bounded;
use std::ptr::{self, NonNull};

/// Blocks that producers leave for later: those of one drain, and a few more.
const KEPT: usize = bounded(136, 2);

/// Blocks in the stack from which on the system has their pages back. One drain of as many messages as may lie unread
/// leaves 128.
const MANY: usize = 160;

/// The most blocks that a producer frees at a time.
const MOST_FREED: usize = 48;

/// See the module.
pub(super) struct BlockPool {
    /// The stack's top: the block that was put last.
    top: AtomicPtr<InboxBlock>,
    /// About how many lie in it.
    len: AtomicUsize,
}

impl BlockPool {
    pub(super) fn new() -> Self {
        Self {
            top: AtomicPtr::new(ptr::null_mut()),
            len: AtomicUsize::new(0),
        }
    }

    /// Puts a block on the stack. The reader's; it neither allocates nor frees.
    ///
    /// # Safety
    ///
    /// The block must have been made of a box; its thread has written its last slot and left it, and the reader has read
    /// it and follows no link to it; it is not put twice.
    pub(super) unsafe fn put(&self, block: NonNull<InboxBlock>) {
        // SAFETY: the caller's promise; no other thread has the block before the exchange below.
        let put = unsafe { block.as_ref() };
        // ORDERING: Relaxed: a rough count.
        if self.len.fetch_add(1, Ordering::Relaxed) >= MANY {
            put.spend();
        }
        // ORDERING: Relaxed to guess, and for the link: published by the exchange.
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            put.below.store(top, Ordering::Relaxed);
            // ORDERING: Release pairs with the Acquire in `take_all`: the link, and that the reader is done with it.
            // [P18]
            match self.top.compare_exchange_weak(
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

    /// Returns a block that serves again, renewed, if one is wanted and there is one. Frees some of what is too much.
    pub(super) fn take(&self, is_wanted: bool) -> Option<Box<InboxBlock>> {
        // ORDERING: Relaxed: a rough count.
        let len = self.len.load(Ordering::Relaxed);
        if len <= if is_wanted { 0 } else { KEPT } {
            return None;
        }
        let (mut chain, mut taken, mut freed) = (self.take_all(), None, 0);
        // SAFETY: the chain is the caller's since it was taken.
        while let Some(block) = unsafe { chain.as_ref() } {
            let serves = block.serves_again();
            let is_taken = is_wanted && serves && taken.is_none();
            if !is_taken && (freed == MOST_FREED || serves && len.saturating_sub(freed) <= KEPT) {
                break;
            }
            // SAFETY: made of a box, and nothing else leads to it.
            let block = unsafe { Box::from_raw(chain) };
            chain = below(&block);
            if is_taken {
                taken = Some(block);
            } else {
                freed += 1;
            }
        }
        self.put_back(chain);
        // ORDERING: Relaxed: a rough count.
        self.len
            .fetch_sub(freed + usize::from(taken.is_some()), Ordering::Relaxed);
        let mut block = taken?;
        block.renew();
        Some(block)
    }

    #[cfg(all(test, not(tickwheel_loom)))]
    pub(super) fn len(&self) -> usize {
        // ORDERING: Relaxed: a rough count.
        self.len.load(Ordering::Relaxed)
    }

    /// Takes the stack, a chain that is the caller's.
    fn take_all(&self) -> *mut InboxBlock {
        // ORDERING: Acquire pairs with `put` and `put_back`. [P18] Every change of the top is a read-modify-write, so what
        // was put below it is acquired as well.
        self.top.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Puts a chain that was taken on the stack.
    fn put_back(&self, mut chain: *mut InboxBlock) {
        while !chain.is_null() {
            // ORDERING: Release as in `put` [P18]. Relaxed on failure: nothing is read.
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            match self
                .top
                .compare_exchange(ptr::null_mut(), chain, release, relaxed)
            {
                Ok(_) => return,
                Err(_) => chain = join(self.take_all(), chain),
            }
        }
    }
}

/// Returns the block below one that the caller has.
fn below(block: &InboxBlock) -> *mut InboxBlock {
    // ORDERING: Relaxed: acquired with the stack.
    block.below.load(Ordering::Relaxed)
}

/// Makes one chain of two that the caller has. O(length of the shorter one).
fn join(one: *mut InboxBlock, other: *mut InboxBlock) -> *mut InboxBlock {
    let (mut at, mut beside) = (one, other);
    // SAFETY: both chains are the caller's.
    while let (Some(mine), Some(theirs)) = unsafe { (at.as_ref(), beside.as_ref()) } {
        (at, beside) = (below(mine), below(theirs));
        // ORDERING: Relaxed, both: published with the chain.
        if at.is_null() {
            mine.below.store(other, Ordering::Relaxed);
            return one;
        }
        if beside.is_null() {
            theirs.below.store(one, Ordering::Relaxed);
            return other;
        }
    }
    if one.is_null() { other } else { one }
}

impl Drop for BlockPool {
    fn drop(&mut self) {
        let mut chain = self.take_all();
        while !chain.is_null() {
            // SAFETY: blocks of the stack are boxes, and no thread looks any more.
            let read = unsafe { Box::from_raw(chain) };
            chain = below(&read);
        }
    }
}
