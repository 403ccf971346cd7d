//! A shard: one node table, one inbox and one wheel, owned by one thread.
//!
//! Two kinds of callers:
//!
//! * any thread: a [`Producer`], which is a shard and the thread's part of it, schedules, cancels, moves and releases;
//!   [`ShardHandle`] (`handle`) is what all threads share, and answers questions.
//! * the owning thread: [`Owner`], which takes turns. One, not shared, and the only place where the wheel is touched.
//!
//! Time is an argument of everything here: nothing in this folder reads a clock, starts a thread or sleeps.
//!
//! `handle` also has the thread state, the part of a shard that belongs to one thread: its free nodes, its block of
//! the inbox and its counters. `calls` are those of periodic timers. `current` says where the owner is in its turn.
//! `word` has an entry in one word. `limit` is the bound on pending timers. `counters` has the counter and those of the
//! owner, `histogram` counts durations, `stats` a snapshot of all of it, and `pin_state` says how a worker is pinned.
//! `way` keeps a thread's producer between calls.

mod calls;
pub(crate) mod counters;
pub(crate) mod handle;
pub(crate) mod histogram;
pub(crate) mod limit;
mod own;
pub(crate) mod owner;
mod pin_state;
pub(crate) mod producer;
mod stats;
mod way;
mod word;

pub(crate) use crate::node::fired::Due;
pub(crate) use handle::ShardHandle;
pub use histogram::DurationHistogram;
pub(crate) use limit::Limit;
pub(crate) use own::{AllTimers, Own};
pub(crate) use owner::{Owner, Turn};
pub use pin_state::PinState;
pub(crate) use producer::Producer;
pub use stats::ShardStats;
