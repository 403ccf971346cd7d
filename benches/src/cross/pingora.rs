//! pingora-timeout's `fast_sleep`: slots of 10 ms per thread, shared by all timers of a slot.

use super::peer::{CrossPeer, Session, Setup};
use crate::book::Book;
use pingora_timeout::fast_timeout::fast_sleep;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// Its timers need no runtime; the tasks that await them do.
pub(super) struct PingoraPeer {
    runtime: Runtime,
    book: Arc<Book>,
}

impl CrossPeer for PingoraPeer {
    type Session = PingoraSession;
    const HANDLE_IS_TIMER: bool = true;

    fn start(setup: Setup) -> Self {
        let runtime = Builder::new_multi_thread().enable_time().build().expect("a runtime");
        Self { runtime, book: setup.book }
    }

    fn session(&self, _thread: usize) -> PingoraSession {
        PingoraSession { handle: self.runtime.handle().clone(), book: Arc::clone(&self.book) }
    }
}

/// Access from any thread.
pub(super) struct PingoraSession {
    handle: Handle,
    book: Arc<Book>,
}

impl Session for PingoraSession {
    type Handle = Pin<Box<dyn Future<Output = ()> + Send>>;

    #[inline]
    fn schedule(&mut self, delay: Duration, _payload: u64) -> Self::Handle {
        let mut sleep = Box::pin(fast_sleep(delay));
        let mut context = Context::from_waker(Waker::noop());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        sleep
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    /// Registered here and not by the task, whose first poll may come late.
    fn launch(&mut self, delay: Duration, payload: u64) {
        let mut sleep = Box::pin(fast_sleep(delay));
        let mut context = Context::from_waker(Waker::noop());
        let is_over = sleep.as_mut().poll(&mut context).is_ready();
        let book = Arc::clone(&self.book);
        self.handle.spawn(async move {
            if !is_over {
                sleep.await;
            }
            book.fired(payload);
        });
    }
}
