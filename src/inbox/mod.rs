//! The inbox: how other threads hand timers to a shard's owner.
//!
//! Any number of producers and one reader. It knows nothing of timers: a [`Message`] is two plain words. Since the
//! owner may leave messages unread for a long time (the inbox holds entries back), a block
//! costs no more than its slots.
//!
//! ```text
//!   thread A's writer      thread B's writer          Each thread fills a block of its own, slot by slot.
//!        |                    |
//!        v                    v
//!   [m m m . . . . .]    [m m m m m m . .]        A slot: {tick, word}; bit 63 of the word says in which lap of the
//!        |                    |                   block it was written, so a block is not zeroed between two uses.
//!        |   handed over with the first message
//!        v                    v
//!   head ---> block ---> block ---> block ---> null      The outer queue carries blocks, and each of them once.
//!    (dummy)                        ^ tail
//!
//!   first: [A's block, 3 read] -> [B's block, 1 read] -> .. -> head      the reader's, in hand-over order
//!
//!   pool  <--- epoch <--- stack of blocks that are read to their end
//!        producers   producers                              reader
//! ```
//!
//! * **Write** (`writer`, any thread, wait-free): one slot of the thread's own block: two stores, the second of which
//!   publishes. No read-modify-write, no pin, no claim, hence no unpublished slot before a published one.
//! * **Prepare** (any thread, lock-free): before it arms a timer a producer whose block is full fetches the next one,
//!   from the pool or the allocator. If there is no memory, nothing has happened yet.
//! * **Hand over** (`queue`, any thread, lock-free, once per block): with its first message a block goes into the
//!   outer queue, which the epoch protects: a producer looks at the queue's last block, which another thread's reader
//!   may be done with.
//! * **Drain** (`queue`, the owner alone): first takes every block that was handed over; then reads each open block,
//!   in the order of their hand-overs, up to what is published. A block that is read to its end leaves the row and goes
//!   on a stack (`rest`). The reader follows links that it alone rewrites, so it never pins, and calls no allocator.
//! * **Retire** (`rest`, any thread that prepares a block): a slow producer may still look at the link of such a block,
//!   so it goes through the epoch, and then rests in a pool until a thread fills it again, or is freed. The epoch's
//!   bags are allocated and freed here as well. While the stack is long, as at the end of a backlog, the reader has the
//!   system take the pages of what it puts there.
//!
//! Order: messages of one thread are read in the order of their writing. A thread's next block is handed over when
//! the last one is full, and a drain takes all hand-overs before it reads; so whenever it reads a block, it has seen
//! the whole of the blocks before. Messages of different threads come in no particular order.
//!
//! A thread that ends leaves its block to the thread that inherits its place (`sync::slot`), which goes on with it. A
//! thread that stops costs each drain one look at the next slot of its block, and holds back no other messages. Only if
//! it stops while it prepares or hands over a block, it may hold the epoch, which is the inbox's own: blocks of this
//! inbox are allocated instead of used again until it goes on. A child that forks builds inboxes of its own, whose
//! epochs know no thread of its parent's.
//!
//! Bound on memory: unread messages, plus what the epoch still holds, plus 7 blocks that wait to be retired and 40 at
//! rest (1.5 MiB), plus one open block per thread: of 8 slots at first, of 32, 128 and 512 then, and of 2048 for
//! threads that have sent more. What a backlog leaves is freed as producers go on; the system has its pages before.

mod block;
pub(crate) mod pool;
mod queue;
mod rest;
mod writer;

pub(crate) use block::Message;
#[cfg(test)]
pub(crate) use block::{FIRST, InboxBlock};
pub(crate) use queue::Inbox;
pub(crate) use queue::Reader;
pub(crate) use writer::Writer;

#[cfg(all(test, not(tickwheel_loom)))]
mod tests;
