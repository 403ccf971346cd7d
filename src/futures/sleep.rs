//! `Sleep`: a future that is ready at a point in time.

use super::error::SleepError;
use crate::engine::{Timer, WakeTimer, global};
use crate::time::{Period, Time, When};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A future that is ready at a point in time, and never before.
///
/// Made by [`sleep()`], [`sleep_until`] and [`Timer::sleep`]. For any runtime and any thread; `Unpin`, `Send` and
/// `Sync`.
///
/// * The deadline counts from the making. The timer is armed at the first poll: a future that is dropped before that
///   costs none, nor does one whose delay is zero, or whose point in time has passed by then. The clock is read once.
/// * Dropping the future cancels its timer: one compare-and-swap. So does [`reset`](Self::reset), if it must; pushing
///   the deadline out writes two words, and tells the worker nothing.
/// * A poll with the waker of the poll before reads two words. Another waker takes its place in the timer.
/// * Once ready it stays ready, until it is reset.
///
/// The worker of a shard wakes. A waker that panics there counts as a handler's panic.
///
/// ```
/// use std::task::{Context, Waker};
/// use std::time::Duration;
///
/// // A connection that is closed when it has been idle for 30 seconds.
/// let mut idle = tickwheel::sleep(Duration::from_secs(30));
/// let first = idle.deadline();
/// idle.reset(Duration::from_secs(60)); // data came
/// assert!(idle.deadline() > first && !idle.is_elapsed());
///
/// // By hand, where it lies in another future:
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(idle.poll_sleep(&mut cx).is_pending());
/// assert!(tickwheel::sleep(Duration::ZERO).poll_sleep(&mut cx).is_ready());
/// ```
///
/// # Errors
///
/// The output is an error if the timer is not accepted (the engine is full or stopped), or if the engine is stopped
/// meanwhile: then the future is woken at once, although its time has not come. A
/// [`FireAll`](crate::Shutdown::FireAll) makes all sleeps ready. In a forked child, where the engine's workers are not,
/// the next poll is told so; no wake comes for it.
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct Sleep {
    wake_timer: WakeTimer,
    deadline: Time,
    stage: Stage,
}

/// Where a sleep stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No timer yet. `look`: the deadline may have passed before the first poll.
    Unarmed {
        look: bool,
    },
    Armed,
    Elapsed,
}

/// Sleeps for a while on the process's shared engine; see [`Sleep`].
///
/// ```
/// use std::time::Duration;
///
/// # fn block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     let mut future = std::pin::pin!(future);
/// #     struct Thread(std::thread::Thread);
/// #     impl std::task::Wake for Thread { fn wake(self: std::sync::Arc<Self>) { self.0.unpark(); } }
/// #     let waker = std::sync::Arc::new(Thread(std::thread::current())).into();
/// #     loop {
/// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
/// #             std::task::Poll::Ready(output) => return output,
/// #             std::task::Poll::Pending => std::thread::park(),
/// #         }
/// #     }
/// # }
/// # block_on(async {
/// tickwheel::sleep(Duration::from_millis(5)).await?;
/// # Ok::<(), tickwheel::SleepError>(()) }).unwrap();
/// ```
///
/// # Panics
///
/// If the shared engine cannot be built, which its settings never cause.
#[inline]
pub fn sleep(delay: Duration) -> Sleep {
    Sleep::new(shared(), delay.into())
}

/// Sleeps until a point in time on the process's shared engine; see [`Sleep`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwheel::{SleepError, sleep_until};
///
/// async fn twice(pause: Duration) -> Result<(), SleepError> {
///     let start = Instant::now();
///     sleep_until(start + pause).await?;
///     sleep_until(start + 2 * pause).await
/// }
/// # drop(twice(Duration::ZERO));
/// ```
///
/// # Panics
///
/// Like [`sleep()`].
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(shared(), deadline.into())
}

/// The shared engine.
#[inline]
pub(super) fn shared() -> WakeTimer {
    match global() {
        Ok(timer) => WakeTimer::of_static(timer),
        Err(error) => panic!("the shared engine cannot be built: {error}"),
    }
}

impl Timer {
    /// Sleeps for a while, or until a point in time ([`When`]); see [`Sleep`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let sleep = timer.sleep(Duration::from_secs(5));
    /// assert!(sleep.deadline() > timer.now());
    /// # Ok(()) }
    /// ```
    pub fn sleep(&self, when: impl Into<When>) -> Sleep {
        Sleep::new(WakeTimer::of(self), when.into())
    }
}

impl Sleep {
    #[inline]
    pub(super) fn new(wake_timer: WakeTimer, when: When) -> Self {
        let deadline = wake_timer.time(when);
        Self { wake_timer, deadline, stage: Stage::new(when) }
    }

    /// Returns when it is ready, on the engine's clock.
    #[must_use]
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Returns whether its time has come, as far as it knows: a sleep that was never polled does not ask.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.stage == Stage::Elapsed || self.wake_timer.has_fired()
    }

    /// Sleeps on, or anew, for a while from now or until a point in time.
    ///
    /// The waker of the latest poll stays where it is, and the future need not be polled for it, unless its time had
    /// come before: then that waker has been woken, and the future wakes again only if it is polled. Pushing the
    /// deadline out costs two words; pulling it in about as much as arming.
    pub fn reset(&mut self, when: impl Into<When>) {
        let when = when.into();
        let (deadline, is_armed) = self.wake_timer.reset(when);
        self.deadline = deadline;
        if !is_armed {
            self.stage = Stage::new(when);
        }
    }

    /// Sleeps until the deadline that follows `nominal`, which is handled now.
    pub(super) fn reset_after(&mut self, period: Period, nominal: Time) {
        self.reset(self.wake_timer.next(period, nominal));
    }

    /// Returns the time by the engine's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.wake_timer.now()
    }

    /// Returns the point on the engine's clock that `when` names now, before it is rounded to a tick.
    #[must_use]
    pub fn time_of(&self, when: impl Into<When>) -> Time {
        self.wake_timer.time(when.into())
    }

    /// Cancels the timer, if one is armed: no task is woken before the next poll, which arms it anew.
    pub fn cancel(&mut self) {
        self.wake_timer.disarm();
        self.stage = Stage::Unarmed { look: true };
    }

    /// Like [`poll`](Future::poll), for a sleep inside another future.
    #[inline]
    pub fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        match self.stage {
            Stage::Elapsed => return Poll::Ready(Ok(())),
            Stage::Armed => {}
            Stage::Unarmed { look } => return self.poll_first(look, cx),
        }
        let ended = match self.wake_timer.poll(cx.waker()) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(ended) => ended,
        };
        self.stage = if ended.is_ok() { Stage::Elapsed } else { Stage::Unarmed { look: true } };
        Poll::Ready(ended.map_err(SleepError::from))
    }

    fn poll_first(&mut self, look: bool, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        if look && self.deadline.has_passed(self.wake_timer.now()) {
            self.stage = Stage::Elapsed;
            return Poll::Ready(Ok(()));
        }
        if let Err(kind) = self.wake_timer.arm(self.deadline, cx.waker()) {
            return Poll::Ready(Err(SleepError::from(kind)));
        }
        self.stage = Stage::Armed;
        Poll::Pending
    }
}

impl Stage {
    #[inline]
    fn new(when: When) -> Self {
        if when.is_now() { Self::Elapsed } else { Self::Unarmed { look: when.is_point() } }
    }
}

impl Future for Sleep {
    type Output = Result<(), SleepError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_sleep(cx)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn is<S: Send + Sync + Unpin>() {}
    is::<Sleep>();
};
