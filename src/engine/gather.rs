//! Wakers are gathered while a turn goes through what is due, and called together.
//!
//! A waker's first step is an atomic instruction on its task, which lies anywhere: a cache miss each. So the task is
//! asked for when the timer fires, and woken some timers later. Also, the runtime's thread that the first wake calls
//! finds more than one task when it comes.
//!
//! The order stays: what is no waker is handled after those before it. A waker that panics or blocks does to the others
//! what a handler does.

use super::inner::{Inner, ShardWorker};
#[cfg(feature = "futures")]
use super::task::Task;
use crate::contain;
use crate::sync::prefetch::prefetch;
use crate::time::Time;
use crate::types::Expired;
use std::collections::VecDeque;
use std::task::Waker;

/// Wakers that are called together at most. Beyond that their tasks would push each other out of the cache, and a
/// waker that blocks would keep more of them waiting that have fired.
const GATHERED: usize = 32;

/// What finds the waker in a payload, for payloads that may be wakers.
pub(super) fn waker_of<T: 'static>() -> Option<fn(&T) -> Option<&Waker>> {
    #[cfg(feature = "futures")]
    {
        let waker_of: fn(&Task) -> Option<&Waker> = Task::waker;
        (&waker_of as &dyn std::any::Any).downcast_ref().copied()
    }
    #[cfg(not(feature = "futures"))]
    None
}

/// Room for what a turn gathers, for payloads that may be wakers.
pub(super) fn room<T: 'static>() -> VecDeque<Expired<T>> {
    VecDeque::with_capacity(if waker_of::<T>().is_some() { GATHERED } else { 0 })
}

impl<T> Inner<T> {
    /// Wakes the future whose timer was returned: it must not wait for whoever has been given the payload.
    pub(super) fn wake_returned(&self, payload: &T) {
        if let Some(waker) = self.waker_of.and_then(|waker_of| waker_of(payload)) {
            contain::quietly("a waker", || waker.wake_by_ref());
        }
    }
}

impl<T> ShardWorker<T> {
    /// Runs the handler for a timer that has fired at `now`; for one that wakes, later in this turn, unless somebody
    /// wants to know how long each takes.
    #[inline]
    pub(super) fn handle_in_turn(&mut self, inner: &Inner<T>, expired: Expired<T>, now: Time) {
        match inner.waker_of.and_then(|waker_of| waker_of(&expired.payload)) {
            // Its data is where the task lies that it wakes, as far as anybody can tell.
            Some(waker) if inner.hooks.slow.is_none() => {
                self.gather(inner, waker.data(), expired, now);
            }
            _ => {
                self.handle_gathered(inner, now);
                self.handle(inner, expired, now);
            }
        }
    }

    fn gather(&mut self, inner: &Inner<T>, place: *const (), expired: Expired<T>, now: Time) {
        prefetch(place);
        if self.gathered.len() == GATHERED {
            self.handle_gathered(inner, now);
        }
        self.gathered.push_back(expired);
    }

    /// Runs the handler for the timers that have been gathered.
    #[inline]
    pub(super) fn handle_gathered(&mut self, inner: &Inner<T>, now: Time) {
        while let Some(expired) = self.gathered.pop_front() {
            self.handle(inner, expired, now);
        }
    }

    /// Wakes what has been gathered, when the turn has not come to its end.
    pub(super) fn forget_gathered(&mut self) {
        // A task that is dropped wakes.
        contain::drop_each("a timer's payload", self.gathered.drain(..));
    }
}

#[cfg(all(test, feature = "futures", not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::{Builder, Drive, Time, Timer};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    /// Counts how often it is woken, and panics each time.
    struct Panicking(AtomicUsize);

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("a waker");
        }
    }

    /// A shard that has gathered so many, and whom it has woken.
    fn gathered(timer: &Timer, count: usize) -> (ShardWorker<Task>, Arc<Panicking>) {
        let inner: &Inner<Task> = &timer.inner;
        let mut shard = inner.lifecycle.state.lock().unwrap().idle[0].take().unwrap();
        let wakers = Arc::new(Panicking(AtomicUsize::new(0)));
        for _ in 0..count {
            let payload = Task::waking(Waker::from(Arc::clone(&wakers)));
            // A key of any timer: nobody asks for it.
            let key = timer.schedule_key(Duration::ZERO, Task::new(|| ())).unwrap();
            let (deadline, lateness) = (Time::ZERO, Duration::ZERO);
            let expired = Expired { payload, key, deadline, lateness, shard: 0 };
            shard.handle_in_turn(inner, expired, Time::ZERO);
        }
        (shard, wakers)
    }

    #[test]
    fn a_shard_that_ends_in_the_middle_of_a_turn_wakes_whom_it_has_gathered() {
        let timer: Timer = Builder::new().shards(1).drive(Drive::Manual).build().unwrap();
        let (shard, wakers) = gathered(&timer, 3);
        assert_eq!((shard.gathered.len(), wakers.0.load(Ordering::Relaxed)), (3, 0));
        assert_eq!(shard.close(&timer.inner).len(), 3, "those that have not fired");
        assert_eq!(wakers.0.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn when_so_many_are_gathered_they_are_called_before_the_next_one() {
        let timer: Timer = Builder::new().shards(1).drive(Drive::Manual).build().unwrap();
        let (shard, wakers) = gathered(&timer, GATHERED + 1);
        assert_eq!((shard.gathered.len(), wakers.0.load(Ordering::Relaxed)), (1, GATHERED));
        shard.close(&timer.inner);
    }
}
