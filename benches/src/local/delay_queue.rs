//! tokio-util's `DelayQueue` on a current-thread runtime.

use super::peer::LocalPeer;
use super::tokio_sleep::enter;
use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{EnterGuard, Runtime};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, advance};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

/// With room for all timers from the start, and deadlines as points in time: neither grows nor reads a clock.
pub struct DelayQueuePeer {
    // Before the guard: its own sleep is dropped inside the runtime.
    queue: DelayQueue<u64>,
    runtime: &'static Runtime,
    _inside: EnterGuard<'static>,
    now: Instant,
}

impl LocalPeer for DelayQueuePeer {
    type Handle = Key;

    fn new(capacity: usize) -> Self {
        let (runtime, inside) = enter();
        let queue = DelayQueue::with_capacity(capacity);
        Self { queue, runtime, _inside: inside, now: Instant::now() }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key {
        self.queue.insert_at(payload, self.now + delay)
    }

    #[inline]
    fn cancel(&mut self, key: Key) -> u64 {
        self.queue.remove(&key).into_inner()
    }

    #[inline]
    fn rearm(&mut self, key: Key, delay: Duration) -> Key {
        self.queue.reset_at(&key, self.now + delay);
        key
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by;
        let queue = &mut self.queue;
        self.runtime.block_on(unconstrained(async {
            advance(by).await;
            let mut fired = 0;
            poll_fn(|context| {
                while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                    black_box(expired.into_inner());
                    fired += 1;
                }
                Poll::Ready(fired)
            })
            .await
        }))
    }
}
