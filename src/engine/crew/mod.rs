//! What turns an engine's shards, and ends them: on workers, in tasks and by hand.
//!
//! | room | what is inside |
//! |---|---|
//! | `status` | where the engine stands, in one word |
//! | `berths` | where each shard is: idle, away with who turns it, ended |
//! | `seat` | who has a shard, which thread turns it, and how it is woken |
//! | `lifecycle` | start and end |
//! | `shard_worker` | what drives one shard, on whichever thread, and what it calls: handlers, executors, wakers |
//! | `worker` | the thread of a shard: clock + turn + park, and the only place where the three meet |
//! | `by_hand` | turns on the threads of callers |
//! | `driven` | a shard that a task turns: [`DrivenShard`](driven::DrivenShard) |

pub(super) mod berths;
mod by_hand;
pub(super) mod driven;
mod lifecycle;
pub(crate) mod seat;
pub(super) mod shard_worker;
pub(crate) mod status;
mod worker;
