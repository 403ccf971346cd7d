//! `Timeout`: another future, for so long at most.

use crate::engine::{RuntimeSleep, has_budget, spend_budget};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tickwheel::{Elapsed, When};

pin_project! {
    /// The future of [`timeout`](super::timeout()), [`timeout_at`](super::timeout_at) and
    /// [`FutureExt`](crate::FutureExt).
    ///
    /// The other future is polled first, so one that is ready late but before it is asked has its output all the same.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: RuntimeSleep,
    }
}

impl<F> Timeout<F> {
    #[inline]
    pub(crate) fn new(future: F, limit: When) -> Self {
        Self {
            future,
            sleep: RuntimeSleep::of_timeout(limit),
        }
    }

    /// Returns the other future.
    pub const fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns the other future, to be changed; it may move, because this was not pinned.
    pub const fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the other future, which may move: this was not pinned.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = has_budget();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        ready!(this.sleep.poll(cx));
        // A future that is never ready, and never waits, may have used it up. Its time must end all the same.
        if !had_budget || has_budget() {
            ready!(spend_budget(cx));
        }
        Poll::Ready(Err(Elapsed))
    }
}
