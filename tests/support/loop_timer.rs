//! `LoopTimer`: the calls that all timers of a loop have, for tests that run on each of them.

use std::time::Duration;
use tickwheel::{
    Budget, Cancel, EventLoopTimer, Expirations, Expired, Key, LocalTimer, Polled, Time, Unfired,
};

/// A timer that a loop drives.
pub(crate) trait LoopTimer: Sized {
    type Payload;
    type Due<'a>: Due<Self>
    where
        Self: 'a;

    fn cancel(&mut self, key: Key<Self::Payload>) -> Cancel<Self::Payload>;
    fn is_pending(&self, key: Key<Self::Payload>) -> bool;
    fn deadline(&self, key: Key<Self::Payload>) -> Option<Time>;
    fn pending(&self) -> usize;
    fn is_empty(&self) -> bool;
    fn keys(&self) -> impl Iterator<Item = (Key<Self::Payload>, Time)>;
    fn drain(&mut self) -> impl Iterator<Item = Unfired<Self::Payload>>;
    fn clear(&mut self);
    fn reserve(&mut self, timers: usize);
    fn set_budget(&mut self, budget: Budget);
    fn held_bytes(&self) -> usize;
    fn next_deadline(&self) -> Option<Time>;
    fn poll_timeout(&self, now: Time) -> Option<Duration>;
    fn poll_timeout_ms(&self, now: Time) -> i32;
    fn expired(&mut self, now: Time) -> Self::Due<'_>;
    fn poll(&mut self, now: Time, handler: impl FnMut(Expired<Self::Payload>)) -> Polled;
    fn poll_with(
        &mut self,
        now: Time,
        handler: impl FnMut(&mut Self, Expired<Self::Payload>),
    ) -> Polled;
}

/// What `expired` returns.
pub(crate) trait Due<L: LoopTimer>: Iterator<Item = Expired<L::Payload>> {
    fn timer(&mut self) -> &mut L;
    fn finish(self) -> Polled;
}

/// Implements both for a timer by its own calls, which have the same names.
macro_rules! loop_timer {
    ($timer:ident, $($bound:tt)*) => {
        impl<T: $($bound)*> LoopTimer for $timer<T> {
            type Payload = T;
            type Due<'a>
                = Expirations<'a, Self>
            where
                Self: 'a;

            fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
                self.cancel(key)
            }
            fn is_pending(&self, key: Key<T>) -> bool {
                self.is_pending(key)
            }
            fn deadline(&self, key: Key<T>) -> Option<Time> {
                self.deadline(key)
            }
            fn pending(&self) -> usize {
                self.pending()
            }
            fn is_empty(&self) -> bool {
                self.is_empty()
            }
            fn keys(&self) -> impl Iterator<Item = (Key<T>, Time)> {
                self.keys()
            }
            fn drain(&mut self) -> impl Iterator<Item = Unfired<T>> {
                self.drain()
            }
            fn clear(&mut self) {
                self.clear();
            }
            fn reserve(&mut self, timers: usize) {
                self.reserve(timers);
            }
            fn set_budget(&mut self, budget: Budget) {
                self.set_budget(budget);
            }
            fn held_bytes(&self) -> usize {
                self.held_bytes()
            }
            fn next_deadline(&self) -> Option<Time> {
                self.next_deadline()
            }
            fn poll_timeout(&self, now: Time) -> Option<Duration> {
                self.poll_timeout(now)
            }
            fn poll_timeout_ms(&self, now: Time) -> i32 {
                self.poll_timeout_ms(now)
            }
            fn expired(&mut self, now: Time) -> Expirations<'_, Self> {
                self.expired(now)
            }
            fn poll(&mut self, now: Time, handler: impl FnMut(Expired<T>)) -> Polled {
                self.poll(now, handler)
            }
            fn poll_with(
                &mut self,
                now: Time,
                handler: impl FnMut(&mut Self, Expired<T>),
            ) -> Polled {
                self.poll_with(now, handler)
            }
        }

        impl<T: $($bound)*> Due<$timer<T>> for Expirations<'_, $timer<T>> {
            fn timer(&mut self) -> &mut $timer<T> {
                self.timer()
            }
            fn finish(self) -> Polled {
                self.finish()
            }
        }
    };
}

loop_timer!(LocalTimer, Sized);
loop_timer!(EventLoopTimer, Send + 'static);
