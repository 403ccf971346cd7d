//! tokio's `sleep` on a current-thread runtime.

use super::peer::LocalPeer;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::{Instant, Sleep, advance, sleep_until};

/// A runtime that this thread is inside of for good. Its clock stands until it is advanced.
pub(super) fn enter() -> (&'static Runtime, EnterGuard<'static>) {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    // Leaked: it lives as long as the process, and the guard borrows it.
    let runtime: &'static Runtime = Box::leak(Box::new(runtime.expect("a runtime of one thread")));
    (runtime, runtime.enter())
}

/// One waker for all timers: it counts. A waker per timer would be one more allocation each.
#[derive(Default)]
struct Fires(AtomicUsize);

impl Wake for Fires {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDERING: Relaxed: one thread.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Boxed sleeps, polled once so that they are registered.
pub struct TokioSleepPeer {
    runtime: &'static Runtime,
    _inside: EnterGuard<'static>,
    now: Instant,
    fires: Arc<Fires>,
    waker: Waker,
    kept: Vec<Pin<Box<Sleep>>>,
}

impl TokioSleepPeer {
    fn fired(&self) -> usize {
        // ORDERING: Relaxed: one thread.
        self.fires.0.load(Ordering::Relaxed)
    }
}

impl LocalPeer for TokioSleepPeer {
    type Handle = Pin<Box<Sleep>>;

    fn new(_capacity: usize) -> Self {
        let (runtime, inside) = enter();
        let fires = Arc::new(Fires::default());
        let waker = Waker::from(Arc::clone(&fires));
        Self { runtime, _inside: inside, now: Instant::now(), fires, waker, kept: Vec::new() }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, _payload: u64) -> Self::Handle {
        let mut sleep = Box::pin(sleep_until(self.now + delay));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&self.waker)).is_pending());
        sleep
    }

    fn schedule_forget(&mut self, delay: Duration, payload: u64) {
        let sleep = self.schedule(delay, payload);
        self.kept.push(sleep);
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) -> u64 {
        drop(handle);
        0
    }

    #[inline]
    fn rearm(&mut self, mut handle: Self::Handle, delay: Duration) -> Self::Handle {
        handle.as_mut().reset(self.now + delay);
        handle
    }

    fn advance(&mut self, by: Duration) -> usize {
        let before = self.fired();
        self.now += by;
        self.runtime.block_on(advance(by));
        self.fired() - before
    }
}
