//! The inbox: how other threads hand timers to a shard's owner.
//!
//! A queue of linked blocks with any number of producers and one reader. It knows nothing of timers: a
//! [`Message`] is two plain words. Since the owner may leave messages unread for a long time (the inbox
//! is the staging buffer of the engine), a block costs no more than its slots.
//!
//! ```text
//!   reader.head                                   tail
//!       |                                          |
//!   +---v----+ next +--------+ next          +-----v--+
//!   | block  |----->| block  |----->  ...    | block  |---> null
//!   +--------+      +--------+               +--------+
//!     claim: how many slots producers have taken (may exceed the block; bit 63: closed)
//!     slot:  {tick, word}   word = 0: claimed or free, unwritten
//!                           word = PUBLISHED | ..: readable
//!                           word = CONSUMED: read out of order
//! ```
//!
//! * **Push** (any thread, lock-free): pin the epoch; claim a slot by `fetch_add`; write; publish. A
//!   producer that finds the block full links a new one (whoever comes first wins, the others use it) and
//!   goes on; nobody waits for anybody.
//! * **Drain** (the reader alone): reads published slots in order. A slot that is claimed and not yet
//!   published (its producer was preempted) is passed over and remembered as a hole, so that one slow
//!   producer delays nobody else's timers. Order per producer holds, because a producer publishes a slot
//!   before it claims the next, and a drain that has met a hole takes nothing that was claimed after that.
//! * **Retire**: a block that is read to its end is unlinked and handed to the epoch, because a slow
//!   producer that loaded `tail` earlier may still look at it. Then it rests in a pool until it is linked again.
//! * **Close** (once): sets a bit in the tail block's claim word. Each push is accepted or refused by its
//!   one `fetch_add` on that word, so nothing can slip in after the close and nothing accepted is lost.
//!
//! Bound on memory: unread messages, plus what the epoch still holds, plus 128 blocks at rest (260 KiB), plus one
//! block that is part full.

mod block;
pub(crate) mod pool;
mod queue;

#[cfg(test)]
pub(crate) use block::SLOTS;
pub(crate) use queue::{Inbox, Pushed, Reader};

/// What a producer hands over: a tick, and a word of the shard's making below 2^63.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) tick: u64,
    pub(crate) word: u64,
}
