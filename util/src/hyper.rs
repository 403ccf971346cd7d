//! hyper's timer.

use crate::engine::{Engine, EngineSleep};
use hyper::rt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tickwheel::Timer;

/// A timer for hyper's connections: `builder.timer(HyperTimer::new())`.
///
/// A timeout that hyper pushes out, as it does with each request of a connection, is moved in place: nothing is
/// allocated, and the worker is told nothing.
///
/// If the engine takes no more timers, because it is stopped or full, a timeout is over at once: the connection ends.
/// That sheds load where one that never ends would pile it up.
///
/// ```
/// use hyper::server::conn::http1;
/// use std::time::Duration;
/// use tickwheel_util::HyperTimer;
///
/// let mut builder = http1::Builder::new();
/// builder.timer(HyperTimer::new()).header_read_timeout(Duration::from_secs(10));
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HyperTimer(Engine);

impl HyperTimer {
    /// On the runtime's engine, or the process's; see [`time`](crate::time).
    pub const fn new() -> Self {
        Self(Engine::Runtimes)
    }

    /// On an engine of your own.
    pub const fn on(timer: Timer) -> Self {
        Self(Engine::Own(timer))
    }
}

impl rt::Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(HyperSleep(self.0.sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(HyperSleep(self.0.sleep(self.0.when(deadline))))
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<HyperSleep>() {
            Some(own) => {
                let sleep = &mut own.get_mut().0;
                let when = sleep.when(new_deadline.into());
                sleep.reset(when);
            }
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

/// A sleep that ends in any case.
struct HyperSleep(EngineSleep);

impl rt::Sleep for HyperSleep {}

impl Future for HyperSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_sleep(cx).map(drop)
    }
}
