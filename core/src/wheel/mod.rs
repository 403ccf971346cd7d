//! The wheel: where a shard's owner keeps the deadlines of its timers.
//!
//! It stores plain [`Entry`] values and gives them back in the order of their deadlines. It is
//! pure: no atomics, no threads, no clock, no `unsafe`. Time is the argument of [`Wheel::begin_turn`],
//! in ticks counted from the engine's origin. One owner uses it through `&mut self`; it is `Send`.
//!
//! Cancelled timers are not taken out when they are cancelled. Their entries stay until they come
//! due, or until a look or a sweep drops them; which entries are dead, the wheel asks its records.
//!
//! Where an entry lies, from push to fire:
//!
//! ```text
//!        insert, accept
//!          |
//!          | due in 64 ticks or later          sooner (`accept`: and before all that the log has)
//!          v                                      |
//!  log     [sealed][sealed] | [young][tail]       |         in the order of arrival; most entries die here
//!          |                                      |
//!          | may be due soon, or the log is full  |         scheduled in a turn and due in it: deferred,
//!          v                                      v         and in the rings when the next turn begins
//!  rings   1 tick x 512 | 512 ticks x 128 | ..    recent: 1 tick x 64      overdue: the hand had passed it
//!          |  ^_________|  ^______________|       |                        |
//!          |  when its first entry is due a       |                        |
//!          |  bucket moves to lower rings         |                        |
//!          v                                      v                        v
//!  due     256 at a time, tick by tick; the rest of a burst goes to the backlog, which comes by turns
//!          |
//!          v
//!  decide  fire | reinsert: `accept` | drop a zombie
//! ```
//!
//! The sweep goes through log and rings in this order, drops dead entries and packs the rest.
//!
//! It follows "Hashed and Hierarchical Timing Wheels" by Varghese and Lauck (SOSP 1987,
//! IEEE/ACM Transactions on Networking 1997): their scheme 7.
//!
//! | room | what is inside |
//! |---|---|
//! | `turn` | [`Wheel`] and its turns: begin, the next timer that fires, end; what is due next |
//! | `insert` | how entries come in |
//! | `timers` | [`Entry`], what a wheel stores of a timer, and what it asks about those behind its entries |
//! | `log`, `block` | the entries that are not in the rings yet |
//! | `policy` | when it pays to look for the dead in the log, and to seal it |
//! | `rings` | [`Rings`]: insert, and advance from ring to ring |
//! | `row` | the buckets of the rings in one row, with a bit each |
//! | `chunks` | pooled memory of entries, bucket chains |
//! | `burst` | how many entries of one kind come in a row, and the backlog |
//! | `bound` | when there are too many zombies, and the rounds of the sweep |
//! | `sweep` | the cursor that goes round all buckets and drops the dead |
//! | `pass` | filtering one bucket, a chunk at a time |
//! | `spare` | memory that goes back to the system after a burst |

mod block;
mod bound;
mod burst;
mod chunks;
mod insert;
mod log;
mod pass;
mod policy;
mod rings;
mod row;
mod spare;
mod sweep;
mod timers;
mod turn;

pub use bound::ZOMBIES_PER_LOOK;
pub use bound::{ZOMBIE_FLOOR, too_many};
pub use burst::BURST;
pub use rings::Rings;
pub use spare::{NodeMemory, Settled};
pub use sweep::{DeadMask, Sweep};
pub use timers::{Entry, Fate, Records, TimerStore, no_memory};
pub use turn::Wheel;
