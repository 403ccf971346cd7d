//! async-io and futures-timer: futures that any executor can await.

use super::peer::{CrossPeer, Session, Setup};
use crate::book::Book;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// A future that is ready after a while, registered when it is first polled.
pub(super) trait Delay: Future + Unpin + Send + 'static {
    fn after(delay: Duration) -> Self;
}

impl Delay for async_io::Timer {
    fn after(delay: Duration) -> Self {
        Self::after(delay)
    }
}

impl Delay for futures_timer::Delay {
    fn after(delay: Duration) -> Self {
        Self::new(delay)
    }
}

/// The crate's own thread drives the timers.
pub(super) struct FuturePeer<D> {
    book: Arc<Book>,
    kind: PhantomData<fn() -> D>,
}

/// async-io.
pub(super) type AsyncIoPeer = FuturePeer<async_io::Timer>;
/// futures-timer.
pub(super) type FuturesTimerPeer = FuturePeer<futures_timer::Delay>;

impl<D: Delay> CrossPeer for FuturePeer<D> {
    type Session = FutureSession<D>;
    const HANDLE_IS_TIMER: bool = true;

    fn start(setup: Setup) -> Self {
        Self { book: setup.book, kind: PhantomData }
    }

    fn session(&self, _thread: usize) -> FutureSession<D> {
        FutureSession { book: Arc::clone(&self.book), launched: Vec::new() }
    }
}

/// Access from any thread.
pub(super) struct FutureSession<D> {
    book: Arc<Book>,
    launched: Vec<D>,
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

impl<D: Delay> Session for FutureSession<D> {
    type Handle = D;

    #[inline]
    fn schedule(&mut self, delay: Duration, _payload: u64) -> D {
        let mut timer = D::after(delay);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut timer).poll(&mut context).is_pending());
        timer
    }

    #[inline]
    fn cancel(&mut self, handle: D) {
        drop(handle);
    }

    fn launch(&mut self, delay: Duration, payload: u64) {
        let mut timer = D::after(delay);
        let waker = Waker::from(Arc::new(Note { book: Arc::clone(&self.book), payload }));
        if Pin::new(&mut timer).poll(&mut Context::from_waker(&waker)).is_ready() {
            self.book.fired(payload);
        } else {
            self.launched.push(timer);
        }
    }
}
