//! The crew turns an engine's shards, and ends them: on workers, in tasks and by hand.
//!
//! | room | what is inside |
//! |---|---|
//! | `status` | where the engine stands, in one word |
//! | `standing` | the state of a shard beside its lock: a task drives it, calls it has answered, whether it has ended |
//! | `berth` | where a shard lies: the thread that holds its lock turns it |
//! | `wake` | how the thread or task that turns a shard is woken |
//! | `lifecycle` | start and end |
//! | `shard_worker` | what drives one shard, on whichever thread, and what it calls: handlers, executors, wakers |
//! | `step` | a turn, and the announcement of a sleep: where clock and turn meet; `wait_idle` |
//! | `worker` | the thread of a shard |
//! | `by_hand` | turns on the threads of callers |
//! | `driven` | a shard that a task turns: [`DrivenShard`](driven::DrivenShard) |
//! | `calls` | the way of other crates to all of that, of which they compile nothing |

mod berth;
mod by_hand;
mod calls;
pub(super) mod driven;
mod lifecycle;
pub(super) mod shard_worker;
pub(super) mod standing;
pub(crate) mod status;
mod step;
pub(crate) mod wake;
mod worker;
