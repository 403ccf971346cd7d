//! A shard: one node table, one inbox and one wheel, owned by one thread.
//!
//! Two types, for two kinds of callers:
//!
//! * [`ShardHandle`] (`handle`): what any thread may do: schedule, cancel, move, ask. Shared.
//! * [`Owner`] (`owner`): what the owning thread does: `turn(now, budget)`. One, not shared, and the only
//!   place where the wheel is touched.
//!
//! Time is an argument of everything here: nothing in this folder reads a clock, starts a thread or sleeps.
//!
//! `thread_state` is the part of a `ShardHandle` that belongs to one thread: its free nodes, its block of the
//! inbox and its counters. `send` is how it tells the owner something, `batch` the
//! same for many timers. `own` is how the owner schedules. `store` is what a turn asks about each due entry.
//! `repeat` is how periodic timers begin, and their calls. `limit` is the bound on pending timers.
//! `counters` are the owner's, `histogram` its counts of durations, `stats` a snapshot of all of it.

pub(crate) mod batch;
pub(crate) mod counters;
pub(crate) mod handle;
pub(crate) mod histogram;
pub(crate) mod limit;
mod own;
pub(crate) mod owner;
mod repeat;
mod send;
mod stats;
mod store;
pub(crate) mod thread_state;

pub(crate) use crate::drive::Fired;
pub(crate) use handle::ShardHandle;
pub use histogram::DurationHistogram;
pub(crate) use limit::Limit;
pub(crate) use owner::{Owner, Turn};
pub use stats::ShardStats;
