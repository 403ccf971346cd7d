//! `Sleep`: a future that is ready at a point in time.

use super::error::SleepError;
use crate::engine::{Stage, Timer, WakeTimer, global, global_is_built};
use crate::time::{Time, When};
use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// A future that is ready at a point in time, and never before.
///
/// Made by [`sleep()`], [`sleep_until`] and [`Timer::sleep`]. For any runtime and any thread; `Unpin`, `Send` and
/// `Sync`.
///
/// * The deadline counts from the making. The timer is armed at the first poll: a future that is dropped before that
///   costs none, nor does one whose delay is zero, or whose point in time has passed by then.
/// * Dropping the future cancels its timer: one compare-and-swap. So does [`reset`](Self::reset), if it must; pushing
///   the deadline out writes two words, and tells the worker nothing.
/// * A poll with the waker of the poll before reads two words. Another waker takes its place in the timer.
/// * Once ready it stays ready, until it is reset.
///
/// The free functions use the process's shared engine: its ticks have 1 ms, and its first timer starts worker threads, up
/// to four; a [`Timer`]'s sleep has the ticks and workers of that timer. A waker that panics there counts as a handler's panic.
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
/// The sleep of a [`Timer`] is a `Sleep<SleepError>`, whose output is a `Result`. It is an error if the timer is not
/// accepted (the engine is full or stopped), or if the engine is stopped meanwhile: then the future is woken at once,
/// although its time has not come. [`cancel_all`](Timer::cancel_all) ends it with the same error; the next poll arms it
/// anew. A [`FireAll`](crate::Shutdown::FireAll) makes all sleeps ready. In a forked child, where the engine's workers
/// are not, the next poll is told so; no wake comes for it.
///
/// # Panics
///
/// The sleep of a free function has no error to return, so it panics where the shared engine refuses its timer: in a
/// forked child, without memory, after `global()?.stop()` or `cancel_all()`, beyond the engine's limit, or without a
/// worker. A worker is missing if the system gives no thread, or if it has failed. [`poll_sleep`](Self::poll_sleep)
/// returns the error, and `into()` makes it a `Sleep<SleepError>`.
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct Sleep<E = Infallible> {
    wake_timer: WakeTimer,
    deadline: Time,
    failure: PhantomData<fn() -> E>,
}

/// Sleeps for a while, or until a point in time ([`When`]), on the process's shared engine; see [`Sleep`].
///
/// It ends at most a tick after its time, if its worker has nothing else to do. One that may end later can share its
/// wake-up with others: [`When::with_slack`]. The shared engine's ticks have 1 ms, and its first timer starts its
/// worker threads, up to four, unless the program has built it otherwise.
///
/// A sleep of zero is ready at its first poll. So a loop that only sleeps for zero never waits: it takes a whole core,
/// and all other tasks' time where the executor does not yield by itself. Yield by the executor's own means there.
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
/// tickwheel::sleep(Duration::from_millis(5)).await;
/// # });
/// ```
///
/// # Panics
///
/// If the shared engine cannot be built, which its settings never cause. For the future see [`Sleep`].
#[inline]
pub fn sleep(when: impl Into<When>) -> Sleep {
    let (wake_timer, start) = shared();
    Sleep::new(wake_timer, when.into().counted_from(start))
}

/// Sleeps until a point in time on the process's shared engine; see [`Sleep`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwheel::sleep_until;
///
/// async fn twice(pause: Duration) {
///     let start = Instant::now();
///     sleep_until(start + pause).await;
///     sleep_until(start + 2 * pause).await;
/// }
/// # drop(twice(Duration::ZERO));
/// ```
///
/// # Panics
///
/// Like [`sleep()`].
pub fn sleep_until(deadline: Instant) -> Sleep {
    sleep(deadline)
}

#[cfg(feature = "__test-clock")]
thread_local! {
    /// The engine that this thread uses in place of the shared one.
    static STAND_IN: std::cell::RefCell<Option<Timer>> = const { std::cell::RefCell::new(None) };
}

/// Makes the free functions of the calling thread use `timer`, or the shared engine for `None`; returns the one before.
///
/// For test clocks; the crate `tickwheel-util` has one. Long timeouts have no slack then. At a thread's end, when its
/// thread-locals are gone, it does nothing.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::__internal::replace_shared;
/// use tickwheel::{Builder, Drive, ManualClock, sleep};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Builder::new().clock(ManualClock::new()).drive(Drive::Manual).build()?;
/// assert!(replace_shared(Some(timer.clone())).is_none());
/// assert_eq!(
///     sleep(Duration::from_secs(5)).deadline(),
///     timer.now() + Duration::from_secs(5)
/// );
/// assert!(replace_shared(None).is_some());
/// # Ok(()) }
/// ```
#[cfg(feature = "__test-clock")]
pub fn replace_shared(timer: Option<Timer>) -> Option<Timer> {
    STAND_IN
        .try_with(|stand_in| stand_in.replace(timer))
        .ok()
        .flatten()
}

/// Returns the shared engine. The first call builds it, and returns when it began, from where delays count.
#[inline]
pub(super) fn shared() -> (WakeTimer, Option<Instant>) {
    #[cfg(feature = "__test-clock")]
    if let Ok(Some(wake_timer)) =
        STAND_IN.try_with(|timer| timer.borrow().as_ref().map(WakeTimer::of))
    {
        return (wake_timer, None);
    }
    let start = (!global_is_built()).then(Instant::now);
    match global() {
        Ok(timer) => (WakeTimer::of_static(timer), start),
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
    #[inline]
    pub fn sleep(&self, when: impl Into<When>) -> Sleep<SleepError> {
        Sleep::new(WakeTimer::of(self), when.into())
    }
}

impl<E> Sleep<E> {
    #[inline(always)] // the sleep would go through memory
    pub(super) fn new(mut wake_timer: WakeTimer, when: When) -> Self {
        let deadline = wake_timer.time(when);
        wake_timer.stage = Stage::new(when);
        Self {
            wake_timer,
            deadline,
            failure: PhantomData,
        }
    }

    /// Returns when it is ready, on the engine's clock.
    #[must_use]
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Returns whether its time has come, as far as it knows: a sleep that was never polled does not ask.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.wake_timer.stage == Stage::Elapsed || self.wake_timer.has_fired()
    }

    /// Sleeps on, or anew, for a while from now or until a point in time.
    ///
    /// The waker of the latest poll stays where it is, and the future need not be polled for it. If its time had come
    /// before, that waker has been woken already, and the future wakes again only if it is polled. Pulled in to a point
    /// in time that has passed, or to a delay of zero, it is ready, and wakes at once. Pushing the deadline out costs
    /// two words. So does pulling it in, and a reading of the clock, but once between two looks of the worker at the timer
    /// it costs about as much as arming. While memory is refused that may have no effect.
    pub fn reset(&mut self, when: impl Into<When>) {
        self.deadline = self.wake_timer.reset(when.into(), self.deadline);
    }

    /// Like [`reset`](Self::reset), with the slack of a timeout.
    pub(super) fn reset_timeout(&mut self, when: When) {
        self.reset(self.wake_timer.of_timeout(when));
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
        self.wake_timer.stage = Stage::Unchecked;
    }

    /// Like [`poll`](Future::poll), for a sleep inside another future; returns the error of any engine.
    #[inline]
    pub fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        match self.wake_timer.stage {
            Stage::Elapsed => Poll::Ready(Ok(())),
            Stage::Armed => {
                let ended = ready!(self.wake_timer.poll(cx.waker()));
                self.wake_timer.stage = match ended {
                    Ok(()) => Stage::Elapsed,
                    Err(_) => Stage::Unchecked,
                };
                Poll::Ready(ended.map_err(SleepError::from))
            }
            Stage::Unarmed | Stage::Unchecked => self.poll_first(cx),
        }
    }

    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        if self.wake_timer.is_over(self.deadline) {
            return Poll::Ready(Ok(()));
        }
        self.wake_timer.arm(self.deadline, cx.waker())?;
        self.wake_timer.stage = Stage::Armed;
        Poll::Pending
    }
}

/// Returns a sleep on the machine's clock without an engine: each arming takes the one of its [`poll_on`].
#[cfg(feature = "__internal")]
#[doc(hidden)]
#[inline(always)] // as above
pub fn sleep_anywhere(when: When) -> Sleep<SleepError> {
    Sleep::new(WakeTimer::of_none(), when)
}

/// Returns whether a sleep has an engine, so that it can be polled by itself.
#[cfg(feature = "__internal")]
#[doc(hidden)]
#[inline]
pub fn has_engine(sleep: &Sleep<SleepError>) -> bool {
    sleep.wake_timer.has_engine()
}

/// Polls a sleep that has no engine; if it must wait, it waits on this one. False if that refuses: then it has none.
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub fn poll_on(sleep: &mut Sleep<SleepError>, timer: &Timer, cx: &mut Context<'_>) -> Poll<bool> {
    let (deadline, wake_timer) = (sleep.deadline, &mut sleep.wake_timer);
    if wake_timer.is_over(deadline) {
        return Poll::Ready(true);
    }
    if wake_timer.arm_on(timer, deadline, cx.waker()).is_err() {
        return Poll::Ready(false);
    }
    wake_timer.stage = Stage::Armed;
    Poll::Pending
}

impl From<Sleep> for Sleep<SleepError> {
    fn from(sleep: Sleep) -> Self {
        Self {
            wake_timer: sleep.wake_timer,
            deadline: sleep.deadline,
            failure: PhantomData,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_sleep(cx)
            .map(|ended| ended.unwrap_or_else(|error| error.raise()))
    }
}

impl Future for Sleep<SleepError> {
    type Output = Result<(), SleepError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_sleep(cx)
    }
}

debug_fields!([E] Sleep<E>, "Sleep", it, deadline: it.deadline, is_elapsed: it.is_elapsed());

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<E> core::panic::UnwindSafe for Sleep<E> {}
impl<E> core::panic::RefUnwindSafe for Sleep<E> {}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn sleeps_go_anywhere_and_are_small() {
        const fn is<S: Send + Sync + Unpin>() {}
        const { is::<Sleep>() };
        const { is::<Sleep<SleepError>>() };
        // Less where pointers are shorter.
        assert!(size_of::<Sleep>() <= 48 && size_of::<crate::Interval>() <= 80);
    }
}
