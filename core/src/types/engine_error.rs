//! Why an engine as a whole does not start, stop or turn.
//!
//! As in `error`, each text names the cure.

#[cfg(feature = "std")]
use super::SystemError;
use core::error::Error;

/// Why an engine could not be started.
///
/// ```
/// use tickwheel::{StartError, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// timer.start()?; // the first timer would have done it
/// timer.stop()?;
/// assert_eq!(timer.start(), Err(StartError::Stopped));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// The engine has been stopped, which is final.
    Stopped,
    /// This process is a fork of the one that started the engine, and its workers are not here.
    Forked,
    /// The operating system gave no thread.
    #[cfg(feature = "std")]
    Spawn {
        /// The shard whose worker could not be spawned.
        shard: usize,
        /// The operating system's reason.
        source: SystemError,
    },
}

impl StartError {
    /// Returns the operating system's error, if it is one.
    pub(super) fn behind(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            #[cfg(feature = "std")]
            Self::Spawn { source, .. } => Some(&**source),
            Self::Stopped | Self::Forked => None,
        }
    }
}

error_texts! { StartError, source = Self::behind;
    Self::Stopped => "the engine is stopped and cannot be started again; build a new one",
    Self::Forked =>
        "the engine was started before a fork and its workers are in the other process; build a \
         new one here",
    #[cfg(feature = "std")]
    Self::Spawn { shard, source } =>
        "no thread for shard {shard}: {source}; raise the limit of threads or use fewer shards",
}

/// Why an engine could not be stopped by this call.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, Expired, StopError, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (tell, told) = std::sync::mpsc::channel();
/// let timer = Builder::new().build_per_shard(|_shard| {
///     let tell = tell.clone();
///     move |timer: &Timer<u64>, _: Expired<u64>| tell.send(timer.stop()).unwrap() // refused
/// })?;
/// timer.schedule(Duration::ZERO, 17)?;
/// assert_eq!(told.recv()?.unwrap_err(), StopError::InsideHandler);
/// assert!(timer.stop().is_ok());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopError {
    /// Called from a handler, on the thread that it would wait for.
    InsideHandler,
    /// Shards were still at work when the time limit had passed. The engine goes on to end, and nothing is lost.
    TimedOut {
        /// How many had not ended.
        shards: usize,
    },
    /// This process is a fork of the one that started the engine, and its workers are not here.
    Forked,
}

error_texts! { StopError
    Self::InsideHandler =>
        "stop() was called from inside a handler and would wait for itself; call it from another \
         thread",
    Self::TimedOut { shards } =>
        "{shards} shards were still at work at the end of the time limit; call shutdown or stop \
         again to wait for them and to get what is left",
    Self::Forked =>
        "the engine was started before a fork and its workers are in the other process; stop it \
         there",
}

/// Why a turn could not be made by hand.
///
/// ```
/// use tickwheel::{Builder, Drive, Timer, TurnError};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// assert_eq!(Timer::new()?.turn(), Err(TurnError::DrivenByWorkers));
/// let timer = Builder::new().drive(Drive::Manual).build()?;
/// assert_eq!(timer.turn(), Ok(0));
/// timer.stop()?;
/// assert_eq!(timer.turn(), Err(TurnError::Stopped));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnError {
    /// The engine has workers of its own.
    DrivenByWorkers,
    /// Called from a handler, that is from inside a turn.
    InsideHandler,
    /// A shard has ended by a panic in this turn, a clock's for example; see `WorkerFailure`.
    Failed {
        /// The shard.
        shard: usize,
    },
    /// The engine has been stopped.
    Stopped,
    /// The engine has no such shard.
    NoShard {
        /// The one that was asked for.
        shard: usize,
        /// The number of shards; they count from 0.
        shards: usize,
    },
    /// A `DrivenShard` has this shard already.
    Driven {
        /// The shard.
        shard: usize,
    },
}

error_texts! { TurnError
    Self::DrivenByWorkers =>
        "turn() needs an engine without workers; build it with Builder::drive(Drive::Manual)",
    Self::InsideHandler =>
        "turn() was called from inside a handler; return from the handler and turn again",
    Self::Failed { shard } =>
        "shard {shard} panicked in its turn and has ended; stop the engine and build a new one",
    Self::Stopped => "the engine is stopped and has nothing left to turn; build a new one",
    Self::NoShard { shard, shards } =>
        "there is no shard {shard}: the engine has {shards}, counted from 0",
    Self::Driven { shard } =>
        "another DrivenShard has shard {shard}; drop it first, or use its engine as it is",
}
