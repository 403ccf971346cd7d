//! Nodes: the records of timers, where they live, and what is done to them. `crate::state` has their protocol.
//!
//! | room | what is inside |
//! |---|---|
//! | `table` | all nodes of a shard: arm, end, decide what is due, and what has fired |
//! | `record` | one node: state word, deadline and payload |
//! | `moves`, `periodic` | the table's other verbs: a deadline moves, a timer repeats |
//! | `offer` | a payload on its way in |
//! | `magazine` | free nodes, in batches, per thread |
//! | `regions`, `trim` | free nodes in order, after a burst, with memory or without |
//! | `limit` | how many timers may be pending at a time |
//!
//! Nodes lie in type-stable segments and are named by their numbers. Between two lives of a node the magazine (and the
//! depot's stacks, [P5]) order the last holder before the next armer.
//!
//! The owner of the shard writes no part of a node while it inserts the node's entry, unless that was moved before: the
//! canceller's compare-and-swap finds the line where the producer left it.

pub(crate) mod limit;
pub(crate) mod magazine;
pub(crate) mod moves;
pub(crate) mod offer;
pub(crate) mod periodic;
mod record;
pub(crate) mod regions;
pub(crate) mod table;
pub(crate) mod trim;
