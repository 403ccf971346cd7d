//! The three ways to limit how long something takes: tokio's timers, tickwheel's, and none.

use super::count::{Call, count};
use hyper::rt;
use hyper_util::rt::TokioTimer;
use std::future::{Future, Pending};
use std::pin::Pin;
use std::time::{Duration, Instant};
use tickwheel_adapters::HyperTimer;

/// Whose timers a server uses.
pub(super) trait Timers: Copy + Send + Sync + 'static {
    /// A sleep that can be pushed out.
    type Sleep: Future<Output = ()> + Send;

    /// `None`: connections may be idle for ever.
    fn sleep(limit: Duration) -> Option<Self::Sleep>;

    fn reset(sleep: Pin<&mut Self::Sleep>, limit: Duration);

    /// `None` if it takes too long.
    fn limit<F>(limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;

    /// hyper's own timeouts; `None` for none.
    fn hyper() -> Option<impl rt::Timer + Send + Sync + 'static>;
}

/// No limit at all: what timers cost is what the others need more.
#[derive(Clone, Copy)]
pub(super) struct NoTimers;

/// tokio's.
#[derive(Clone, Copy)]
pub(super) struct TokioTimers;

/// tickwheel's, on the process's shared engine.
#[derive(Clone, Copy)]
pub(super) struct OurTimers;

impl Timers for NoTimers {
    type Sleep = Pending<()>;

    fn sleep(_limit: Duration) -> Option<Pending<()>> {
        None
    }

    fn reset(_sleep: Pin<&mut Pending<()>>, _limit: Duration) {}

    async fn limit<F>(_limit: Duration, future: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        Some(future.await)
    }

    fn hyper() -> Option<impl rt::Timer + Send + Sync + 'static> {
        None::<TokioTimer>
    }
}

impl Timers for TokioTimers {
    type Sleep = tokio::time::Sleep;

    fn sleep(limit: Duration) -> Option<tokio::time::Sleep> {
        count(Call::Made);
        Some(tokio::time::sleep(limit))
    }

    fn reset(sleep: Pin<&mut tokio::time::Sleep>, limit: Duration) {
        count(Call::Reset);
        sleep.reset(tokio::time::Instant::now() + limit);
    }

    async fn limit<F>(limit: Duration, future: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        count(Call::Made);
        tokio::time::timeout(limit, future).await.ok()
    }

    fn hyper() -> Option<impl rt::Timer + Send + Sync + 'static> {
        Some(Counted(TokioTimer::new()))
    }
}

impl Timers for OurTimers {
    type Sleep = OurSleep;

    fn sleep(limit: Duration) -> Option<OurSleep> {
        count(Call::Made);
        Some(OurSleep(tickwheel::sleep(limit)))
    }

    fn reset(sleep: Pin<&mut OurSleep>, limit: Duration) {
        count(Call::Reset);
        sleep.get_mut().0.reset(limit);
    }

    async fn limit<F>(limit: Duration, future: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        count(Call::Made);
        tickwheel::timeout(limit, future).await.ok()
    }

    fn hyper() -> Option<impl rt::Timer + Send + Sync + 'static> {
        Some(Counted(HyperTimer::shared()))
    }
}

/// A sleep that ends in any case.
pub(super) struct OurSleep(tickwheel::Sleep);

impl Future for OurSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        self.0.poll_sleep(cx).map(drop)
    }
}

/// Counts what hyper asks for.
struct Counted<T>(T);

impl<T: rt::Timer> rt::Timer for Counted<T> {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        count(Call::Made);
        self.0.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        count(Call::Made);
        self.0.sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: Instant) {
        count(Call::Reset);
        self.0.reset(sleep, deadline);
    }
}
