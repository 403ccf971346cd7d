//! `tickwheel::Sleep` in tasks of a tokio runtime that has no timer of its own.

use super::peer::{CrossPeer, Producer, Session, Setup};
use super::tokio_sleep::run_on;
use crate::book::Book;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tickwheel::{Pinning, Sleep, SleepError, Timer};
use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime, and an engine beside it whose workers are not pinned, as those of the shared one.
pub(super) struct SleepPeer {
    runtime: Runtime,
    timer: Timer,
    book: Arc<Book>,
}

impl CrossPeer for SleepPeer {
    type Session = SleepSession;
    const HANDLE_IS_TIMER: bool = true;

    fn start(setup: Setup) -> Self {
        let runtime = Builder::new_multi_thread().build().expect("a runtime");
        let builder = tickwheel::Builder::new().tick(setup.tick).pinning(Pinning::Off);
        let builder = match setup.shards {
            Some(shards) => builder.shards(shards),
            None => builder,
        };
        let timer = builder.build().expect("the settings are in range");
        timer.start().expect("the workers start");
        Self { runtime, timer, book: setup.book }
    }

    fn session(&self, _thread: usize) -> SleepSession {
        SleepSession {
            handle: self.runtime.handle().clone(),
            timer: self.timer.clone(),
            book: Arc::clone(&self.book),
        }
    }

    fn run(&self, producers: Vec<Producer>) {
        run_on(&self.runtime, producers);
    }
}

/// Access from a worker or from any other thread.
pub(super) struct SleepSession {
    handle: Handle,
    timer: Timer,
    book: Arc<Book>,
}

impl Session for SleepSession {
    type Handle = Sleep<SleepError>;

    #[inline]
    fn schedule(&mut self, delay: Duration, _payload: u64) -> Sleep<SleepError> {
        let mut sleep = self.timer.sleep(delay);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
        sleep
    }

    #[inline]
    fn cancel(&mut self, handle: Sleep<SleepError>) {
        drop(handle);
    }

    fn launch(&mut self, delay: Duration, payload: u64) {
        // Before the task is queued, as with tokio's own.
        let sleep = self.timer.sleep(Instant::now() + delay);
        let book = Arc::clone(&self.book);
        self.handle.spawn(async move {
            sleep.await.expect("the engine is not stopped");
            book.fired(payload);
        });
    }
}
