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
//! `payload` is what a timer carries: a value or a closure. `thread_state` is the part of a `ShardHandle` that belongs to one thread: its free nodes and its counters.
//! `wait_idle` is what a turn asks about each due entry. `periodic` is the book of timers that repeat, `repeat` what other
//! threads do with it. `counters` are the owner's. `lateness` is the histogram of how late timers fired.

pub(crate) mod counters;
pub(crate) mod handle;
pub(crate) mod lateness;
pub(crate) mod limit;
pub(crate) mod owner;
mod payload;
pub(crate) mod periodic;
mod repeat;
mod store;
pub(crate) mod thread_state;

pub(crate) use handle::{Refusal, ShardHandle, WakeOwner};
pub use lateness::LatenessHistogram;
pub(crate) use limit::Limit;
pub(crate) use owner::{Owner, Turn};
pub use payload::{IntoPayload, Task};

/// A timer that has fired, on its way to the handler.
#[derive(Debug)]
pub(crate) struct Expiry<T> {
    pub(crate) payload: T,
    pub(crate) key: crate::types::Key,
    /// The tick at or after which the timer was to fire.
    pub(crate) deadline: u64,
    /// One period of a periodic timer: call [`Owner::finish_period`] when it is handled.
    pub(crate) periodic: bool,
}
