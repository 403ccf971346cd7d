//! The wheel: where a shard's owner keeps the deadlines of its timers.
//!
//! It stores plain [`Entry`] values and gives them back in the order of their deadlines. It is
//! pure: no atomics, no threads, no clock, no `unsafe`. Time is the argument of [`Wheel::advance`],
//! in ticks counted from the engine's origin. One owner uses it through `&mut self`; it is `Send`.
//!
//! Cancelled timers are not taken out when they are cancelled. Their entries stay until they come
//! due, or until a look or a sweep drops them; which entries are dead, the wheel asks its records.
//!
//! ```text
//! push ----> the log: blocks in the order of arrival ----> most die here
//!            | a block may be due
//! insert --> ring and position from the deadline --------> bucket: chain of chunks of entries
//! advance -> next occupied bucket, never the next tick --> due entries, tick by tick, first in first out
//!                                                      \-> too many of one tick: the backlog
//! sweep ---> log, then bucket by bucket ----------------> dead entries dropped, the rest packed
//! ```
//!
//! It follows "Hashed and Hierarchical Timing Wheels" by Varghese and Lauck (SOSP 1987,
//! IEEE/ACM Transactions on Networking 1997): their scheme 7.
//!
//! | room | what is inside |
//! |---|---|
//! | `entry` | [`Entry`], what a wheel stores |
//! | `records` | what it asks about the timers behind its entries |
//! | `log`, `block` | the entries that are not in the rings yet |
//! | `policy` | when it pays to look for the dead in the log, and to seal it |
//! | `hierarchical` | [`Wheel`]: insert, and advance from ring to ring |
//! | `rings` | the buckets in one row, with a bit each |
//! | `chunks` | pooled memory of entries, bucket chains |
//! | `sweep` | the cursor that goes round all buckets and drops the dead; how many entries of a tick come in a row |
//! | `pass` | filtering one bucket, a chunk at a time |
//! | `spare` | memory that goes back to the system after a burst |
//! | `bound` | when there are too many zombies, and the rounds of the sweep |

mod block;
mod bound;
mod chunks;
mod entry;
mod hierarchical;
mod log;
mod pass;
mod policy;
mod records;
mod rings;
mod spare;
mod sweep;

pub(crate) use bound::{SWEEP_PER_LOOK, ZOMBIES_PER_LOOK};
#[cfg(feature = "threads")]
pub(crate) use bound::{ZOMBIE_FLOOR, too_many};
pub(crate) use entry::no_memory;
pub use entry::{DeadMask, Entry, Sweep};
pub use hierarchical::Wheel;
pub(crate) use records::Records;
pub use sweep::BURST;
#[cfg(test)]
pub(crate) use {block::BLOCK, log::MOST_YOUNG};
