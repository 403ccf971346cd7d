//! What an engine tells an operator as it happens: log records, or events of `tracing` with that feature.
//!
//! Nothing here is on the way of a timer that is accepted and whose handler is quick and returns. Loggers and
//! subscribers are the user's code, so each call is contained.

use super::hooks::{PanicReport, SlowHandler, WorkerFailure};
use crate::contain;
use crate::types::ScheduleErrorKind;

/// Emits an event of `tracing`.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $($rest:tt)*) => {
        contain::say(|| tracing::$level!(target: "tickwheel", $($rest)*))
    };
}

/// A handler has panicked.
#[cold]
pub(super) fn handler_panicked(report: &PanicReport) {
    #[cfg(feature = "tracing")]
    event!(error, shard = report.shard, timer = %report.key, panic = %report.message, "a handler panicked");
    #[cfg(not(feature = "tracing"))]
    contain::error(format_args!("{report}"));
}

/// A worker has ended before its time.
#[cold]
pub(super) fn worker_failed(failure: &WorkerFailure) {
    #[cfg(feature = "tracing")]
    event!(error, shard = failure.shard, panic = %failure.message, "a worker panicked and has ended");
    #[cfg(not(feature = "tracing"))]
    contain::error(format_args!("{failure}"));
}

/// A handler has taken longer than the threshold. Without `tracing` the hook alone is told: it is set on purpose.
#[cold]
pub(super) fn handler_was_slow(slow: &SlowHandler) {
    #[cfg(feature = "tracing")]
    event!(warn, shard = slow.shard, timer = %slow.key, took = ?slow.took, "a handler held its shard up");
    #[cfg(not(feature = "tracing"))]
    let _ = slow;
}

/// A turn has used its budget up and left due timers behind.
#[inline]
pub(super) fn turn_was_cut_short(shard: usize, fired: usize) {
    #[cfg(feature = "tracing")]
    event!(debug, shard, fired, "a turn used its budget up");
    #[cfg(not(feature = "tracing"))]
    let _ = (shard, fired);
}

/// A timer has been refused; the caller is told as well.
#[inline]
pub(super) fn timer_was_refused(shard: usize, kind: &ScheduleErrorKind) {
    #[cfg(feature = "tracing")]
    event!(debug, shard, reason = %kind, "a timer was refused");
    #[cfg(not(feature = "tracing"))]
    let _ = (shard, kind);
}

/// An executor has given an expired timer back.
#[inline]
pub(super) fn executor_refused(shard: usize) {
    #[cfg(feature = "tracing")]
    event!(debug, shard, "the executor gave an expired timer back");
    #[cfg(not(feature = "tracing"))]
    let _ = shard;
}
