//! The queue: blocks in a row, producers at the tail, one reader at the head.

use super::Message;
use super::block::{Block, Claim, Found, SLOTS};
use super::pool::Pool;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::{Domain, Guard};
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;
use std::sync::Arc;

/// Blocks that rest at most: a staging buffer's, so that the blocks of one drain serve until the next. None under loom,
/// which explores the pool by itself.
const AT_REST: usize = if cfg!(tickwheel_loom) { 0 } else { 128 };

/// The producers' side, shared by everybody.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The block that producers try first; never behind a block that has been retired.
    tail: CachePadded<AtomicPtr<Block>>,
    /// The oldest block that is not retired; written by the reader, read when the inbox is dropped.
    head: AtomicPtr<Block>,
    /// Messages the reader has taken, as of its last drain.
    read: CachePadded<AtomicU64>,
    domain: Domain,
    /// Shared with what the epoch has yet to do.
    at_rest: Arc<Pool<Block, AT_REST>>,
}

/// The reader's side: one, held by the shard's owner.
#[derive(Debug)]
pub(crate) struct Reader {
    head: NonNull<Block>,
    /// Slots of the head block that are read and need not be looked at again.
    index: usize,
    /// Messages taken since the beginning.
    taken: u64,
}

// SAFETY: the reader owns the blocks between head and tail; it may move between threads as a whole.
unsafe impl Send for Reader {}

/// The answer to a push.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pushed {
    Accepted,
    /// Accepted as the first message of a block, when this many messages lay unread (a hint).
    BlockBegun {
        unread: u64,
    },
    /// Refused: the inbox is closed.
    Closed,
}

/// How far a drain may read: the block, and its slots that were claimed when the drain met its first hole.
#[derive(Clone, Copy, Debug)]
struct End {
    block: NonNull<Block>,
    claimed: usize,
}

/// What a drain came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drained {
    pub(crate) taken: usize,
    /// The limit ended the drain: readable messages may be left.
    pub(crate) more: bool,
    /// A claimed message was not readable yet.
    pub(crate) hole: bool,
}

impl Inbox {
    pub(crate) fn new() -> (Self, Reader) {
        let first = NonNull::from(Box::leak(Block::new(0)));
        let inbox = Self {
            tail: CachePadded::new(AtomicPtr::new(first.as_ptr())),
            head: AtomicPtr::new(first.as_ptr()),
            read: CachePadded::new(AtomicU64::new(0)),
            domain: Domain::new(),
            at_rest: Arc::new(Pool::new()),
        };
        (inbox, Reader { head: first, index: 0, taken: 0 })
    }

    /// Hands a message to the reader. Any thread; lock-free; pins the epoch for its length.
    #[inline]
    pub(crate) fn push(&self, message: Message) -> Pushed {
        let guard = self.domain.pin();
        loop {
            // ORDERING: Acquire pairs with the Release in `advance`: the block is initialised. [P7]
            let tail = self.tail.load(Ordering::Acquire);
            self.domain.check(&guard, tail);
            // SAFETY: the tail is never null. A block is retired only after the tail has left it, and
            // destroyed only when every guard from before that is gone; ours was taken before the load.
            let block = unsafe { &*tail };
            match block.claim() {
                Claim::Slot(slot) => {
                    block.publish(slot, message);
                    return if slot == 0 { self.begun(block) } else { Pushed::Accepted };
                }
                Claim::Closed => return Pushed::Closed,
                Claim::Full => self.advance(tail, block, &guard),
            }
        }
    }

    fn begun(&self, block: &Block) -> Pushed {
        // ORDERING: Relaxed: a hint about the backlog.
        let read = self.read.load(Ordering::Relaxed);
        Pushed::BlockBegun { unread: block.first.saturating_sub(read) }
    }

    /// Moves the tail past a full block, linking a new block if nobody has yet.
    #[cold]
    fn advance(&self, tail: *mut Block, block: &Block, _guard: &Guard) {
        let next = self.follow(block);
        // ORDERING: Release publishes the block to producers that load the tail [P7]. If the exchange
        // fails, somebody else has moved the tail on already.
        let _ = self.tail.compare_exchange(tail, next, Ordering::Release, Ordering::Relaxed);
    }

    /// The block after `block`, made on demand.
    fn follow(&self, block: &Block) -> *mut Block {
        // ORDERING: Acquire pairs with the exchange below: the next block is initialised. [P7]
        let next = block.next.load(Ordering::Acquire);
        if !next.is_null() {
            return next;
        }
        let first = block.first + SLOTS as u64;
        let fresh = match self.at_rest.take() {
            Some(rested) => Block::again(rested, first),
            None => Block::new(first),
        };
        let fresh = Box::into_raw(fresh);
        // ORDERING: AcqRel: Release publishes the new block, Acquire (also on failure) reads the winner's. [P7]
        match block.next.compare_exchange(
            std::ptr::null_mut(),
            fresh,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => fresh,
            Err(winner) => {
                // SAFETY: the exchange failed, so nobody else has seen our block.
                self.at_rest.put(unsafe { Box::from_raw(fresh) });
                winner
            }
        }
    }

    /// Refuses every push from now on. The reader may still drain what was accepted.
    ///
    /// To be called by the holder of the reader, so that no block is retired meanwhile.
    pub(crate) fn close(&self, reader: &Reader) {
        let mut block = reader.head;
        loop {
            // SAFETY: blocks from the head on are alive: only the reader's holder retires any, and that
            // is the caller.
            let current = unsafe { block.as_ref() };
            if current.close() {
                return;
            }
            // A producer may have seen the block full and be on its way to the next one: close that too.
            let Some(next) = NonNull::new(self.follow(current)) else {
                return;
            };
            // ORDERING: Release as in `advance`. [P7]
            let _ = self.tail.compare_exchange(
                block.as_ptr(),
                next.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            block = next;
        }
    }
}

impl Reader {
    /// Takes up to `limit` readable messages, in order per producer.
    ///
    /// Returns after everything that was published before the call (unless the limit ends it); messages
    /// that are claimed and not readable yet are left for the next call.
    pub(crate) fn drain(
        &mut self,
        inbox: &Inbox,
        limit: usize,
        mut take: impl FnMut(Message),
    ) -> Drained {
        let mut done = Drained { taken: 0, more: false, hole: false };
        let mut end = None;
        let mut block = self.head;
        let mut index = self.index;
        loop {
            // SAFETY: blocks from the head on are alive until we retire them.
            let current = unsafe { block.as_ref() };
            // Only a block that was looked through to its end may be left for the next one: slots that
            // producers claim behind our back would be overtaken by their later messages.
            let seen = self.drain_block(block, index, limit, &mut end, &mut done, &mut take);
            if done.more || seen < SLOTS || end.is_some_and(|end: End| end.block == block) {
                break;
            }
            // ORDERING: Acquire pairs with `follow`. [P7]
            let Some(next) = NonNull::new(current.next.load(Ordering::Acquire)) else {
                break;
            };
            if block == self.head && self.index == SLOTS {
                self.retire(inbox, next);
            }
            (block, index) = (next, 0);
        }
        self.taken += done.taken as u64;
        // ORDERING: Relaxed: a hint for the producers' backlog estimate.
        inbox.read.store(self.taken, Ordering::Relaxed);
        done
    }

    /// Reads one block from a slot on; how many of its slots have been looked at now.
    fn drain_block(
        &mut self,
        place: NonNull<Block>,
        from: usize,
        limit: usize,
        end: &mut Option<End>,
        done: &mut Drained,
        take: &mut impl FnMut(Message),
    ) -> usize {
        // SAFETY: blocks from the head on are alive until we retire them.
        let block = unsafe { place.as_ref() };
        let claimed = match *end {
            None => block.claimed(),
            Some(end) if end.block == place => end.claimed,
            Some(_) => SLOTS,
        };
        for slot in from..claimed {
            if done.taken == limit {
                done.more = true;
                return slot;
            }
            let mut found = block.read(slot);
            if matches!(found, Found::Hole) && end.is_none() {
                // From here on nothing may be taken that was claimed after this hole was filled: its
                // producer's next messages would overtake it. So settle how far to read, and look again.
                *end = Some(Self::end(place));
                found = block.read(slot);
            }
            match found {
                Found::Hole => done.hole = true,
                Found::Consumed => {}
                Found::Message(message) => {
                    done.taken += 1;
                    take(message);
                    if done.hole {
                        block.consume(slot);
                    }
                }
            }
            if !done.hole {
                // No hole so far means that this block is the head.
                self.index = slot + 1;
            }
        }
        claimed
    }

    /// How far the blocks from this one on have been claimed.
    fn end(mut place: NonNull<Block>) -> End {
        loop {
            // SAFETY: blocks from the head on are alive until the reader retires them.
            let block = unsafe { place.as_ref() };
            let claimed = block.claimed();
            // ORDERING: Acquire pairs with `follow`. [P7]
            match NonNull::new(block.next.load(Ordering::Acquire)) {
                Some(next) if claimed == SLOTS => place = next,
                _ => return End { block: place, claimed },
            }
        }
    }

    /// Unlinks the head block, which is read to its end.
    fn retire(&mut self, inbox: &Inbox, next: NonNull<Block>) {
        let old = self.head.as_ptr();
        // ORDERING: Release as in `advance` [P7]: the tail must have left the block before it is retired, so
        // that no producer that pins from now on can reach it. Failure means that it has.
        let _ =
            inbox.tail.compare_exchange(old, next.as_ptr(), Ordering::Release, Ordering::Relaxed);
        self.head = next;
        self.index = 0;
        // ORDERING: Relaxed: read only by `drop`, which whoever drops the inbox orders after everything.
        inbox.head.store(next.as_ptr(), Ordering::Relaxed);
        let at_rest = Arc::clone(&inbox.at_rest);
        // SAFETY: the block came from a box and is unlinked: neither tail nor head leads to it. Producers that
        // loaded the tail before that are pinned. It is retired once, by the one reader.
        unsafe { inbox.domain.retire(old, move |block| at_rest.put(block)) };
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // ORDERING: Relaxed throughout: `&mut self` means that every push and drain happened before.
        let mut block = self.head.load(Ordering::Relaxed);
        while !block.is_null() {
            // SAFETY: blocks from the head on were made by `Box` and not retired; nobody looks any more.
            let owned = unsafe { Box::from_raw(block) };
            block = owned.next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests;
