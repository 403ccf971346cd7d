//! `WithTimeout`: another future, for so long at most.

use super::error::TimeoutError;
use super::sleep::{Sleep, sleep, sleep_until};
use crate::engine::Timer;
use crate::time::When;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Another future, for so long at most: its output, or [`TimeoutError::Elapsed`].
///
/// Made by [`timeout()`], [`timeout_at`] and [`Timer::timeout`]. The other future is polled first, so one that is ready
/// at once costs no timer, and one that is ready late but before it is asked has its output all the same. When the
/// time is over the other future stops being polled; it is dropped with this one.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct WithTimeout<F> {
    /// Never moves once this has been pinned.
    future: F,
    sleep: Sleep,
}

/// Gives a future so long to get ready, on the process's shared engine; see [`WithTimeout`].
///
/// # Panics
///
/// As [`sleep()`].
pub fn timeout<F: IntoFuture>(limit: Duration, future: F) -> WithTimeout<F::IntoFuture> {
    WithTimeout { future: future.into_future(), sleep: sleep(limit) }
}

/// Gives a future until a point in time, on the process's shared engine; see [`WithTimeout`].
///
/// # Panics
///
/// As [`sleep()`].
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> WithTimeout<F::IntoFuture> {
    WithTimeout { future: future.into_future(), sleep: sleep_until(deadline) }
}

impl Timer {
    /// Gives a future so long, or until a point in time ([`When`]), to get ready; see [`WithTimeout`].
    pub fn timeout<F: IntoFuture>(
        &self,
        when: impl Into<When>,
        future: F,
    ) -> WithTimeout<F::IntoFuture> {
        WithTimeout { future: future.into_future(), sleep: self.sleep(when) }
    }
}

impl<F> WithTimeout<F> {
    /// The other future.
    pub const fn get_ref(&self) -> &F {
        &self.future
    }

    /// The other future, which may move: this was not pinned.
    pub fn into_inner(self) -> F {
        self.future
    }

    /// Gives the future another limit, from now on; see [`Sleep::reset`].
    pub fn reset(self: Pin<&mut Self>, when: impl Into<When>) {
        self.project().1.reset(when);
    }

    fn project(self: Pin<&mut Self>) -> (Pin<&mut F>, &mut Sleep) {
        // SAFETY: `future` is pinned as this is: nothing moves it out of a pinned `WithTimeout`, which has no `Drop`
        // of its own and is `Unpin` only if `F` is. `sleep` is `Unpin`.
        unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &mut this.sleep)
        }
    }
}

impl<F: Future> Future for WithTimeout<F> {
    type Output = Result<F::Output, TimeoutError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (future, sleep) = self.project();
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        match sleep.poll_sleep(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(Err(TimeoutError::Elapsed)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
        }
    }
}
