//! A shard: one node table, one inbox and one wheel, which any thread reaches by a producer and one owner turns.
//!
//! Time is an argument of everything here: nothing in this folder reads a clock, starts a thread or sleeps.
//!
//! | room | what is inside |
//! |---|---|
//! | `handle` | [`ShardHandle`], which all threads share; the thread state, one thread's part of it |
//! | `producer` | [`Producer`], one thread's access: it schedules, cancels, moves and releases |
//! | `way` | a thread keeps its producer between calls |
//! | `owner` | [`Owner`], which takes turns: one, not shared, and alone touches the wheel |
//! | `own` | the owner's timers that no other thread knows of |
//! | `calls` | from a timer that is due to its handler, and the calls of a periodic one |
//! | `stats` | sums over all threads |

mod calls;
pub(crate) mod handle;
mod own;
pub(crate) mod owner;
pub(crate) mod producer;
mod stats;
mod way;

pub(crate) use crate::node::table::Due;
pub(crate) use handle::ShardHandle;
pub(crate) use own::{AllTimers, Own};
pub(crate) use owner::Owner;
pub(crate) use producer::Producer;
