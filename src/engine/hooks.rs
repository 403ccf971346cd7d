//! Hooks: functions of the user that an engine calls.

use crate::contain::{self, Contained};
use crate::types::RawKey;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Called with every report of one kind.
type Hook<R> = Contained<Arc<dyn Fn(&R) + Send + Sync>>;

pub(super) fn a_hook<R>(hook: Arc<dyn Fn(&R) + Send + Sync>) -> Hook<R> {
    Contained::new("a hook", hook)
}

/// Calls a hook, if there is one.
#[cold]
pub(super) fn tell<R>(what: &str, hook: Option<&Hook<R>>, report: &R) {
    if let Some(hook) = hook.and_then(Contained::get) {
        contain::catch_and_log(what, || hook(report));
    }
}

/// The hooks of one engine.
#[derive(Clone, Default, Debug)]
pub(super) struct Hooks {
    pub(super) panic: Option<Hook<PanicReport>>,
    pub(super) failure: Option<Hook<WorkerFailure>>,
    /// Called on a worker's thread with the shard's number, before its first turn and after its last.
    pub(super) worker_start: Option<Hook<usize>>,
    pub(super) worker_stop: Option<Hook<usize>>,
    /// How long a call has to take to be slow, and the hook for it.
    pub(super) slow: Option<(Duration, Hook<SlowHandler>)>,
}

/// A panic in a handler, as told to [`Builder::on_panic`](crate::Builder::on_panic).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, PanicReport};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (tell, told) = std::sync::mpsc::channel();
/// let hook = move |report: &PanicReport| tell.send(report.clone()).unwrap();
/// let timer = Builder::new().shards(1).on_panic(hook).build()?;
/// let key = timer.run_after(Duration::ZERO, || panic!("no luck"))?;
/// let report = told.recv()?;
/// assert_eq!((report.shard, report.key, &*report.message), (0, key.to_raw(), "no luck"));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PanicReport {
    /// The shard whose worker ran the handler.
    pub shard: usize,
    /// The timer that was being handled.
    pub key: RawKey,
    /// The panic's message, if it had one.
    pub message: String,
}

impl fmt::Display for PanicReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shard,
            key,
            message,
        } = self;
        write!(
            f,
            "a handler on shard {shard} panicked while it ran timer {key}: {message}"
        )
    }
}

/// A worker that has ended before its time, as told to
/// [`Builder::on_worker_failure`](crate::Builder::on_worker_failure).
///
/// No panic of a handler, a destructor, a clone, a logger or a hook does that; a clock that panics does, and so would a
/// bug of this library. The shard is closed: it refuses timers, and `stop` returns those it had.
///
/// ```
/// use tickwheel::{Builder, WorkerFailure};
///
/// // There is nothing to mend: end the process, and let its supervisor start another one.
/// let builder = Builder::new().on_worker_failure(|failure: &WorkerFailure| {
///     eprintln!("shard {}: {}", failure.shard, failure.message);
///     std::process::abort();
/// });
/// # drop(builder);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WorkerFailure {
    /// The shard that the worker drove.
    pub shard: usize,
    /// The message of the panic that ended it.
    pub message: Arc<str>,
}

impl fmt::Display for WorkerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, message } = self;
        write!(
            f,
            "the worker of shard {shard} panicked and has ended: {message}"
        )
    }
}

/// A handler call that took long, as told to [`Builder::on_slow_handler`](crate::Builder::on_slow_handler).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, SlowHandler};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (tell, told) = std::sync::mpsc::channel();
/// let hook = move |slow: &SlowHandler| tell.send(*slow).unwrap();
/// let timer = Builder::new().on_slow_handler(Duration::from_millis(2), hook).build()?;
/// timer.run_after(Duration::ZERO, || std::thread::sleep(Duration::from_millis(2)))?;
/// let slow = told.recv()?;
/// println!("{slow}");
/// assert!(slow.took >= Duration::from_millis(2));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SlowHandler {
    /// The shard whose worker ran the handler, and could do nothing else meanwhile.
    pub shard: usize,
    /// The timer that was being handled.
    pub key: RawKey,
    /// How long it took, by the engine's clock.
    pub took: Duration,
}

impl fmt::Display for SlowHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, key, took } = self;
        write!(
            f,
            "a handler held shard {shard} up for {took:?} while it ran timer {key}"
        )
    }
}
