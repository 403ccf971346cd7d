//! The inbox: how other threads hand timers to a shard's owner.
//!
//! Any number of producers and one reader. It knows nothing of timers: a [`Message`] is two plain words. Since the
//! owner may leave messages unread for a long time (the inbox holds entries back), a block
//! costs no more than its slots.
//!
//! ```text
//!   thread A's writer    thread B's writer        Each thread fills a block of its own, slot by slot.
//!        |                    |
//!        v                    v
//!   [m m m . . . . .]    [m m m m m m . .]        A slot: {tick, word}; bit 63 of the word says in which lap of the
//!        |                    |                   block it was written, so a block is not zeroed between two uses.
//!        |   handed over with the first message
//!        v                    v
//!   handed ---> block ---> block ---> none        A stack, which the reader takes as a whole.
//!
//!   reader:  [A's block, 3 read] ---> [B's block, 1 read] ---> ..   in hand-over order, not read to their end
//!
//!   free   <--- blocks that are read to their end
//! ```
//!
//! * **Write** (`writer`, any thread, wait-free): one slot of the thread's own block: two stores, the second of which
//!   publishes. No read-modify-write, no claim, hence no unpublished slot before a published one.
//! * **Prepare** (any thread, lock-free): before it arms a timer a producer whose block is full fetches the next one,
//!   a free one or a new one. If there is no memory, nothing has happened yet.
//! * **Hand over** (`queue`, any thread, lock-free, once per block): with its first message a block goes on the stack.
//!   A thread looks into no block but its own.
//! * **Drain** (`reader`, the owner alone): first takes every block that was handed over; then reads each open block,
//!   in the order of their hand-overs, up to what is published. A block that is read to its end leaves the list and is
//!   free.
//!
//! Memory (`block`): blocks lie in a table that grows and is freed with the inbox, so a stale number leads to a block.
//! Only producers allocate. The owner neither allocates nor frees: at the end of a backlog, when many blocks are free,
//! it gives their pages back to the system and keeps the addresses.
//!
//! Order: messages of one thread are read in the order of their writing. A thread's next block is handed over when
//! the last one is full, and a drain takes all hand-overs before it reads; so whenever it reads a block, it has seen
//! the whole of the blocks before. Messages of different threads come in no particular order.
//!
//! A thread that ends leaves its block to the thread that inherits its place (`sync::slot`), which goes on with it. A
//! thread that stops, anywhere, costs each drain one look at the next slot of its block, and holds back nobody's
//! messages and no memory but its block.
//!
//! Bound on memory: unread messages, plus 64 free blocks (512 KiB), plus one open block per thread, of 8 KiB, of which
//! only the pages are there that it has written to.

mod block;
mod queue;
mod reader;
mod writer;

pub(crate) use block::Message;
#[cfg(test)]
pub(crate) use block::SLOTS;
pub(crate) use queue::{Inbox, NoMemory};
pub(crate) use reader::Reader;
pub(crate) use writer::Writer;

#[cfg(all(test, not(tickwheel_loom)))]
mod tests;
