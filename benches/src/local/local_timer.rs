//! `tickwheel::LocalTimer`.

use super::peer::LocalPeer;
use std::hint::black_box;
use std::time::Duration;
use tickwheel::{Key, LocalTimer};

/// At the default settings.
pub struct LocalTimerPeer {
    timer: LocalTimer<u64>,
    now: tickwheel::Time,
}

impl LocalPeer for LocalTimerPeer {
    type Handle = Key<u64>;

    fn new(_capacity: usize) -> Self {
        let timer = LocalTimer::new(Duration::from_millis(1)).expect("the tick is in range");
        Self { timer, now: tickwheel::Time::ZERO }
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
        self.timer.schedule(self.now, delay, payload).expect("there is no limit")
    }

    #[inline]
    fn schedule_forget(&mut self, delay: Duration, payload: u64) {
        self.schedule(delay, payload);
    }

    #[inline]
    fn cancel(&mut self, key: Key<u64>) -> u64 {
        self.timer.cancel(key).payload().expect("the timer is pending")
    }

    #[inline]
    fn rearm(&mut self, key: Key<u64>, delay: Duration) -> Key<u64> {
        assert!(self.timer.reschedule(self.now, key, delay).moved());
        key
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now = self.now + by;
        let mut fired = 0;
        loop {
            let polled = self.timer.poll(self.now, |expired| {
                black_box(expired.payload);
            });
            fired += polled.fired;
            if !polled.more {
                return fired;
            }
        }
    }
}
