//! The engine: one shard and one pinned worker per core, and everything a caller touches.
//!
//! | room | what is inside |
//! |---|---|
//! | `timer` | [`Timer`]: schedule, cancel, reschedule, ask, start, stop |
//! | `timeout` | [`Timeout`]: the owned handle of one timer |
//! | `builder`, `settings` | [`Builder`] and its choices |
//! | `state` | [`EngineState`] |
//! | `inner` | what timers, timeouts and workers share |
//! | `lifecycle` | start, stop, turning by hand |
//! | `worker` | the thread of a shard: clock + turn + park, and the only place where the three meet |
//! | `handler` | what is called when a timer fires: handlers, executors, panics |
//! | `routing` | which thread's timers go to which shard |
//! | `pinning` | which worker runs on which core |
//! | `stats` | what the engine counts |

mod builder;
mod handler;
mod inner;
mod lifecycle;
pub(crate) mod pinning;
mod routing;
mod settings;
mod state;
mod stats;
mod timeout;
mod timer;
mod worker;

pub use builder::Builder;
pub use handler::{Executor, PanicReport};
pub use pinning::Pinning;
pub use routing::Routing;
pub use settings::{Drive, IdleStrategy};
pub use state::EngineState;
pub use stats::{ShardStats, Stats};
pub use timeout::Timeout;
pub use timer::Timer;
