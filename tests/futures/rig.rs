//! An engine that is turned by hand, wakers that count, an executor of a few lines.

use crate::support::setup::{some_shards, use_another_engine};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tickwheel::{Builder, Drive, ManualClock, Timer};

/// An engine on a clock that stands.
pub(crate) struct Rig {
    pub(crate) clock: ManualClock,
    pub(crate) timer: Timer,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(set: impl FnOnce(Builder) -> Builder) -> Self {
        let clock = ManualClock::new();
        let builder = some_shards().drive(Drive::Manual);
        let timer = set(builder.clock(clock.clone())).build().unwrap();
        Self { clock, timer }
    }

    /// Lets time pass and fires what is due.
    pub(crate) fn pass(&self, time: Duration) -> usize {
        self.clock.advance(time);
        use_another_engine();
        self.timer.turn().unwrap()
    }
}

/// Counts how often it was woken.
#[derive(Default)]
pub(crate) struct Bell(AtomicU64);

impl Bell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn rings(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Wakers of one bell that are alive, the bell itself not counted.
pub(crate) fn wakers(bell: &Arc<Bell>) -> usize {
    Arc::strong_count(bell) - 1
}

/// Polls once with a bell's waker, which is gone afterwards.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F, bell: &Arc<Bell>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(bell));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

struct Thread(std::thread::Thread);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps between the polls.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Thread(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
