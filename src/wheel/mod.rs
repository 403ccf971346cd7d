//! The wheel: where a shard's owner keeps the deadlines of its timers.
//!
//! It stores plain [`Entry`] values and gives them back in the order of their deadlines. It is
//! pure: no atomics, no threads, no clock, no `unsafe`. Time is the argument of [`Wheel::advance`],
//! in ticks counted from the engine's origin. One owner uses it through `&mut self`; it is `Send`.
//!
//! Cancelled timers are not taken out when they are cancelled. Their entries stay until they come
//! due or until [`Wheel::sweep`] drops them; the wheel itself does not know which entries are dead.
//!
//! ```text
//! insert --> level or ring position from the deadline --> bucket: chain of chunks of entries
//! advance -> next occupied bucket, never the next tick --> due entries, tick by tick, first in first out
//!                                                      \-> too many of one tick: the backlog
//! sweep ---> bucket by bucket, chunk by chunk ----------> dead entries dropped, the rest packed
//! ```
//!
//! It follows "Hashed and Hierarchical Timing Wheels" by Varghese and Lauck (SOSP 1987,
//! IEEE/ACM Transactions on Networking 1997): their scheme 7.
//!
//! | room | what is inside |
//! |---|---|
//! | `entry` | [`Entry`], what a wheel stores |
//! | `chunks` | pooled memory of entries, bucket chains |
//! | `pass` | filtering one bucket, a chunk at a time |
//! | `sweep` | the cursor that goes round all buckets and drops the dead; how many entries of a tick come in a row |
//! | `rings` | the buckets in one row, with a bit each |
//! | `hierarchical` | [`Wheel`]: insert, and advance from ring to ring |

mod chunks;
mod entry;
mod hierarchical;
mod pass;
mod rings;
mod sweep;

pub(crate) use entry::no_memory;
pub use entry::{DeadMask, Entry, Sweep};
pub use hierarchical::Wheel;
pub use sweep::BURST;
