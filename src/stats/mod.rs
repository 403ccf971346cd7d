//! Numbers for statistics: one thread writes each, any thread reads it.
//!
//! `counters` are the live numbers of a shard, `histogram` counts durations, and `shard` is a snapshot for users.

mod counters;
pub(crate) mod histogram;
mod shard;

pub(crate) use counters::{Counter, Counters};
pub use histogram::DurationHistogram;
pub(crate) use histogram::Sample;
pub use shard::{PinState, ShardStats};
