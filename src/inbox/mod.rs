//! The inbox: how other threads hand timers to a shard's owner.
//!
//! Any number of producers and one reader. It knows nothing of timers: a message is a plain word. The owner may leave
//! messages unread for a long time (the inbox holds entries back), so a block costs no more than its slots. A thread
//! that has nothing new costs a drain nothing.
//!
//! ```text
//!   stack of the writers with news          Each writer has a chain of blocks, which one thread fills, slot by slot.
//!
//!   B's writer: first ---> [m m m m m m m m] ---> [m m m . . . . .] <--- open
//!        |                     (read from here)
//!        v                                                    A slot: a word, whose bit 63 says in which lap of the
//!   A's writer: first ---> [m m . . . . . .] <--- open        block it was written, so a block is not zeroed between
//!        |                                                    two uses.
//!        v
//!       null
//!
//!   pool  <--- epoch <--- stack of blocks that are read to their end
//!        producers   producers                              reader
//! ```
//!
//! * **Write** (`writer`, any thread, wait-free): one slot of the thread's own block: a store, which
//!   publishes. No read-modify-write, no pin, no claim, hence no unpublished slot before a published one.
//! * **List** (`queue`, any thread, lock-free, once per drain): the first message after a drain puts the writer on a
//!   stack. Whether that is necessary is a flag of the writer's: the drain resets it before its fence, and a producer
//!   looks at it after its own. So either the drain sees the message, or the producer lists the writer.
//! * **Prepare** (any thread, lock-free): before it arms a timer a producer whose block is full appends the next one
//!   to its chain, from the pool or the allocator. If there is no memory, nothing has happened yet.
//! * **Drain** (`queue`, the owner alone): takes the whole stack, resets the flags, executes its fence, and reads each
//!   chain up to what is published. It goes from block to block by links that one thread writes, so it never pins, and
//!   calls no allocator. A block that is read to its end, and that its writer has left, goes on a stack (`rest`).
//! * **Retire** (`rest`, any thread that prepares a block): the epoch protects that stack, from which several producers
//!   may take. A block goes through it, and then rests in a pool until a thread fills it again, or is freed. The epoch's
//!   bags are allocated and freed here as well. While the stack is long, as at the end of a backlog, the reader has the
//!   system take the pages of what it puts there.
//!
//! Order: messages of one thread are read in the order of their writing. Messages of different threads come in no
//! particular order.
//!
//! A thread that ends leaves its chain to the thread that inherits its place (`sync::slot`), which goes on with it. A
//! thread that stops holds back no other messages. If it stops while it lists its writer, its own messages wait for it.
//! If it stops while it retires blocks, it may hold the epoch, which is the inbox's own: blocks of this inbox are
//! allocated instead of used again until it goes on. A child that forks builds inboxes of its own, whose epochs know no
//! thread of its parent's.
//!
//! Bound on memory: the unread messages, the blocks that the epoch still holds, 31 blocks that wait to be retired, 136
//! in the pool (0.5 MiB), and one open block per thread. That has 8 slots at first, then 32, 128, and 512 once a thread
//! has sent more. Blocks of a backlog are freed as producers go on; the system has their pages before.

mod block;
pub(crate) mod pool;
mod queue;
mod rest;
mod writer;

#[cfg(test)]
pub(crate) use block::{FIRST, InboxBlock};
pub(crate) use queue::Inbox;
pub(crate) use queue::Reader;
pub(crate) use writer::Writer;

#[cfg(all(test, not(tickwheel_loom)))]
mod tests;
