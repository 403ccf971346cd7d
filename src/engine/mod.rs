//! The engine: one shard and one pinned worker per core, and everything a caller touches.
//!
//! | room | what is inside |
//! |---|---|
//! | `timer` | [`Timer`]: schedule, cancel, reschedule, ask; start, turn, stop, statistics |
//! | `wake_timer` | what a future has of an engine: a timer that wakes it |
//! | `handle` | [`TimerHandle`]: the owned handle of one timer; [`TimerGuard`], which cancels it |
//! | `weak` | [`WeakTimer`]: a way to an engine that does not keep it |
//! | `global` | the engine that all of a process's libraries may share |
//! | `builder`, `settings` | [`Builder`] and its choices, and how an engine stops |
//! | `build` | from these to an engine |
//! | `inner` | what timers, timeouts and workers share: the types that name each other |
//! | `crew` | what turns the shards, and ends them |
//! | `hold`, `retired` | who keeps an engine's memory, and when it may go |
//! | `hooks` | what a user wants to be told: panics, failed workers, slow handlers |
//! | `events` | what an operator is told as it happens |
//! | `task` | [`TimerTask`]: a closure as a payload |
//! | `executor` | [`Executor`]: takes expired timers off the workers' hands |
//! | `routing` | which thread's timers go to which shard |
//! | `pinning` | which worker runs on which core |
//! | `stats` | what an engine tells of itself: [`EngineState`], [`Stats`] |

// rustdoc shows the methods of a type in the order of these modules.
mod builder;

mod build;
mod timer;
mod weak;

pub(crate) mod crew;
mod events;
mod executor;
mod global;
mod handle;
mod hold;
mod hooks;
mod inner;
pub(crate) mod pinning;
pub(crate) mod retired;
mod routing;
mod settings;
mod stats;
mod task;
#[cfg(feature = "futures")]
mod wake_timer;

pub use builder::Builder;
#[cfg(feature = "__test-clock")]
pub use builder::in_test_time;
#[cfg(feature = "__internal")]
pub use builder::without_membarrier;
pub use crew::driven::DrivenShard;
#[cfg(feature = "__internal")]
pub use crew::driven::wake_by;
pub use executor::{Executor, executor_fn};
pub use global::global;
#[cfg(feature = "futures")]
pub(crate) use global::global_is_built;
pub use handle::{TimerGuard, TimerHandle, TimerState};
pub use hooks::{PanicReport, SlowHandler, WorkerFailure};
pub use pinning::{Pinning, unpin_current_thread};
pub use settings::{Drive, IdleStrategy, Shutdown};

pub use stats::{EngineState, Stats};
pub use task::TimerTask;
pub use timer::Timer;
#[cfg(feature = "__internal")]
pub use timer::set_home;
#[cfg(feature = "futures")]
pub(crate) use wake_timer::{Stage, WakeTimer};
pub use weak::WeakTimer;
