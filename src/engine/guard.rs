//! `TimeoutGuard`: a handle that cancels when it goes.

use super::timeout::Timeout;
use crate::contain;
use std::fmt;
use std::ops::Deref;

/// A [`Timeout`] that cancels its timer when it is dropped, and drops the payload then. If the payload's destructor
/// panics, that is logged.
///
/// For timers that must not outlive what they watch: a guard in a request's state ends with the request, on every way
/// out of it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// {
///     let _guard = timer.run_after(Duration::from_secs(5), || println!("too slow"))?.cancel_on_drop();
///     // ... what must be done within five seconds ...
/// }
/// assert_eq!(timer.pending(), 0);
///
/// let guard = timer.run_after(Duration::from_secs(5), || println!("too slow"))?.cancel_on_drop();
/// drop(guard.into_timeout()); // a handle, which cancels nothing
/// assert_eq!(timer.pending(), 1);
/// # Ok(()) }
/// ```
#[must_use = "a guard that is dropped at once cancels its timer at once"]
pub struct TimeoutGuard<T> {
    /// Taken only by what consumes the guard.
    timeout: Option<Timeout<T>>,
}

impl<T> Timeout<T> {
    /// A guard that cancels the timer when it goes out of scope.
    pub fn cancel_on_drop(self) -> TimeoutGuard<T> {
        TimeoutGuard { timeout: Some(self) }
    }
}

impl<T> TimeoutGuard<T> {
    /// Gives up the guard and keeps the handle: the timer stays armed.
    pub fn into_timeout(mut self) -> Timeout<T> {
        match self.timeout.take() {
            Some(timeout) => timeout,
            None => unreachable!("only a guard that is consumed has no handle"),
        }
    }
}

impl<T> Deref for TimeoutGuard<T> {
    type Target = Timeout<T>;

    fn deref(&self) -> &Timeout<T> {
        match &self.timeout {
            Some(timeout) => timeout,
            None => unreachable!("only a guard that is consumed has no handle"),
        }
    }
}

impl<T> Drop for TimeoutGuard<T> {
    fn drop(&mut self) {
        if let Some(timeout) = self.timeout.take() {
            // Perhaps because of a panic, on top of which the payload's own would end the process.
            contain::drop_payload(timeout.cancel().payload());
        }
    }
}

impl<T> fmt::Debug for TimeoutGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimeoutGuard").field(&**self).finish()
    }
}
