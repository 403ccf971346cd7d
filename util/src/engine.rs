//! Whose timers are used.

use std::task::{Context, Poll, ready};
use tickwheel::{SleepError, Timer, When};

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
    pub(crate) fn sleep(&self, when: impl Into<When>) -> tickwheel::Sleep<SleepError> {
        match self {
            Self::Runtimes => sleep(when.into()),
            Self::Own(timer) => timer.sleep(when),
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
    pub(crate) fn timeout<F: Future>(
        &self,
        limit: std::time::Duration,
        future: F,
    ) -> tickwheel::Timeout<F, SleepError> {
        let limit = When::from(limit);
        let sleep = match self {
            Self::Runtimes => sleep(with_slack(limit)),
            Self::Own(timer) => timer.sleep(limit),
        };
        tickwheel::Timeout::new(future, sleep)
    }
}

/// Gives a long timeout its slack, but in virtual time.
fn with_slack(limit: When) -> When {
    #[cfg(feature = "test-util")]
    if crate::test::is_virtual() {
        return limit;
    }
    limit.with_usual_slack()
}

/// Polls what may be ready at once, unless the task has done so very often: then it yields.
///
/// By the budget that a runtime of tokio gives to its tasks. Elsewhere nothing yields.
pub(crate) fn cooperate<T>(
    cx: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    #[cfg(feature = "tokio")]
    let budget = ready!(::tokio::task::coop::poll_proceed(cx));
    let output = ready!(poll(cx));
    #[cfg(feature = "tokio")]
    budget.made_progress();
    Poll::Ready(output)
}

/// Returns whether [`cooperate`] polls.
pub(crate) fn has_budget() -> bool {
    #[cfg(feature = "tokio")]
    return ::tokio::task::coop::has_budget_remaining();
    #[cfg(not(feature = "tokio"))]
    true
}

/// Returns a sleep on the engine of the thread's test clock, on that of its runtime, or else on the process's.
fn sleep(when: When) -> tickwheel::Sleep<SleepError> {
    #[cfg(feature = "test-util")]
    if crate::test::engine().is_some() {
        return tickwheel::sleep(when).into();
    }
    #[cfg(feature = "tokio")]
    if let Some(sleep) = crate::tokio::with_engine(|timer| timer.sleep(when)) {
        return sleep;
    }
    tickwheel::sleep(when).into()
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
    if let Some(timer) = crate::tokio::with_engine(Timer::clone) {
        return timer;
    }
    let timer = tickwheel::global();
    let timer = timer.unwrap_or_else(|error| panic!("the shared engine cannot be built: {error}"));
    timer.clone()
}

/// A sleep on the runtime's engine. It goes on by the process's when the runtime has shut down.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "stream"),
    allow(unreachable_pub, reason = "the streams' types name it")
)]
pub struct RuntimeSleep(tickwheel::Sleep<SleepError>);

impl RuntimeSleep {
    #[inline]
    pub(crate) fn new(when: impl Into<When>) -> Self {
        Self(sleep(when.into()))
    }

    /// Returns a sleep with the slack of a long timeout.
    pub(crate) fn of_timeout(limit: When) -> Self {
        Self(sleep(with_slack(limit)))
    }

    /// # Panics
    ///
    /// If the process's engine has no timer for it; see [`tickwheel::sleep()`].
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.0.poll_sleep(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(_) => self.go_on(cx),
        }
    }

    #[cold]
    fn go_on(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Times of both engines lie on the machine's clock.
        let mut sleep = tickwheel::sleep(self.0.deadline());
        let polled = sleep.poll_sleep(cx);
        self.0 = sleep.into();
        polled.map(|ended| {
            ended.unwrap_or_else(|error| {
                panic!("the process's engine has no timer for a future: {error}")
            })
        })
    }
}

impl std::ops::Deref for RuntimeSleep {
    type Target = tickwheel::Sleep<SleepError>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for RuntimeSleep {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
