//! Futures: polled once when they are scheduled, dropped when they are cancelled.

use super::{CrossPeer, Setup, engine};
use crate::book::Book;
use pingora_timeout::fast_timeout::fast_sleep;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use tickwheel::{Pinning, Sleep, SleepError, Timer};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{sleep, sleep_until};

/// Polls a future once, so that its timer is armed.
#[inline]
fn armed<F: Future + Unpin>(mut future: F) -> F {
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    future
}

/// Builds a runtime that lives as long as the process.
fn build(builder: &mut Builder) -> &'static Runtime {
    Box::leak(Box::new(builder.build().expect("a runtime")))
}

/// tokio's `sleep` on a multi-thread runtime; its alternative timer if `ALTERNATIVE`.
#[derive(Clone)]
pub(super) struct TokioPeer<const ALTERNATIVE: bool> {
    runtime: &'static Runtime,
    book: &'static Book,
}

impl<const ALTERNATIVE: bool> CrossPeer for TokioPeer<ALTERNATIVE> {
    type Handle = Pin<Box<tokio::time::Sleep>>;

    fn start(setup: Setup) -> Self {
        let mut builder = Builder::new_multi_thread();
        builder.enable_time();
        #[cfg(tokio_unstable)]
        if ALTERNATIVE {
            builder.enable_alt_timer();
        }
        let runtime = build(&mut builder);
        Self {
            runtime,
            book: setup.book,
        }
    }

    #[inline]
    fn schedule(&self, delay: Duration, _payload: u64) -> Self::Handle {
        let is_outside = Handle::try_current().is_err();
        let _inside = is_outside.then(|| self.runtime.enter());
        armed(Box::pin(sleep(delay)))
    }

    fn launch(&self, delay: Duration, payload: u64) {
        // Before the task is queued: its first poll may come late.
        let (deadline, book) = (tokio::time::Instant::now() + delay, self.book);
        self.runtime.spawn(async move {
            sleep_until(deadline).await;
            book.fired(payload);
        });
    }

    fn runtime(&self) -> Option<&'static Runtime> {
        Some(self.runtime)
    }
}

/// `tickwheel::Sleep` in tasks of a tokio runtime that has no timer of its own, beside an engine whose workers are not
/// pinned, as those of the shared one.
#[derive(Clone)]
pub(super) struct SleepPeer {
    runtime: &'static Runtime,
    timer: Timer,
    book: &'static Book,
}

impl CrossPeer for SleepPeer {
    type Handle = Sleep<SleepError>;

    fn start(setup: Setup) -> Self {
        let timer = engine::builder(&setup).pinning(Pinning::Off).build();
        let timer = timer.expect("the settings are in range");
        timer.start().expect("the workers start");
        Self {
            runtime: build(&mut Builder::new_multi_thread()),
            timer,
            book: setup.book,
        }
    }

    #[inline]
    fn schedule(&self, delay: Duration, _payload: u64) -> Self::Handle {
        armed(self.timer.sleep(delay))
    }

    fn launch(&self, delay: Duration, payload: u64) {
        // Before the task is queued, as with tokio's own.
        let (sleep, book) = (self.timer.sleep(Instant::now() + delay), self.book);
        self.runtime.spawn(async move {
            sleep.await.expect("the engine is not stopped");
            book.fired(payload);
        });
    }

    fn runtime(&self) -> Option<&'static Runtime> {
        Some(self.runtime)
    }
}

/// pingora-timeout's `fast_sleep`: slots of 10 ms per thread, shared by all timers of a slot. Its timers need no
/// runtime; the tasks that await them do.
#[derive(Clone)]
pub(super) struct PingoraPeer {
    runtime: &'static Runtime,
    book: &'static Book,
}

impl CrossPeer for PingoraPeer {
    type Handle = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn start(setup: Setup) -> Self {
        let runtime = build(Builder::new_multi_thread().enable_time());
        Self {
            runtime,
            book: setup.book,
        }
    }

    #[inline]
    fn schedule(&self, delay: Duration, _payload: u64) -> Self::Handle {
        armed(Box::pin(fast_sleep(delay)))
    }

    /// Registers the timer here and not in the task, whose first poll may come late.
    fn launch(&self, delay: Duration, payload: u64) {
        let (mut sleep, book) = (Box::pin(fast_sleep(delay)), self.book);
        let mut context = Context::from_waker(Waker::noop());
        let is_over = sleep.as_mut().poll(&mut context).is_ready();
        self.runtime.spawn(async move {
            if !is_over {
                sleep.await;
            }
            book.fired(payload);
        });
    }
}

/// async-io, whose own thread drives the timers.
#[derive(Clone)]
pub(super) struct AsyncIoPeer(&'static Book);

/// Books the timer when it wakes: the work of an executor is spared.
struct Note(&'static Book, u64);

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.0.fired(self.1);
    }
}

impl CrossPeer for AsyncIoPeer {
    type Handle = async_io::Timer;

    fn start(setup: Setup) -> Self {
        Self(setup.book)
    }

    #[inline]
    fn schedule(&self, delay: Duration, _payload: u64) -> Self::Handle {
        armed(async_io::Timer::after(delay))
    }

    fn launch(&self, delay: Duration, payload: u64) {
        let mut timer = async_io::Timer::after(delay);
        let waker = Waker::from(Arc::new(Note(self.0, payload)));
        if Pin::new(&mut timer)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            self.0.fired(payload);
        }
        // Dropped, it would not fire.
        std::mem::forget(timer);
    }
}
