//! Every error of the crate.
//!
//! Each text names the offending number, the range that is allowed, and the cure. Errors are plain
//! data: `Send + Sync`, comparable, and free of borrowed state. [`ScheduleError`] carries the
//! payload back to the caller.

use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error as StdError;
use core::fmt;
use core::time::Duration;

use thiserror::Error;

use super::checks::{MAX_BUCKETS, MAX_SHARDS, MAX_TICK, MIN_TICK};
use super::exclusive::Exclusive;

/// Why an engine could not be built. Nothing was started and nothing is left behind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick is zero.
    #[error("tick is 0; choose at least 1us, e.g. Builder::tick(Duration::from_millis(1))")]
    ZeroTick,
    /// The tick is finer than 1 us.
    #[error("tick is {tick:?}, finer than the minimum of {MIN_TICK:?}; choose a tick of 1us to 1h")]
    TickTooFine {
        /// The tick asked for.
        tick: Duration,
    },
    /// The tick is coarser than an hour.
    #[error(
        "tick is {tick:?}, coarser than the maximum of {MAX_TICK:?}; choose a tick of 1us to 1h"
    )]
    TickTooCoarse {
        /// The tick asked for.
        tick: Duration,
    },
    /// No shards.
    #[error(
        "shards is 0; choose 1 to {MAX_SHARDS}, \
         or leave Builder::shards out for one per available core"
    )]
    ZeroShards,
    /// More than 1024 shards.
    #[error(
        "shards is {shards}, above the maximum of {MAX_SHARDS}; \
         choose about one per core, or leave Builder::shards out"
    )]
    TooManyShards {
        /// The number asked for.
        shards: usize,
    },
    /// A hashed wheel without buckets.
    #[error(
        "buckets is 0; choose 1 to {MAX_BUCKETS} (rounded up to a power of two), \
         e.g. WheelKind::Hashed {{ buckets: 512 }}"
    )]
    ZeroBuckets,
    /// A hashed wheel with more than 2^30 buckets.
    #[error(
        "buckets is {buckets}, above the maximum of {MAX_BUCKETS} (2^30); \
         choose fewer, or WheelKind::Hierarchical, which needs no choice"
    )]
    TooManyBuckets {
        /// The number asked for.
        buckets: usize,
    },
    /// One revolution of a hashed wheel does not fit the time scale.
    #[error(
        "one revolution, {buckets} buckets of {tick:?}, exceeds the maximum of \
         u64::MAX nanoseconds (584 years); choose a finer tick or at most {max_buckets} buckets"
    )]
    RingOverflow {
        /// The tick asked for.
        tick: Duration,
        /// The number of buckets, rounded up to a power of two.
        buckets: usize,
        /// The most buckets this tick allows.
        max_buckets: usize,
    },
    /// `max_pending` is zero, so that nothing could ever be scheduled.
    #[error("max_pending is 0; choose at least 1, or leave Builder::max_pending out for no limit")]
    ZeroMaxPending,
    /// A part of the budget is zero, so that a turn could not get on.
    #[error("budget.{which} is 0; choose at least 1, or leave Builder::budget out")]
    ZeroBudget {
        /// The part's name: `fire`, `drain` or `sweep`.
        which: &'static str,
    },
    /// `Pinning::List` without entries.
    #[error(
        "the pinning list names 0 cores; name at least 1, or use Pinning::Cores or Pinning::Off"
    )]
    EmptyCoreList,
    /// `Pinning::List` names a core that this thread may not use.
    #[error(
        "the pinning list names core {core}, but this thread may use only {allowed:?}; \
         choose from these, widen the affinity mask, or use Pinning::Cores"
    )]
    UnknownCore {
        /// The core asked for.
        core: usize,
        /// The cores that the building thread may use.
        allowed: Vec<usize>,
    },
    /// A thread name that the operating system cannot take.
    #[error(
        "the thread name {name:?} holds a NUL at byte {at}; remove it from Builder::thread_name"
    )]
    BadThreadName {
        /// The name asked for.
        name: String,
        /// Where the first NUL is, in bytes.
        at: usize,
    },
    /// The operating system gave no poll or waker for a worker to sleep in.
    #[error(
        "shard {shard} got no poll to sleep in: {message}; \
         raise the limit of open files (each shard needs 3) or use fewer shards"
    )]
    Poll {
        /// The shard that was being set up.
        shard: usize,
        /// The operating system's reason.
        message: String,
    },
    /// The process has its shared engine already.
    #[error(
        "the process's shared engine exists already; \
         call Builder::build_global before anything calls tickwheel::global"
    )]
    GlobalExists,
}

/// Why a timer was not accepted, together with its payload.
///
/// The timer was not counted and will never fire.
///
/// The error is `Sync` whatever the payload is, and `Send` if the payload is, so that `?` works in functions that
/// return a `Box<dyn Error + Send + Sync>` or an error type built on it:
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ScheduleErrorKind, Timer};
///
/// fn remind(timer: &Timer) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     timer.run_after(Duration::from_secs(5), || println!("five seconds"))?;
///     Ok(())
/// }
/// # let timer = Timer::new().unwrap();
/// remind(&timer).unwrap();
/// timer.stop().unwrap();
/// assert!(remind(&timer).is_err());
///
/// let error = timer.run_after(Duration::ZERO, || println!("at least here")).unwrap_err();
/// let (kind, task) = error.into_parts();
/// assert_eq!(kind, ScheduleErrorKind::Stopped);
/// task.run();
/// ```
pub struct ScheduleError<T> {
    kind: ScheduleErrorKind,
    payload: Exclusive<T>,
}

/// The reasons for refusing a timer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduleErrorKind {
    /// The engine has been stopped.
    #[error("the engine is stopped and takes no more timers; build a new one")]
    Stopped,
    /// As many timers are pending as `Builder::max_pending` allows.
    #[error(
        "{pending} timers are pending and max_pending is {max_pending}; \
         cancel some, wait for some to fire, or raise Builder::max_pending"
    )]
    TooManyPending {
        /// How many were pending.
        pending: usize,
        /// The limit.
        max_pending: usize,
    },
    /// The shard's node table is full.
    #[error(
        "shard {shard} holds its maximum of {limit} timers; \
         use more shards or Routing::Spread, or cancel some"
    )]
    OutOfNodes {
        /// The shard that is full.
        shard: usize,
        /// The most timers that one shard can hold.
        limit: u64,
    },
    /// There was no memory for the message that hands the timer to its shard; nothing was armed.
    #[error("out of memory; free some, or set fewer timers at a time, and try again")]
    OutOfMemory,
    /// A periodic timer needs a copy of its payload for each period, and making the first one panicked.
    #[error(
        "the payload's Clone panicked; a periodic timer needs a copy for each period: mend Clone"
    )]
    PayloadClonePanicked,
    /// The engine had not been started yet, and starting it failed.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why an engine could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The engine has been stopped, which is final.
    #[error("the engine is stopped and cannot be started again; build a new one")]
    Stopped,
    /// The operating system gave no thread.
    #[error(
        "no thread for shard {shard}: {message}; raise the limit of threads or use fewer shards"
    )]
    Spawn {
        /// The shard whose worker could not be spawned.
        shard: usize,
        /// The operating system's reason.
        message: String,
    },
}

/// Why an engine could not be stopped by this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StopError {
    /// Called from a handler, on the thread that it would wait for.
    #[error(
        "stop() was called from inside a handler and would wait for itself; \
         call it from another thread"
    )]
    InsideHandler,
}

/// Why a turn could not be made by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The engine has workers of its own.
    #[error("turn() needs an engine without workers; build it with Builder::drive(Drive::Manual)")]
    DrivenByWorkers,
    /// Called from a handler, that is from inside a turn.
    #[error("turn() was called from inside a handler; return from the handler and turn again")]
    InsideHandler,
    /// The engine has been stopped.
    #[error("the engine is stopped and has nothing left to turn; build a new one")]
    Stopped,
}

impl<T> ScheduleError<T> {
    pub(crate) const fn new(kind: ScheduleErrorKind, payload: T) -> Self {
        Self { kind, payload: Exclusive::new(payload) }
    }

    /// Why the timer was not accepted.
    #[must_use]
    pub const fn kind(&self) -> &ScheduleErrorKind {
        &self.kind
    }

    /// The payload that was to be scheduled. For one that is not `Sync` see [`payload_mut`](Self::payload_mut).
    #[must_use]
    pub const fn payload(&self) -> &T
    where
        T: Sync,
    {
        self.payload.get()
    }

    /// The payload that was to be scheduled.
    #[must_use]
    pub const fn payload_mut(&mut self) -> &mut T {
        self.payload.get_mut()
    }

    /// Gives the payload back.
    #[must_use]
    pub fn into_payload(self) -> T {
        self.payload.into_inner()
    }

    /// Keeps the reason and drops the payload.
    #[must_use]
    pub fn into_kind(self) -> ScheduleErrorKind {
        self.kind
    }

    /// The reason, and the payload.
    #[must_use]
    pub fn into_parts(self) -> (ScheduleErrorKind, T) {
        (self.kind, self.payload.into_inner())
    }
}

/// Drops the payload, as [`ScheduleError::into_kind`] does: for error types that have no place for it.
impl<T> From<ScheduleError<T>> for ScheduleErrorKind {
    fn from(error: ScheduleError<T>) -> Self {
        error.into_kind()
    }
}

/// Shows the reason only, so that payloads need not be `Debug`.
impl<T> fmt::Debug for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<T> StdError for ScheduleError<T> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.kind.source()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Asserts that the text of `error` holds every part, and a cure.
    pub(crate) fn says(error: impl StdError, parts: &[&str]) {
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(part), "{text:?} does not say {part:?}");
        }
        assert!(text.contains("; ") || text.contains("needs"), "{text:?} names no cure");
    }

    #[test]
    fn other_build_errors_name_the_cure() {
        says(BuildError::EmptyCoreList, &["0 cores", "at least 1", "Pinning::Cores"]);
        says(BuildError::UnknownCore { core: 9, allowed: vec![0, 1] }, &["core 9", "[0, 1]"]);
        let message = "too many open files".to_owned();
        says(BuildError::Poll { shard: 3, message }, &["shard 3", "too many open files", "limit"]);
    }

    #[test]
    fn run_time_errors_name_the_cure() {
        use ScheduleErrorKind as Kind;
        says(Kind::Stopped, &["stopped", "build a new one"]);
        let limit = Kind::TooManyPending { pending: 3, max_pending: 2 };
        says(limit, &["3 timers are pending", "max_pending is 2", "raise"]);
        says(
            Kind::OutOfNodes { shard: 1, limit: 77 },
            &["shard 1", "maximum of 77", "more shards"],
        );
        says(Kind::OutOfMemory, &["out of memory", "try again"]);
        says(StartError::Stopped, &["stopped", "new one"]);
        let spawn = StartError::Spawn { shard: 2, message: "no memory".to_owned() };
        says(spawn, &["shard 2", "no memory", "fewer shards"]);
        says(StopError::InsideHandler, &["inside a handler", "another thread"]);
        says(TurnError::DrivenByWorkers, &["Drive::Manual"]);
        says(TurnError::InsideHandler, &["inside a handler", "return"]);
        says(TurnError::Stopped, &["stopped", "new one"]);
    }

    #[test]
    fn a_schedule_error_gives_back_any_payload_and_shows_the_reason() {
        /// Neither `Debug` nor `Clone`.
        struct Opaque(u32);
        let start = StartError::Spawn { shard: 0, message: "none".to_owned() };
        let error = ScheduleError::new(start.clone().into(), Opaque(7));
        assert_eq!(error.to_string(), start.to_string());
        assert_eq!(*error.kind(), ScheduleErrorKind::Start(start));
        assert!(format!("{error:?}").starts_with("ScheduleError { kind: Start(Spawn"));
        assert_eq!(error.payload().0, 7);
        assert!(error.source().is_none());
        let (kind, mut payload) = error.into_parts();
        payload.0 += 1;
        let mut error = ScheduleError::new(kind.clone(), payload);
        error.payload_mut().0 += 1;
        assert_eq!(error.into_payload().0, 9);
        assert_eq!(ScheduleErrorKind::from(ScheduleError::new(kind.clone(), 1)), kind);
        let boxed: Box<dyn StdError + Send + Sync> =
            Box::new(ScheduleError::new(ScheduleErrorKind::Stopped, 1_u8));
        assert!(boxed.to_string().contains("stopped"));
    }
}
