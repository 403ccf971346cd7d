//! Why a future ends before its time.

use crate::types::ScheduleErrorKind;
use core::fmt;

/// Why a [`Sleep`](crate::Sleep) or an [`Interval`](crate::Interval) cannot go on: its timer was not accepted, or its
/// engine has been stopped.
///
/// The future may be polled again; it tries again then.
///
/// ```
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
/// use tickwheel::{ScheduleErrorKind, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let mut sleep = timer.sleep(Duration::from_secs(5));
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(sleep.poll_sleep(&mut cx).is_pending());
/// timer.stop()?; // wakes the task that sleeps
/// let Poll::Ready(Err(error)) = sleep.poll_sleep(&mut cx) else { unreachable!() };
/// assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SleepError {
    kind: ScheduleErrorKind,
}

impl fmt::Display for SleepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind } = self;
        write!(f, "the sleep ended before its time: {kind}")
    }
}

impl core::error::Error for SleepError {}

impl SleepError {
    /// Returns why.
    #[must_use]
    pub const fn kind(&self) -> &ScheduleErrorKind {
        &self.kind
    }
}

impl From<ScheduleErrorKind> for SleepError {
    fn from(kind: ScheduleErrorKind) -> Self {
        Self { kind }
    }
}

/// Why a [`Timeout`](crate::Timeout) has no result.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{TimeoutError, timeout};
///
/// async fn ask(question: impl Future<Output = u32>) -> Result<u32, TimeoutError> {
///     match timeout(Duration::from_secs(5), question).await {
///         Err(error) if error.is_elapsed() => Ok(0), // a default
///         answer => answer,
///     }
/// }
/// # drop(ask(async { 17 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutError {
    /// The future was not ready in time.
    Elapsed,
    /// There was no timer to tell when the time is over.
    Sleep(SleepError),
}

error_texts! { TimeoutError
    Self::Elapsed => "the future was not ready in time",
    Self::Sleep(source) => "{source}",
}

impl From<SleepError> for TimeoutError {
    fn from(error: SleepError) -> Self {
        Self::Sleep(error)
    }
}

impl TimeoutError {
    /// Returns whether the time was over.
    #[must_use]
    pub const fn is_elapsed(&self) -> bool {
        matches!(self, Self::Elapsed)
    }
}
