//! The engine: one shard and one pinned worker per core, and everything a caller touches.
//!
//! | room | what is inside |
//! |---|---|
//! | `timer` | [`Timer`]: schedule, cancel, reschedule, ask, start, stop |
//! | `timeout` | [`Timeout`]: the owned handle of one timer |
//! | `builder`, `settings` | [`Builder`] and its choices |
//! | `inner` | what timers, timeouts and workers share |
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
mod handler;
mod inner;
mod lifecycle;
mod payload;
pub(crate) mod pinning;
mod routing;
mod settings;
mod shard_worker;
mod shutdown;
mod state;
mod stats;
mod timeout;
mod timer;
mod worker;

pub use builder::Builder;
pub use handler::{Executor, PanicReport, WorkerFailure};
pub use payload::{IntoPayload, Task};
pub use pinning::{PinState, Pinning, unpin_current_thread};
pub use routing::Routing;
pub use settings::{Drive, IdleStrategy};
pub use shutdown::Shutdown;
pub use state::EngineState;
pub use stats::{ShardStats, Stats};
pub use timeout::Timeout;
pub use timer::Timer;
