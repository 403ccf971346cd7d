//! Why a future ends before its time.

use crate::types::ScheduleErrorKind;
use thiserror::Error;

/// Why a [`Sleep`](crate::Sleep) or an [`Interval`](crate::Interval) cannot go on: its timer was not accepted, or its
/// engine has been stopped.
///
/// The future may be polled again; it tries again then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the sleep ended before its time: {kind}")]
pub struct SleepError {
    kind: ScheduleErrorKind,
}

impl SleepError {
    pub(in crate::futures) const fn new(kind: ScheduleErrorKind) -> Self {
        Self { kind }
    }

    /// Why.
    #[must_use]
    pub const fn kind(&self) -> &ScheduleErrorKind {
        &self.kind
    }
}

/// Why a [`WithTimeout`](crate::WithTimeout) has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimeoutError {
    /// The future was not ready in time.
    #[error("the future was not ready in time")]
    Elapsed,
    /// There was no timer to tell when the time is over.
    #[error(transparent)]
    Sleep(#[from] SleepError),
}

impl TimeoutError {
    /// Whether the time was over.
    #[must_use]
    pub const fn is_elapsed(&self) -> bool {
        matches!(self, Self::Elapsed)
    }
}
