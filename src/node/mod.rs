//! Nodes: the records of timers, where they live, and who may do what to them.
//!
//! A node lives in a type-stable table (`segments`) and is named by its number. Free nodes lie in
//! magazines (`magazine`) or have no memory (`regions`). All decisions about a node are transitions of its state word
//! (`state`). `limit` bounds how many timers are pending at a time.
//!
//! | field | free (in a magazine) | pending | pending, `MOVERS` | ended, held | may be read stale by |
//! |---|---|---|---|---|---|
//! | state | holder of the magazine arms it | any thread, by the transitions | same | holders release | any thread |
//! | deadline | the armer writes it | owner reads | movers replace it | `TimerHandle` reads | owner (the state decides) |
//! | payload | the armer writes it | - | - | the winner takes it, once | - |
//!
//! Ordering: the armer's writes are published by the Release in `StateWord::arm` and seen through the
//! Acquire of every later transition [P1]; between two lives of a node the magazine (and the depot's
//! stacks, [P5]) order the last holder before the next armer.
//!
//! The owner of the shard writes no part of a node while it inserts the node's entry: the canceller's
//! compare-and-swap finds the line where the producer left it.

pub(crate) mod fired;
pub(crate) mod limit;
pub(crate) mod magazine;
pub(crate) mod moves;
pub(crate) mod offer;
pub(crate) mod periodic;
mod record;
pub(crate) mod regions;
pub(crate) mod table;
pub(crate) mod trim;
