//! Why a future ends before its time.

use crate::types::ScheduleErrorKind;
use std::error::Error;
use std::io;

/// Why a [`Sleep`](crate::Sleep) or an [`Interval`](crate::Interval) cannot go on: its timer was not accepted, or its
/// engine has been stopped.
///
/// The future may be polled again; it tries again then. As an [`io::Error`] its kind is `Other`.
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

error_texts! { SleepError, source = Self::behind;
    Self { kind } => "the sleep ended before its time: {kind}",
}

impl SleepError {
    /// Returns why.
    #[must_use]
    pub const fn kind(&self) -> &ScheduleErrorKind {
        &self.kind
    }

    /// Returns the operating system's error, if it is one.
    fn behind(&self) -> Option<&(dyn Error + 'static)> {
        self.kind.source()
    }

    /// Ends the poll of a future that has no error to return.
    #[cold]
    pub(super) fn raise(self) -> ! {
        panic!(
            "the shared engine has no timer for a future: {self}; a `Timer` returns this as an error"
        )
    }
}

impl From<ScheduleErrorKind> for SleepError {
    fn from(kind: ScheduleErrorKind) -> Self {
        Self { kind }
    }
}

/// Tells that a future was not ready in time: the error of [`timeout()`](crate::timeout).
///
/// As an [`io::Error`] its kind is `TimedOut`.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tickwheel::timeout;
///
/// async fn line(read: impl Future<Output = io::Result<String>>) -> io::Result<String> {
///     timeout(Duration::from_secs(5), read).await?
/// }
/// # drop(line(async { Ok(String::new()) }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

error_texts! { Elapsed
    Self => "the future was not ready in time",
}

/// Why a [`Timeout`](crate::Timeout) of [`Timer::timeout`](crate::Timer::timeout) has no result.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{TimeoutError, Timer};
///
/// async fn ask(
///     timer: &Timer,
///     question: impl Future<Output = u32>,
/// ) -> Result<u32, TimeoutError> {
///     match timer.timeout(Duration::from_secs(5), question).await {
///         Err(TimeoutError::Elapsed) => Ok(0), // a default
///         answer => answer,
///     }
/// }
/// # drop(ask(&Timer::new().unwrap(), async { 17 }));
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
    Self::Elapsed => "{Elapsed}",
    Self::Sleep(source) => "{source}",
}

impl TimeoutError {
    /// Returns the one reason that a timeout of the shared engine has.
    pub(super) fn elapsed(self) -> Elapsed {
        match self {
            Self::Elapsed => Elapsed,
            Self::Sleep(error) => error.raise(),
        }
    }
}

impl From<SleepError> for TimeoutError {
    fn from(error: SleepError) -> Self {
        Self::Sleep(error)
    }
}

impl From<SleepError> for io::Error {
    fn from(error: SleepError) -> Self {
        Self::other(error)
    }
}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}

impl From<TimeoutError> for io::Error {
    fn from(error: TimeoutError) -> Self {
        let kind = match error {
            TimeoutError::Elapsed => io::ErrorKind::TimedOut,
            TimeoutError::Sleep(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
