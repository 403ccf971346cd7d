//! The engine: one shard and one pinned worker per core, and everything a caller touches.
//!
//! | room | what is inside |
//! |---|---|
//! | `timer` | [`Timer`]: schedule, cancel, reschedule, ask, start, stop |
//! | `timeout` | [`Timeout`]: the owned handle of one timer |
//! | `guard` | [`TimeoutGuard`]: a handle that cancels when it goes |
//! | `weak` | [`WeakTimer`]: a way to an engine that does not keep it |
//! | `global` | the engine that all of a process's libraries may share |
//! | `builder`, `settings` | [`Builder`] and its choices |
//! | `state` | [`EngineState`] |
//! | `inner` | what timers, timeouts and workers share |
//! | `hold`, `linger` | who keeps an engine's memory, and when it may go |
//! | `lifecycle` | start, stop, turning by hand |
//! | `worker` | the thread of a shard: clock + turn + park, and the only place where the three meet |
//! | `handler` | what is called when a timer fires: handlers, executors, panics |
//! | `task` | [`Task`]: a closure as a payload |
//! | `routing` | which thread's timers go to which shard |
//! | `pinning` | which worker runs on which core |
//! | `stats` | what the engine counts |

mod builder;
mod global;
mod guard;
mod handler;
mod hold;
mod inner;
mod lifecycle;
pub(crate) mod linger;

pub(crate) mod pinning;
mod routing;
mod settings;
mod state;
mod stats;
mod task;
mod timeout;
mod timer;
mod weak;
mod worker;

pub use builder::Builder;
pub use global::global;
pub use guard::TimeoutGuard;
pub use handler::{Executor, PanicReport, executor_fn};
pub use pinning::Pinning;
pub use routing::Routing;
pub use settings::{Drive, IdleStrategy};
pub use state::EngineState;
pub use stats::{ShardStats, Stats};
pub use task::Task;
pub use timeout::{Timeout, TimeoutState};
pub use timer::Timer;
pub use weak::WeakTimer;
