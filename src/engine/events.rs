//! The engine's messages to an operator: log records, or events of `tracing` with that feature.
//!
//! Nothing here is on the way of a timer that is accepted and whose handler is quick and returns. Loggers and
//! subscribers are the user's code, so each call is contained.

use super::hooks::{PanicReport, SlowHandler, WorkerFailure};
use crate::contain;
use crate::types::ScheduleErrorKind;

/// Emits an event of `tracing`, or does what comes without it.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident ($($event:tt)*) or $without:expr) => {
        contain::log_guarded(|| tracing::$level!(target: "tickwheel", $($event)*))
    };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($level:ident ($($event:tt)*) or $without:expr) => {
        $without
    };
}

/// Tells that a handler has panicked.
#[cold]
pub(super) fn handler_panicked(report: &PanicReport) {
    event!(error(shard = report.shard, timer = %report.key, panic = %report.message, "a handler panicked")
        or contain::error(format_args!("{report}")));
}

/// Tells that a worker has ended before its time.
#[cold]
pub(super) fn worker_failed(failure: &WorkerFailure) {
    event!(error(shard = failure.shard, panic = %failure.message, "a worker panicked and has ended")
        or contain::error(format_args!("{failure}")));
}

/// Tells that a handler took longer than the threshold. Without `tracing` the hook alone is told: it is set on purpose.
#[cold]
pub(super) fn handler_was_slow(slow: &SlowHandler) {
    event!(warn(shard = slow.shard, timer = %slow.key, took = ?slow.took, "a handler held its shard up")
        or _ = slow);
}

/// Tells that a turn used its budget up and left due timers behind.
#[inline]
pub(super) fn turn_was_cut_short(shard: usize, fired: usize) {
    event!(debug(shard, fired, "a turn used its budget up") or _ = (shard, fired));
}

/// Tells that a timer was refused, by a shard or before one was chosen; the caller is told as well.
#[inline]
pub(super) fn timer_was_refused(shard: Option<usize>, kind: &ScheduleErrorKind) {
    event!(debug(shard, reason = %kind, "a timer was refused") or _ = (shard, kind));
}

/// Tells that an executor gave an expired timer back.
#[inline]
pub(super) fn executor_refused(shard: usize) {
    event!(debug(shard, "the executor gave an expired timer back") or _ = shard);
}
