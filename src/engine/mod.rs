//! The engine: one shard and one pinned worker per core, and everything a caller touches.
//!
//! | room | what is inside |
//! |---|---|
//! | `timer` | [`Timer`]: schedule, cancel, reschedule, ask; start, turn, stop, statistics |
//! | `submitter` | [`Submitter`]: one thread's own way to an engine |
//! | `wake_timer` | what a future has of an engine: a timer that wakes it |
//! | `handle` | [`TimerHandle`]: the owned handle of one timer; [`TimerGuard`], which cancels it |
//! | `weak` | [`WeakTimer`]: a way to an engine that does not keep it |
//! | `global` | the engine that all of a process's libraries may share |
//! | `builder`, `settings` | [`Builder`] and its choices |
//! | `build` | from these to an engine |
//! | `inner` | what timers, timeouts and workers share: the types that name each other; where the engine stands |
//! | `hold`, `retired` | who keeps an engine's memory, and when it may go |
//! | `berths` | where each shard is: idle, away with who turns it, ended |
//! | `lifecycle` | start and end |
//! | `seat` | who has a shard, which thread turns it, and how it is woken |
//! | `shard_worker` | what drives one shard, on whichever thread, and what it calls: handlers, executors, wakers |
//! | `driven` | shards that their callers turn: by hand, or as a [`DrivenShard`] |
//! | `worker` | the thread of a shard: clock + turn + park, and the only place where the three meet |
//! | `hooks` | what a user wants to be told: panics, failed workers, slow handlers |
//! | `events` | what an operator is told as it happens |
//! | `task` | [`TimerTask`]: a closure as a payload |
//! | `routing` | which thread's timers go to which shard |
//! | `pinning` | which worker runs on which core |
//! | `stats` | what the engine counts |

mod berths;
mod build;
mod builder;
mod driven;
mod events;
mod global;
mod handle;
mod hold;
mod hooks;
pub(crate) mod inner;
mod lifecycle;
pub(crate) mod pinning;
pub(crate) mod retired;
mod routing;
mod seat;
mod settings;
mod shard_worker;

mod stats;
mod submitter;
mod task;
mod timer;
#[cfg(feature = "futures")]
mod wake_timer;
mod weak;
mod worker;

pub use builder::Builder;
pub use driven::DrivenShard;
pub use global::global;
pub use handle::{TimerGuard, TimerHandle, TimerState};
pub use hooks::{PanicReport, SlowHandler, WorkerFailure};
pub use inner::{EngineState, Shutdown};
pub use pinning::{Pinning, unpin_current_thread};
pub use routing::Routing;
pub use settings::{Drive, IdleStrategy};
pub use shard_worker::{Executor, executor_fn};
pub use stats::Stats;
pub use submitter::Submitter;
pub use task::TimerTask;
pub use timer::Timer;
#[cfg(feature = "futures")]
pub(crate) use wake_timer::{Stage, WakeTimer};
pub use weak::WeakTimer;
