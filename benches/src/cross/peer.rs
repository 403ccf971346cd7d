//! What a timer that many threads use has to offer.

use crate::book::Book;
use std::sync::Arc;
use std::time::Duration;

/// How a peer is to be set up.
#[derive(Clone)]
pub struct Setup {
    /// Shards or worker threads; `None` for the peer's own default.
    pub shards: Option<usize>,
    /// The tick, where there is one to choose.
    pub tick: Duration,
    /// Told of everything that fires.
    pub book: Arc<Book>,
}

impl Setup {
    /// The peer's defaults.
    #[must_use]
    pub fn new(book: Arc<Book>) -> Self {
        Self { shards: None, tick: Duration::from_millis(1), book }
    }
}

/// A piece of a producer's work; false when there is no more.
pub type Producer = Box<dyn FnMut() -> bool + Send>;

/// A timer that many threads use, on the real clock.
pub trait CrossPeer: Sized + Send + Sync + 'static {
    /// One thread's access to it.
    type Session: Session;

    /// Dropping a handle cancels its timer, so handles have to be kept.
    const HANDLE_IS_TIMER: bool = false;

    /// Starts it.
    fn start(setup: Setup) -> Self;

    /// Access for thread number `thread`.
    fn session(&self, thread: usize) -> Self::Session;

    /// Runs producers side by side, on threads where the peer is at home, until all are done.
    fn run(&self, producers: Vec<Producer>) {
        std::thread::scope(|scope| {
            for mut producer in producers {
                scope.spawn(move || while producer() {});
            }
        });
    }
}

/// One thread's access.
pub trait Session: Send + 'static {
    /// What names one timer.
    type Handle: Send + 'static;

    /// Schedules a timer that will be cancelled.
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle;

    /// Cancels it.
    fn cancel(&mut self, handle: Self::Handle);

    /// Schedules a timer that will fire, into the book.
    #[inline]
    fn launch(&mut self, delay: Duration, payload: u64) {
        self.schedule(delay, payload);
    }

    /// Waits until everything asked for is done, for peers that only take notes.
    fn wait_idle(&mut self) {}
}
