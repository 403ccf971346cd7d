//! nexus-timer: bounded, as its page advises where the number of timers is known.

use super::peer::LocalPeer;
use nexus_timer::{BoundedWheel, TimerHandle};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Collects and rebalances in one go, the poll that its page calls complete.
pub struct NexusPeer {
    wheel: BoundedWheel<u64>,
    now: Instant,
    due: Vec<u64>,
}

impl LocalPeer for NexusPeer {
    type Handle = TimerHandle<u64>;

    fn new(capacity: usize) -> Self {
        let now = Instant::now();
        Self { wheel: BoundedWheel::bounded(capacity, now), now, due: Vec::new() }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        self.wheel.schedule(self.now + delay, payload)
    }

    #[inline]
    fn schedule_forget(&mut self, delay: Duration, payload: u64) {
        self.wheel.schedule_forget(self.now + delay, payload);
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) -> u64 {
        self.wheel.cancel(handle).unwrap_or_default()
    }

    #[inline]
    fn rearm(&mut self, handle: Self::Handle, delay: Duration) -> Self::Handle {
        self.wheel.reschedule(handle, self.now + delay)
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by;
        let fired = self.wheel.poll_and_rebalance(self.now, &mut self.due);
        self.due.drain(..).for_each(|payload| {
            black_box(payload);
        });
        fired
    }
}
