//! Wheels: where a shard's owner keeps the deadlines of its timers.
//!
//! A wheel stores plain [`Entry`] values and gives them back in the order of their deadlines. It is
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
//! Both kinds follow "Hashed and Hierarchical Timing Wheels" by Varghese and Lauck (SOSP 1987,
//! IEEE/ACM Transactions on Networking 1997): their schemes 6 (hashed) and 7 (hierarchical).
//!
//! | room | what is inside |
//! |---|---|
//! | `contract` | [`Wheel`], the trait; [`Entry`] |
//! | `chunks` | pooled memory of entries, bucket chains |
//! | `pass` | filtering one bucket, a chunk at a time |
//! | `sweep` | the cursor that goes round all buckets and drops the dead; how many entries of a tick come in a row |
//! | `hierarchical` | rings of growing span; the default |
//! | `hashed` | one power-of-two ring with rounds |
//! | `any` | one of the two, chosen when a timer is built |

mod any;
mod chunks;
mod contract;
mod hashed;
mod hierarchical;
mod pass;
mod sweep;

pub use any::AnyWheel;
pub(crate) use contract::no_memory;
pub use contract::{DeadMask, Entry, Sweep, Wheel};
pub use hashed::Hashed;
pub use hierarchical::Hierarchical;
pub use sweep::BURST;
