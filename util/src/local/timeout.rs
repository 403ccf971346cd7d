//! `LocalTimeout`: another future of the thread, for so long at most.

use super::LocalSleep;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tickwheel::{TimeoutError, When};

pin_project! {
    /// Another future, for so long at most, by the timer of its thread; see [`tickwheel::Timeout`], which it behaves
    /// like.
    ///
    /// Made by [`timeout`](super::LocalSleeps::timeout) and [`timeout_on`](crate::FutureExt::timeout_on). The
    /// other future is polled first, so one that is ready at once costs no timer. When the time is over it stops being polled,
    /// until a [`reset`](Self::reset).
    ///
    /// ```
    /// use std::future::pending;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// use std::time::Duration;
    /// use tickwheel::{Settings, TimeoutError};
    /// use tickwheel_util::local::LocalSleeps;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sleeps = LocalSleeps::new(Settings::new())?;
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut answer = pin!(sleeps.timeout(Duration::ZERO, pending::<u32>()));
    /// assert_eq!(answer.as_mut().poll(&mut cx), Poll::Ready(Err(TimeoutError::Elapsed)));
    /// answer.as_mut().reset(Duration::from_secs(5)); // the peer asked for more time
    /// assert!(answer.as_mut().poll(&mut cx).is_pending());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The output is [`TimeoutError::Elapsed`](TimeoutError) if the future was not ready in time, and [`TimeoutError::Sleep`](TimeoutError) if
    /// `max_pending` timers are armed; after that the next poll tries again.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct LocalTimeout<F> {
        #[pin]
        future: F,
        sleep: LocalSleep,
        // It has said `Elapsed`.
        is_over: bool,
    }
}

impl<F> LocalTimeout<F> {
    /// Gives `future` as long as `sleep` takes.
    pub(super) const fn new(future: F, sleep: LocalSleep) -> Self {
        Self {
            future,
            sleep,
            is_over: false,
        }
    }

    /// Returns the other future.
    pub const fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns the other future, which may move: this was not pinned.
    pub fn into_inner(self) -> F {
        self.future
    }

    /// Gives the future another limit, from now on; see [`LocalSleep::reset`].
    pub fn reset(self: Pin<&mut Self>, when: impl Into<When>) {
        let this = self.project();
        this.sleep.reset(when);
        *this.is_over = false;
    }
}

impl<F: Future> Future for LocalTimeout<F> {
    type Output = Result<F::Output, TimeoutError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if !*this.is_over {
            if let Poll::Ready(output) = this.future.poll(cx) {
                return Poll::Ready(Ok(output));
            }
            ready!(this.sleep.poll_sleep(cx))?;
            *this.is_over = true;
        }
        Poll::Ready(Err(TimeoutError::Elapsed))
    }
}
