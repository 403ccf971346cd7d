//! tokio's `sleep` on a multi-thread runtime.

use super::peer::{CrossPeer, Producer, Session, Setup};
use crate::book::Book;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{coop::unconstrained, yield_now};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// A runtime.
pub(super) struct TokioPeer {
    runtime: Runtime,
    book: Arc<Book>,
}

impl CrossPeer for TokioPeer {
    type Session = TokioSession;
    const HANDLE_IS_TIMER: bool = true;

    fn start(setup: Setup) -> Self {
        let runtime = Builder::new_multi_thread().enable_time().build().expect("a runtime");
        Self { runtime, book: setup.book }
    }

    fn session(&self, _thread: usize) -> TokioSession {
        TokioSession { handle: self.runtime.handle().clone(), book: Arc::clone(&self.book) }
    }

    /// As tasks on the runtime's own workers, which let go now and then so that timers are turned.
    fn run(&self, producers: Vec<Producer>) {
        run_on(&self.runtime, producers);
    }
}

/// Runs producers as tasks on a runtime's own workers, which let go now and then.
pub(super) fn run_on(runtime: &Runtime, producers: Vec<Producer>) {
    let spawn = |mut producer: Producer| {
        runtime.spawn(unconstrained(async move {
            while producer() {
                yield_now().await;
            }
        }))
    };
    let tasks: Vec<_> = producers.into_iter().map(spawn).collect();
    for task in tasks {
        runtime.block_on(task).expect("a producer does not panic");
    }
}

/// Access from a worker or from any other thread.
pub(super) struct TokioSession {
    handle: Handle,
    book: Arc<Book>,
}

impl Session for TokioSession {
    type Handle = Pin<Box<Sleep>>;

    #[inline]
    fn schedule(&mut self, delay: Duration, _payload: u64) -> Self::Handle {
        if Handle::try_current().is_err() {
            return self.schedule_outside(delay);
        }
        let mut sleep = Box::pin(sleep(delay));
        let mut context = Context::from_waker(Waker::noop());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        sleep
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    fn launch(&mut self, delay: Duration, payload: u64) {
        // Before the task is queued: its first poll may come late.
        let deadline = Instant::now() + delay;
        let book = Arc::clone(&self.book);
        self.handle.spawn(async move {
            sleep_until(deadline).await;
            book.fired(payload);
        });
    }
}

impl TokioSession {
    /// From a thread of no runtime.
    #[cold]
    fn schedule_outside(&mut self, delay: Duration) -> Pin<Box<Sleep>> {
        let handle = self.handle.clone();
        let _inside = handle.enter();
        self.schedule(delay, 0)
    }
}
