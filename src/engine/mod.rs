//! The engine: one shard and one pinned worker per core, and everything a caller touches.
//!
//! | room | what is inside |
//! |---|---|
//! | `timer` | [`Timer`]: schedule, cancel, reschedule, ask, start, stop |
//! | `timeout` | [`Timeout`]: the owned handle of one timer |
//! | `builder` | [`Builder`] and its choices |
//! | `core` | what timers, timeouts and workers share |
//! | `state` | where the engine stands, and which shards have failed |
//! | `lifecycle` | start, end, turning by hand |
//! | `shutdown` | the ways in which an engine ends |
//! | `shard_worker` | what drives one shard, on whichever thread |
//! | `worker` | the thread of a shard: clock + turn + park, and the only place where the three meet |
//! | `handler` | what is called when a timer fires: handlers, executors, panics |
//! | `payload` | [`Task`] and what can become a payload |
//! | `routing` | which thread's timers go to which shard |
//! | `pinning` | which worker runs on which core |
//! | `stats` | what the engine counts |

mod builder;
mod inner;
mod handler;
mod lifecycle;
mod payload;
pub(crate) mod pinning;
mod routing;
mod shard_worker;
mod shutdown;
mod state;
mod stats;
mod timeout;
mod timer;
mod verdict;
mod worker;

pub(crate) use builder::new_wheel;
pub use builder::{Builder, Drive, IdleStrategy, WheelKind};
pub use handler::{Executor, Expired, PanicReport, Unfired, WorkerFailure};
pub use payload::{IntoPayload, Task};
pub use pinning::{PinState, Pinning, unpin_current_thread};
pub use routing::Routing;
pub use shutdown::Shutdown;
pub use state::EngineState;
pub use stats::{ShardStats, Stats};
pub use timeout::Timeout;
pub use timer::Timer;
pub use verdict::{Cancel, Reschedule};
