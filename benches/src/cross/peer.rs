//! The calls of a timer that many threads use.

use crate::book::Book;
use crate::stream::Step;
use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::{coop::unconstrained, yield_now};

/// The settings of a peer.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Shards or worker threads; `None` for the peer's own default.
    pub shards: Option<usize>,
    /// The tick, where there is one to choose.
    pub tick: Duration,
    /// Told of everything that fires.
    pub book: &'static Book,
}

impl Setup {
    /// Returns the peer's defaults. The book lives as long as the process.
    pub fn new(book: Book) -> Self {
        Self { shards: None, tick: Duration::from_millis(1), book: Box::leak(Box::new(book)) }
    }
}

/// A piece of a producer's work: each step cancels the oldest timer of the ring and schedules another one.
pub struct Pairs<'a, H> {
    /// The delays of the new timers.
    pub steps: &'a [Step],
    /// The timers in flight, the oldest first.
    pub ring: &'a mut VecDeque<H>,
    /// Takes the nanoseconds of each schedule, if they are measured.
    pub samples: Option<&'a mut Vec<i64>>,
}

impl<H> Pairs<'_, H> {
    /// Does the work.
    #[inline]
    pub fn run(self, mut schedule: impl FnMut(Duration, u64) -> H, mut cancel: impl FnMut(H)) {
        let Self { steps, ring, samples } = self;
        let Some(samples) = samples else {
            for step in steps {
                cancel(ring.pop_front().expect("the ring is never empty"));
                ring.push_back(schedule(step.delay, u64::from(step.victim)));
            }
            return;
        };
        for step in steps {
            cancel(ring.pop_front().expect("the ring is never empty"));
            let start = Instant::now();
            let handle = schedule(step.delay, u64::from(step.victim));
            samples.push(start.elapsed().as_nanos() as i64);
            ring.push_back(handle);
        }
    }
}

/// One thread's access to a timer that many threads use, on the real clock.
pub trait CrossPeer: Clone + Send + Sync + 'static {
    /// The name of one timer.
    type Handle: Send + 'static;

    /// Starts the timer.
    fn start(setup: Setup) -> Self;

    /// Returns the access of thread number `thread`.
    fn session(&self, _thread: usize) -> Self {
        self.clone()
    }

    /// Schedules a timer that will be cancelled.
    fn schedule(&self, delay: Duration, payload: u64) -> Self::Handle;

    /// Cancels it.
    #[inline]
    fn cancel(&self, handle: Self::Handle) {
        drop(handle);
    }

    /// Schedules a timer that will fire, into the book.
    #[inline]
    fn launch(&self, delay: Duration, payload: u64) {
        self.schedule(delay, payload);
    }

    /// Does a piece of a producer's work.
    #[inline]
    fn pairs(&self, work: Pairs<'_, Self::Handle>) {
        work.run(|delay, payload| self.schedule(delay, payload), |handle| self.cancel(handle));
    }

    /// Returns the runtime on whose workers producers are at home, unless any thread will do.
    fn runtime(&self) -> Option<&'static Runtime> {
        None
    }

    /// Runs producers side by side until `step` returns false for each. On a runtime they let go now and then so that
    /// timers are turned.
    fn run<T: Send + 'static>(
        &self,
        producers: Vec<T>,
        step: impl FnMut(&mut T) -> bool + Clone + Send + 'static,
    ) -> Vec<T> {
        let wanted = producers.len();
        let (out, done) = channel();
        std::thread::scope(|scope| {
            for mut producer in producers {
                let (mut step, out) = (step.clone(), out.clone());
                if let Some(runtime) = self.runtime() {
                    runtime.spawn(unconstrained(async move {
                        while step(&mut producer) {
                            yield_now().await;
                        }
                        out.send(producer)
                    }));
                } else {
                    scope.spawn(move || {
                        while step(&mut producer) {}
                        out.send(producer)
                    });
                }
            }
        });
        drop(out);
        let done: Vec<_> = done.into_iter().collect();
        assert_eq!(done.len(), wanted, "a producer does not panic");
        done
    }
}
