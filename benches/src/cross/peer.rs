//! What a timer that many threads use has to offer.

use crate::book::Book;
use crate::stream::Step;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    type Session: Session + Send + 'static;

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
pub trait Session: Sized {
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

    /// Cancels the oldest timer of `ring` and schedules another one, once per step.
    #[inline]
    fn pairs(&mut self, steps: &[Step], ring: &mut VecDeque<Self::Handle>) {
        for step in steps {
            let oldest = ring.pop_front().expect("the ring is never empty");
            self.cancel(oldest);
            ring.push_back(self.schedule(step.delay, u64::from(step.victim)));
        }
    }

    /// As [`pairs`](Self::pairs), with a look at the clock around every schedule.
    #[inline]
    fn watched_pairs(
        &mut self,
        steps: &[Step],
        ring: &mut VecDeque<Self::Handle>,
        samples: &mut Vec<i64>,
    ) {
        for step in steps {
            let oldest = ring.pop_front().expect("the ring is never empty");
            self.cancel(oldest);
            let start = Instant::now();
            let handle = self.schedule(step.delay, u64::from(step.victim));
            samples.push(start.elapsed().as_nanos().try_into().unwrap_or(i64::MAX));
            ring.push_back(handle);
        }
    }

    /// Waits until everything asked for is done, for peers that only take notes.
    fn wait_idle(&mut self) {}
}
