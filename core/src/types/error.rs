//! Why an engine is not built, and why a timer is not accepted.
//!
//! Each text names the offending number, the range that is allowed, and the cure. Errors are plain
//! data: `Send + Sync`, comparable, and free of borrowed state. [`ScheduleError`] carries the
//! payload back to the caller.

use alloc::string::String;
#[cfg(feature = "std")]
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::error::Error as StdError;
use core::fmt;
use core::time::Duration;

#[cfg(feature = "std")]
use super::SystemError;
use super::engine_error::StartError;
use super::key::Key;
use crate::sync::exclusive::Exclusive;

/// The most shards: more than any machine has cores for, and far inside the 16 bits of a key.
pub const MAX_SHARDS: usize = 1024;

/// Why an engine could not be built. Nothing was started and nothing is left behind.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{BuildError, LocalTimer};
///
/// let error = LocalTimer::<u64>::new(Duration::ZERO).unwrap_err();
/// assert_eq!(error, BuildError::TickOutOfRange { tick: Duration::ZERO });
/// assert!(error.to_string().contains("choose 1us to 1h"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The tick is not within 1 us and 1 h.
    TickOutOfRange {
        /// The tick asked for.
        tick: Duration,
    },
    /// The number of shards is not within 1 and 1024.
    ShardsOutOfRange {
        /// The number asked for.
        shards: usize,
    },
    /// `max_pending` is zero, so that nothing could ever be scheduled.
    ZeroMaxPending,
    /// A part of the budget is zero, so that a turn could not get on.
    ZeroBudget {
        /// The part's name: `fire`, `drain` or `sweep`.
        which: &'static str,
    },
    /// A setting that the timer does not have.
    NoSuchSetting {
        /// The setting's name: `tick` or `clock`.
        setting: &'static str,
        /// The timer's type.
        timer: &'static str,
    },
    /// `Pinning::List` without entries.
    EmptyCoreList,
    /// `Pinning::List` names a core that this process may not use.
    UnknownCore {
        /// The core asked for.
        core: usize,
        /// The cores that the process may use.
        allowed: Vec<usize>,
    },
    /// A thread name that the operating system cannot take.
    BadThreadName {
        /// The name asked for.
        name: String,
        /// Where the first NUL is, in bytes.
        at: usize,
    },
    /// `mio` registered no waker on the poll of an event loop.
    #[cfg(feature = "std")]
    Waker {
        /// The reason of `mio` or of the operating system.
        source: SystemError,
    },
    /// The process has its shared engine already.
    GlobalExists,
}

impl BuildError {
    /// Returns the operating system's error, if it is one.
    #[cfg_attr(
        not(feature = "std"),
        allow(clippy::unused_self, reason = "without std there is none")
    )]
    fn behind(&self) -> Option<&(dyn StdError + 'static)> {
        #[cfg(feature = "std")]
        if let Self::Waker { source } = self {
            return Some(&**source);
        }
        None
    }
}

error_texts! { BuildError, source = Self::behind;
    Self::TickOutOfRange { tick } =>
        "tick is {tick:?}; choose 1us to 1h, e.g. Duration::from_millis(1)",
    Self::ShardsOutOfRange { shards } =>
        "shards is {shards}; choose 1 to {MAX_SHARDS}, or leave Builder::shards out for one per available core",
    Self::ZeroMaxPending =>
        "max_pending is 0; choose at least 1, or leave max_pending out for no limit",
    Self::ZeroBudget { which } => "budget.{which} is 0; choose at least 1, or leave the budget out",
    Self::NoSuchSetting { setting, timer } =>
        "a {timer} has no {setting}; leave Settings::{setting} out: timers of one thread are told \
         the time",
    Self::EmptyCoreList =>
        "the pinning list names 0 cores; name at least 1, or use Pinning::Cores or Pinning::Off",
    Self::UnknownCore { core, allowed } =>
        "the pinning list names core {core}, but this process may use only {allowed:?}; choose \
         from these, widen the affinity mask, or use Pinning::Cores",
    Self::BadThreadName { name, at } =>
        "the thread name {name:?} holds a NUL at byte {at}; remove it from Builder::thread_name",
    #[cfg(feature = "std")]
    Self::Waker { source } =>
        "the poll took no waker: {source}; one poll takes one waker in its life, so share the \
         one it has through EventLoopTimer::with_mio_waker",
    Self::GlobalExists =>
        "the process's shared engine exists already; call Builder::build_global before anything \
         calls tickwheel::global",
}

/// Why a timer was not accepted, together with its payload.
///
/// The timer was not counted and will never fire.
///
/// The error is always `Sync`, and `Send` if the payload is, so that `?` works in functions that
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
///
/// The payload can be looked at, changed, taken back, or left:
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{ScheduleErrorKind, Time, Settings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = Duration::from_secs(1);
/// let mut timer = Settings::new().max_pending(1).build_local()?;
/// timer.schedule(Time::ZERO, second, String::from("first"))?;
///
/// let mut error = timer.schedule(Time::ZERO, second, String::from("second")).unwrap_err();
/// assert!(matches!(error.kind(), ScheduleErrorKind::TooManyPending { max_pending: 1, .. }));
/// error.payload_mut().push_str(", once more");
/// assert_eq!(error.payload(), "second, once more");
/// let again = timer.schedule(Time::ZERO, second, error.into_payload());
/// println!("{}", again.unwrap_err().into_kind()); // without the payload
/// # Ok(()) }
/// ```
pub struct ScheduleError<T> {
    kind: ScheduleErrorKind,
    payload: Exclusive<T>,
}

/// The reasons for refusing a timer.
///
/// ```
/// use tickwheel::ScheduleErrorKind;
///
/// /// Whether to try again later, or not with this engine.
/// fn may_pass(kind: &ScheduleErrorKind) -> bool {
///     matches!(
///         kind,
///         ScheduleErrorKind::TooManyPending { .. } | ScheduleErrorKind::OutOfMemory
///     )
/// }
/// assert!(!may_pass(&ScheduleErrorKind::Stopped));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleErrorKind {
    /// The engine has been stopped, or the loop's timer is gone.
    Stopped,
    /// The shard has ended by a panic, or because it was let go of by its driver and there was no thread for it; see
    /// `WorkerFailure`.
    #[cfg(feature = "std")]
    WorkerFailed {
        /// The shard that would have taken the timer.
        shard: usize,
        /// The message of the panic, or what the system said.
        message: Arc<str>,
    },
    /// As many timers are pending as the builder's `max_pending` allows.
    TooManyPending {
        /// How many were pending.
        pending: usize,
        /// The limit.
        max_pending: usize,
    },
    /// The shard's node table is full.
    OutOfNodes {
        /// The shard that is full.
        shard: usize,
        /// The most timers that one shard can hold.
        limit: u64,
    },
    /// There was no memory for the timer, or for the message that hands it to its shard; nothing was armed.
    OutOfMemory,
    /// The engine had not been started yet, and starting it failed.
    Start(StartError),
}

impl ScheduleErrorKind {
    /// Returns the operating system's error, if it is one.
    fn behind(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Start(error) => error.behind(),
            _ => None,
        }
    }
}

error_texts! { ScheduleErrorKind, source = Self::behind;
    Self::Stopped =>
        "the engine is stopped, or the loop's timer gone, and takes no more timers; build a new \
         one",
    #[cfg(feature = "std")]
    Self::WorkerFailed { shard, message } =>
        "the worker of shard {shard} has ended and its shard takes no more timers: {message}; \
         stop the engine, which returns what it had, and build a new one",
    Self::TooManyPending { pending, max_pending } =>
        "{pending} timers are pending and max_pending is {max_pending}; cancel some, wait for \
         some to fire, or raise the builder's max_pending",
    Self::OutOfNodes { shard, limit } =>
        "shard {shard} holds its maximum of {limit} timers; cancel some, or spread them over more \
         shards or timers",
    Self::OutOfMemory => "out of memory; free some, or set fewer timers at a time, and try again",
    Self::Start(source) => "{source}",
}

/// The answer to a schedule: the timer's name, or another one that the library has for it.
pub type Scheduled<T, N = Key<T>> = Result<N, ScheduleError<T>>;

impl<T> ScheduleError<T> {
    #[doc(hidden)]
    pub const fn new(kind: ScheduleErrorKind, payload: T) -> Self {
        Self {
            kind,
            payload: Exclusive::new(payload),
        }
    }

    /// Creates the error of a timer for which there is no memory.
    #[cold]
    #[doc(hidden)]
    pub const fn no_memory(payload: T) -> Self {
        Self::new(ScheduleErrorKind::OutOfMemory, payload)
    }

    /// Returns why the timer was not accepted.
    #[must_use]
    pub const fn kind(&self) -> &ScheduleErrorKind {
        &self.kind
    }

    /// Returns the payload that was to be scheduled. For one that is not `Sync` see [`payload_mut`](Self::payload_mut).
    #[must_use]
    pub const fn payload(&self) -> &T
    where
        T: Sync,
    {
        self.payload.get()
    }

    /// Returns the payload that was to be scheduled.
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

    /// Returns the reason, and the payload.
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

// Shows the reason only, so that payloads need not be `Debug`.
debug_fields!([T] ScheduleError<T>, "ScheduleError", it, kind: it.kind);

impl<T> fmt::Display for ScheduleError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<T> StdError for ScheduleError<T> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.kind.behind()
    }
}

#[cfg(test)]
pub(crate) mod tests;
