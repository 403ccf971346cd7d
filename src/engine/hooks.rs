//! What a user wants to be told while an engine runs.

use super::handler::{PanicReport, WorkerFailure};
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
    /// A handler call has ended: tells the user if it was slow.
    pub(super) fn note(&self, slow: SlowHandler) {
        if slow.took < self.threshold {
            return;
        }
        if let Err(message) = contain::call(|| (self.hook)(&slow)) {
            contain::error(format_args!("the hook for slow handlers panicked: {message}"));
        }
    }
}
