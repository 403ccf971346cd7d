//! async-io: futures that any executor can await.

use super::peer::{CrossPeer, Session, Setup};
use crate::book::Book;
use async_io::Timer;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// The crate's own thread drives the timers.
pub(super) struct AsyncIoPeer(Arc<Book>);

impl CrossPeer for AsyncIoPeer {
    type Session = AsyncIoSession;
    const HANDLE_IS_TIMER: bool = true;

    fn start(setup: Setup) -> Self {
        Self(setup.book)
    }

    fn session(&self, _thread: usize) -> AsyncIoSession {
        AsyncIoSession { book: Arc::clone(&self.0), launched: Vec::new() }
    }
}

/// Access from any thread.
pub(super) struct AsyncIoSession {
    book: Arc<Book>,
    launched: Vec<Timer>,
}

/// Books the timer when it wakes: what an executor would add is spared.
struct Note {
    book: Arc<Book>,
    payload: u64,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.book.fired(self.payload);
    }
}

impl Session for AsyncIoSession {
    type Handle = Timer;

    #[inline]
    fn schedule(&mut self, delay: Duration, _payload: u64) -> Timer {
        let mut timer = Timer::after(delay);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut timer).poll(&mut context).is_pending());
        timer
    }

    #[inline]
    fn cancel(&mut self, handle: Timer) {
        drop(handle);
    }

    fn launch(&mut self, delay: Duration, payload: u64) {
        let mut timer = Timer::after(delay);
        let waker = Waker::from(Arc::new(Note { book: Arc::clone(&self.book), payload }));
        if Pin::new(&mut timer).poll(&mut Context::from_waker(&waker)).is_ready() {
            self.book.fired(payload);
        } else {
            self.launched.push(timer);
        }
    }
}
