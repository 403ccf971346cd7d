//! `Timeout`: another future, for so long at most.

use super::error::{Elapsed, SleepError, TimeoutError};
use super::sleep::{Sleep, shared};
use crate::engine::Timer;
use crate::time::When;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// Another future, for so long at most: its output, or [`Elapsed`].
///
/// Made by [`timeout()`], [`timeout_at`] and [`Timer::timeout`]. The error of the last is a [`TimeoutError`]: it also
/// says that there was no timer, where the others panic like a [`Sleep`].
///
/// The other future is polled first, so one that is ready at once costs no timer, and one that is ready late but before
/// it is asked has its output all the same. When the time is over the other future stops being polled, until a
/// [`reset`](Self::reset): each poll says `Elapsed` again. It is dropped with this one.
///
/// An engine that is shut down by [`FireAll`](crate::Shutdown::FireAll) says `Elapsed` before the time is over.
///
/// ```
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
/// use tickwheel::{Elapsed, timeout};
///
/// let second = Duration::from_secs(1);
/// let mut answer = pin!(timeout(5 * second, std::future::pending::<u32>()));
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(answer.as_mut().poll(&mut cx).is_pending());
/// answer.as_mut().reset(10 * second); // the peer asked for more time
/// let late = pin!(timeout(Duration::ZERO, std::future::pending::<u32>()));
/// assert_eq!(late.poll(&mut cx), Poll::Ready(Err(Elapsed)));
///
/// // Before it is polled it can be looked at and taken apart.
/// let mut answer = timeout(5 * second, std::future::ready(16));
/// *answer.get_mut() = std::future::ready(17);
/// println!("{:?}", answer.get_ref());
/// assert_eq!(pin!(answer.into_inner()).poll(&mut cx), Poll::Ready(17));
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct Timeout<F, E = Infallible> {
    /// Never moves once this has been pinned.
    future: F,
    sleep: Sleep<E>,
    /// It has said `Elapsed`.
    is_over: bool,
}

/// Gives a future so long, or until a point in time ([`When`]), to get ready, on the process's shared engine; see
/// [`Timeout`].
///
/// A delay of a second or more has a slack of a thousandth of itself, at most 10 ms, so that timeouts share their
/// wake-ups. [`When::exact`] refuses it; points in time have none, nor has [`Timer::timeout`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Elapsed, timeout};
///
/// async fn first_line(read: impl Future<Output = String>) -> Result<String, Elapsed> {
///     timeout(Duration::from_secs(5), read).await
/// }
/// # drop(first_line(async { String::new() }));
/// ```
///
/// # Panics
///
/// Like [`sleep()`](crate::sleep()).
pub fn timeout<F: IntoFuture>(limit: impl Into<When>, future: F) -> Timeout<F::IntoFuture> {
    let (wake_timer, start) = shared();
    let limit = wake_timer.of_timeout(limit.into()).counted_from(start);
    Timeout::new(future.into_future(), Sleep::new(wake_timer, limit))
}

/// Gives a future until a point in time, on the process's shared engine; see [`Timeout`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwheel::{Elapsed, timeout_at};
///
/// /// Both within five seconds.
/// async fn both<A: Future, B: Future>(
///     a: A,
///     b: B,
/// ) -> Result<(A::Output, B::Output), Elapsed> {
///     let deadline = Instant::now() + Duration::from_secs(5);
///     Ok((timeout_at(deadline, a).await?, timeout_at(deadline, b).await?))
/// }
/// # drop(both(async { 1 }, async { 2 }));
/// ```
///
/// # Panics
///
/// Like [`sleep()`](crate::sleep()).
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    timeout(deadline, future)
}

impl Timer {
    /// Gives a future so long, or until a point in time ([`When`]), to get ready; see [`Timeout`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let answer = timer.timeout(Duration::from_secs(5), async { 17 });
    /// # drop(answer);
    /// # Ok(()) }
    /// ```
    pub fn timeout<F: IntoFuture>(
        &self,
        when: impl Into<When>,
        future: F,
    ) -> Timeout<F::IntoFuture, SleepError> {
        Timeout::new(future.into_future(), self.sleep(when))
    }
}

impl<F, E> Timeout<F, E> {
    /// Gives a future until a sleep is over.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Timeout, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let answer = Timeout::new(async { 17 }, timer.sleep(Duration::from_secs(5)));
    /// # drop(answer);
    /// # Ok(()) }
    /// ```
    pub const fn new(future: F, sleep: Sleep<E>) -> Self {
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

    /// Returns the other future, to be changed; it may move, because this was not pinned.
    pub const fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the other future, which may move: this was not pinned.
    pub fn into_inner(self) -> F {
        self.future
    }

    /// Gives the future another limit, from now on; see [`Sleep::reset`].
    pub fn reset(self: Pin<&mut Self>, when: impl Into<When>) {
        let (_, sleep, is_over) = self.project();
        sleep.reset_timeout(when.into());
        *is_over = false;
    }

    fn project(self: Pin<&mut Self>) -> (Pin<&mut F>, &mut Sleep<E>, &mut bool) {
        // SAFETY: `future` is pinned as this is: nothing moves it out of a pinned `Timeout`, which has no `Drop`
        // of its own and is `Unpin` only if `F` is. The other fields are `Unpin`.
        unsafe {
            let this = self.get_unchecked_mut();
            (
                Pin::new_unchecked(&mut this.future),
                &mut this.sleep,
                &mut this.is_over,
            )
        }
    }
}

impl<F: Future, E> Timeout<F, E> {
    #[inline]
    fn poll_limit(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, TimeoutError>> {
        let (future, sleep, is_over) = self.project();
        if !*is_over {
            if let Poll::Ready(output) = future.poll(cx) {
                return Poll::Ready(Ok(output));
            }
            ready!(sleep.poll_sleep(cx))?;
            *is_over = true;
        }
        Poll::Ready(Err(TimeoutError::Elapsed))
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_limit(cx).map_err(TimeoutError::elapsed)
    }
}

impl<F: Future> Future for Timeout<F, SleepError> {
    type Output = Result<F::Output, TimeoutError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_limit(cx)
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::{global, sleep};
    use std::task::Waker;
    use std::time::Duration;

    #[test]
    fn long_timeouts_of_the_shared_engine_end_on_a_grid_and_nothing_else_does() {
        // The grid of a slack of ten milliseconds.
        let on_grid = |sleep: &Sleep| sleep.deadline().as_nanos() % (1 << 23) == 0;
        let (ms, minute) = (Duration::from_millis(1), Duration::from_secs(60));
        let engine = global().unwrap();
        let pending = std::future::pending::<()>;
        let before = engine.now() + minute;
        let mut limit = Box::pin(timeout(minute, pending()));
        assert!(limit.sleep.deadline() >= before && on_grid(&limit.sleep));
        // Two points of the grid, and the time between the two readings of the clock.
        assert!(limit.sleep.deadline() < engine.now() + minute + 17 * ms);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(limit.as_mut().poll(&mut cx).is_pending());
        limit.as_mut().reset(minute + 5 * ms);
        assert!(on_grid(&limit.sleep), "armed");

        // By chance one of 2^23 lies on the grid; three of them never do.
        let never = |make: &dyn Fn() -> Sleep| assert!(![(); 3].iter().all(|()| on_grid(&make())));
        never(&|| sleep(minute));
        never(&|| timeout(When::from(minute).exact(), pending()).sleep);
        never(&|| timeout_at(Instant::now() + minute, pending()).sleep);
        never(&|| timeout(999 * ms, pending()).sleep);
        let own = [(); 3].map(|()| engine.timeout(minute, pending()).sleep.deadline());
        assert!(own.iter().any(|end| end.as_nanos() % (1 << 23) != 0));
    }
}
