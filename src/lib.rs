//! A lock-free, sharded timer engine for low-latency servers.

mod clock;
mod engine;
mod error;
mod inbox;
mod key;
mod node;
mod park;
mod shard;
mod sync;
mod tick;
mod turn;
pub mod wheel;

pub use clock::{Clock, ManualClock, MonotonicClock, Time};
pub use engine::{
    Builder, Cancel, Drive, EngineState, Executor, Expired, IdleStrategy, IntoPayload, PanicReport,
    Pinning, Reschedule, Routing, ShardStats, Stats, Task, Timeout, Timer, Unfired, WheelKind,
};
pub use error::{BuildError, ScheduleError, ScheduleErrorKind, StartError, StopError, TurnError};
pub use key::Key;
pub use shard::LatenessHistogram;
pub use turn::Budget;
