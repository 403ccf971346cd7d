//! What a user wants to be told while an engine runs.

use crate::contain;
use crate::types::RawKey;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Called with every panic of a handler.
pub(super) type PanicHook = Arc<dyn Fn(&PanicReport) + Send + Sync>;

/// Called with every worker that ends before its time.
pub(super) type FailureHook = Arc<dyn Fn(&WorkerFailure) + Send + Sync>;

/// Called with every handler call that has taken long.
pub(super) type SlowHook = Arc<dyn Fn(&SlowHandler) + Send + Sync>;

/// The hooks of one engine.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    pub(super) panic: Option<PanicHook>,
    pub(super) failure: Option<FailureHook>,
    pub(super) slow: Option<Watch>,
}

/// Which handler calls are slow, and who wants to know.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) threshold: Duration,
    pub(super) hook: SlowHook,
}

/// A panic in a handler, as told to [`Builder::on_panic`](crate::Builder::on_panic).
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
        let Self { shard, key, message } = self;
        write!(f, "a handler on shard {shard} panicked while it ran timer {key}: {message}")
    }
}

/// A worker that has ended before its time, as told to
/// [`Builder::on_worker_failure`](crate::Builder::on_worker_failure).
///
/// No panic of a handler, a destructor, a clone, a logger or a hook does that; a clock that does nothing but panic
/// does, and so would a bug of this library. The shard is closed: it refuses timers, and `stop` returns those it had.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WorkerFailure {
    /// The shard that the worker drove.
    pub shard: usize,
    /// The message of the panic that ended it.
    pub message: String,
}

impl fmt::Display for WorkerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, message } = self;
        write!(f, "the worker of shard {shard} panicked and has ended: {message}")
    }
}

/// A handler call that took long, as told to [`Builder::on_slow_handler`](crate::Builder::on_slow_handler).
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
        write!(f, "a handler held shard {shard} up for {took:?} while it ran timer {key}")
    }
}

impl Watch {
    /// A handler call was slow.
    #[cold]
    pub(super) fn tell(&self, slow: &SlowHandler) {
        if let Err(message) = contain::call(|| (self.hook)(slow)) {
            contain::error(format_args!("the hook for slow handlers panicked: {message}"));
        }
    }
}
