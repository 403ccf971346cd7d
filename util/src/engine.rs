//! Whose timers are used.

use crate::time::Instant;
#[cfg(feature = "test-util")]
use crate::time::scale::Scale;
use std::task::{Context, Poll, ready};
use std::time::Duration;
#[cfg(feature = "tokio")]
use tickwheel::__internal::{has_engine, poll_on, sleep_anywhere};
use tickwheel::{SleepError, Time, Timer, When};

/// The engine of a layer or an adapter.
#[cfg(any(feature = "hyper", feature = "quinn", feature = "tower"))]
#[derive(Clone, Debug, Default)]
pub(crate) enum Engine {
    /// That of the runtime that a request runs on, or the process's; see [`sleep`].
    #[default]
    Runtimes,
    Own(Timer),
}

#[cfg(any(feature = "hyper", feature = "quinn", feature = "tower"))]
impl Engine {
    /// Returns a sleep, which is not armed before it is polled.
    pub(crate) fn sleep(&self, when: impl Into<When>) -> EngineSleep {
        match self {
            Self::Runtimes => EngineSleep::here(when.into()),
            Self::Own(timer) => EngineSleep::on(timer, when.into()),
        }
    }

    /// Returns the present of the clock that [`when`](Self::when) counts from.
    #[cfg(any(feature = "hyper", feature = "quinn"))]
    pub(crate) fn now(&self) -> std::time::Instant {
        match self {
            Self::Runtimes => crate::time::Instant::now().into_std(),
            Self::Own(_) => std::time::Instant::now(),
        }
    }

    /// Puts a deadline, which was counted from [`now`](Self::now), on the engine's scale.
    #[cfg(any(feature = "hyper", feature = "quinn"))]
    pub(crate) fn when(&self, deadline: std::time::Instant) -> When {
        match self {
            Self::Runtimes => crate::time::Instant::from(deadline).into(),
            Self::Own(_) => deadline.into(),
        }
    }

    /// Limits how long a future takes.
    #[cfg(feature = "tower")]
    pub(crate) fn timeout<F: Future>(&self, limit: Duration, future: F) -> EngineTimeout<F> {
        let limit = When::from(limit);
        let sleep = match self {
            Self::Runtimes => EngineSleep::here(with_slack(limit)),
            Self::Own(timer) => EngineSleep::on(timer, limit),
        };
        EngineTimeout { future, sleep }
    }
}

#[cfg(feature = "tower")]
pin_project_lite::pin_project! {
    /// A future with a limit of time: `None` when it is over. The future is polled first, so one that is ready late but
    /// before it is asked has its output all the same.
    #[derive(Debug)]
    pub(crate) struct EngineTimeout<F> {
        #[pin]
        future: F,
        sleep: EngineSleep,
    }
}

#[cfg(feature = "tower")]
impl<F: Future> Future for EngineTimeout<F> {
    type Output = Result<Option<F::Output>, SleepError>;

    fn poll(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(Some(output)));
        }
        this.sleep.poll_sleep(cx).map_ok(|()| None)
    }
}

/// Returns whether the calling thread's time may be that of a test.
#[inline]
fn is_virtual() -> bool {
    #[cfg(feature = "test-util")]
    return crate::test::is_virtual();
    #[cfg(not(feature = "test-util"))]
    false
}

/// Gives a long timeout its slack, but in virtual time.
#[inline]
fn with_slack(limit: When) -> When {
    if is_virtual() {
        limit
    } else {
        limit.with_usual_slack()
    }
}

/// Polls what may be ready at once, unless the task has done so very often: then it yields.
///
/// By the budget that a runtime of tokio gives to its tasks. Elsewhere nothing yields.
pub(crate) fn cooperate<T>(
    cx: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    #[cfg(feature = "tokio")]
    let budget = ready!(tokio::task::coop::poll_proceed(cx));
    let output = ready!(poll(cx));
    #[cfg(feature = "tokio")]
    budget.made_progress();
    Poll::Ready(output)
}

/// Spends what [`cooperate`] does on an output that stays ready; pending, and woken at once, if the task is to yield.
#[inline]
pub(crate) fn spend_budget(cx: &mut Context<'_>) -> Poll<()> {
    cooperate(cx, |_| Poll::Ready(()))
}

/// Returns whether [`cooperate`] polls.
#[inline]
pub(crate) fn has_budget() -> bool {
    #[cfg(feature = "tokio")]
    return tokio::task::coop::has_budget_remaining();
    #[cfg(not(feature = "tokio"))]
    true
}

/// Returns the engine of the thread's test clock, that of its runtime, or else the process's.
///
/// # Panics
///
/// If the process's cannot be built.
pub(crate) fn current() -> Timer {
    #[cfg(feature = "test-util")]
    if let Some(timer) = crate::test::engine() {
        return timer;
    }
    #[cfg(feature = "tokio")]
    if let Some(timer) = crate::tokio_rt::with_engine(Timer::clone) {
        return timer;
    }
    let timer = tickwheel::global();
    let timer = timer.unwrap_or_else(|error| panic!("the shared engine cannot be built: {error}"));
    timer.clone()
}

/// A sleep on the engine of the runtime that polls it, or else on the process's.
///
/// In a runtime it has no engine while no timer is armed, so making one looks for none. Only where a test may hold time
/// still it has that of its making, whose clock counts.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "stream"),
    allow(unreachable_pub, reason = "the streams' types have one")
)]
pub struct EngineSleep {
    sleep: tickwheel::Sleep<SleepError>,
    /// That of the engine's clock; `None` if it has the machine's.
    #[cfg(feature = "test-util")]
    scale: Option<Scale>,
}

impl EngineSleep {
    /// Returns one for the context of the calling thread.
    #[inline]
    pub(crate) fn here(when: When) -> Self {
        #[cfg(feature = "test-util")]
        if is_virtual() {
            return Self::in_virtual_time(when);
        }
        Self::anywhere(when)
    }

    #[inline]
    fn anywhere(when: When) -> Self {
        #[cfg(feature = "tokio")]
        return Self::of(sleep_anywhere(when));
        #[cfg(not(feature = "tokio"))]
        Self::of(tickwheel::sleep(when).into())
    }

    /// Returns one on the thread's test clock, or else on that of its runtime, if this has not ended.
    #[cfg(feature = "test-util")]
    fn in_virtual_time(when: When) -> Self {
        let sleep = crate::test::engine().map(|_| tickwheel::sleep(when).into());
        #[cfg(feature = "tokio")]
        let sleep = sleep.or_else(|| crate::tokio_rt::with_engine(|timer| timer.sleep(when)));
        let sleep = sleep.map_or_else(|| Self::anywhere(when), Self::of);
        Self {
            scale: Scale::current(),
            ..sleep
        }
    }

    /// Returns one on an engine of the user's.
    #[inline]
    pub(crate) fn on(timer: &Timer, when: When) -> Self {
        Self::of(timer.sleep(when))
    }

    #[inline]
    const fn of(sleep: tickwheel::Sleep<SleepError>) -> Self {
        Self {
            sleep,
            #[cfg(feature = "test-util")]
            scale: None,
        }
    }

    /// Puts a deadline on the clock of this sleep's engine, which may be another one than the calling thread's.
    pub(crate) fn when(&self, deadline: Instant) -> When {
        #[cfg(feature = "test-util")]
        if let Some(scale) = self.scale {
            return scale.time_of(deadline).into();
        }
        deadline.into_std().into()
    }

    /// Returns the instant of a time on the clock of this sleep's engine.
    pub(crate) fn instant_of(&self, time: Time) -> Instant {
        #[cfg(feature = "test-util")]
        if let Some(scale) = self.scale {
            return scale.instant_of(time);
        }
        Instant::of_machine(time)
    }

    /// See [`tickwheel::Sleep::poll_sleep`].
    #[inline(always)] // of every timeout
    pub(crate) fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        #[cfg(feature = "tokio")]
        if !has_engine(&self.sleep) {
            if let Some(polled) = self.enter(cx) {
                return polled.map(Ok);
            }
        }
        self.sleep.poll_sleep(cx)
    }

    /// Polls a sleep without an engine: if it must wait, on that of the runtime that the thread is in. `None` if it has
    /// an engine then, on which it is to be polled.
    #[cfg(feature = "tokio")]
    fn enter(&mut self, cx: &mut Context<'_>) -> Option<Poll<()>> {
        // Times of all engines here lie on the machine's clock.
        #[cfg(feature = "test-util")]
        if is_virtual() {
            *self = Self::in_virtual_time(self.sleep.deadline().into());
            if has_engine(&self.sleep) {
                return None;
            }
        }
        let sleep = &mut self.sleep;
        match crate::tokio_rt::with_latest_engine(|timer| poll_on(sleep, timer, cx)) {
            Some(Poll::Pending) => return Some(Poll::Pending),
            Some(Poll::Ready(true)) => return Some(Poll::Ready(())),
            Some(Poll::Ready(false)) => self.enter_refused(),
            None => self.leave(),
        }
        None
    }

    /// Goes to the runtime's engine, to try once more and be told why not.
    #[cfg(feature = "tokio")]
    #[cold]
    fn enter_refused(&mut self) {
        let deadline = self.sleep.deadline();
        match crate::tokio_rt::with_engine(|timer| timer.sleep(deadline)) {
            Some(sleep) => *self = Self::of(sleep),
            None => self.leave(),
        }
    }

    /// Puts it on the process's engine, because there is no runtime, or it has shut down.
    pub(crate) fn leave(&mut self) {
        // Times of both engines lie on the machine's clock.
        *self = Self::of(tickwheel::sleep(self.sleep.deadline()).into());
    }
}

impl std::ops::Deref for EngineSleep {
    type Target = tickwheel::Sleep<SleepError>;

    fn deref(&self) -> &Self::Target {
        &self.sleep
    }
}

impl std::ops::DerefMut for EngineSleep {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.sleep
    }
}

/// A sleep that goes on by the process's engine when its runtime has shut down.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "stream"),
    allow(unreachable_pub, reason = "the streams' types name it")
)]
pub struct RuntimeSleep(EngineSleep);

impl RuntimeSleep {
    #[inline]
    pub(crate) fn new(when: impl Into<When>) -> Self {
        Self(EngineSleep::here(when.into()))
    }

    /// Returns a sleep that is ready in its first poll if its time has come by then, as one until a point in time is.
    ///
    /// One of zero waits up to a millisecond, so that a loop of them leaves the processor to others; tokio's does the same.
    /// Time that a test may hold still does not move for it.
    #[inline]
    pub(crate) fn of_delay(delay: Duration) -> Self {
        if delay.is_zero() && !is_virtual() {
            let (least, most) = (Duration::from_nanos(1), Duration::from_millis(1));
            return Self::new(When::from(least).with_slack(most));
        }
        let mut sleep = Self::new(delay);
        // Nothing is armed. A sleep that was cancelled looks at the clock in its next poll.
        sleep.cancel();
        sleep
    }

    /// Returns a sleep with the slack of a long timeout.
    #[inline]
    pub(crate) fn of_timeout(limit: When) -> Self {
        Self(EngineSleep::here(with_slack(limit)))
    }

    /// # Panics
    ///
    /// If the process's engine has no timer for it; see [`tickwheel::sleep()`].
    #[inline(always)] // of every future here
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.0.poll_sleep(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(_) => self.go_on(cx),
        }
    }

    #[cold]
    fn go_on(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.leave();
        self.0.poll_sleep(cx).map(|ended| {
            ended.unwrap_or_else(|error| {
                panic!("the process's engine has no timer for a future: {error}")
            })
        })
    }
}

impl std::ops::Deref for RuntimeSleep {
    type Target = EngineSleep;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for RuntimeSleep {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
