//! `tickwheel::LocalTimer`, and `tickwheel::EventLoopTimer` as its owner uses it.

use super::peer::LocalPeer;
use std::hint::black_box;
use std::time::Duration;
use tickwheel::{EventLoopTimer, Key, LocalTimer, Settings, Time};

/// The same code for both: they have the same calls and no trait in common.
macro_rules! own_peer {
    ($(#[$about:meta])* $peer:ident, $timer:ty, $new:expr) => {
        $(#[$about])*
        pub struct $peer {
            timer: $timer,
            now: Time,
        }

        impl LocalPeer for $peer {
            type Handle = Key<u64>;

            fn new(_capacity: usize) -> Self {
                Self { timer: $new.expect("the settings are valid"), now: Time::ZERO }
            }

            #[inline]
            fn schedule(&mut self, delay: Duration, payload: u64) -> Key<u64> {
                self.timer.schedule(self.now, delay, payload).expect("there is no limit")
            }

            #[inline]
            fn cancel(&mut self, key: Key<u64>) -> u64 {
                self.timer.cancel(key).into_payload().expect("the timer is pending")
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
    };
}

own_peer! {
    /// At the default settings.
    LocalTimerPeer, LocalTimer<u64>, LocalTimer::new(Duration::from_millis(1))
}

own_peer! {
    /// At the default settings. No remote exists, so nobody is ever woken.
    EventLoopPeer, EventLoopTimer<u64>, Settings::new().build_with_waker(|| ())
}
