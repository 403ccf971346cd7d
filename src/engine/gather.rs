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
use crate::types::Expired;

/// Wakers that are called together at most. Beyond that their tasks would push each other out of the cache, and a
/// waker that blocks would keep more of them waiting that have fired.
const GATHERED: usize = 32;

/// What tells where the task lies that a payload wakes, for payloads that may be wakers.
pub(super) fn whom<T: 'static>() -> Option<fn(&T) -> Option<*const ()>> {
    #[cfg(feature = "futures")]
    {
        let whom: fn(&Task) -> Option<*const ()> = Task::whom;
        (&whom as &dyn std::any::Any).downcast_ref().copied()
    }
    #[cfg(not(feature = "futures"))]
    None
}

impl<T> ShardWorker<T> {
    /// Runs the handler for a timer that has fired; for one that wakes, later in this turn.
    #[inline]
    pub(super) fn handle_in_turn(&mut self, inner: &Inner<T>, expired: Expired<T>) {
        match inner.whom.and_then(|whom| whom(&expired.payload)) {
            Some(place) => self.gather(inner, place, expired),
            None => {
                self.handle_gathered(inner);
                self.handle(inner, expired);
            }
        }
    }

    fn gather(&mut self, inner: &Inner<T>, place: *const (), expired: Expired<T>) {
        prefetch(place);
        if self.gathered.len() == GATHERED {
            self.handle_gathered(inner);
        }
        self.gathered.push_back(expired);
    }

    /// Runs the handler for what has been gathered. What is left when that is cut short is forgotten with the rest.
    #[inline]
    pub(super) fn handle_gathered(&mut self, inner: &Inner<T>) {
        while let Some(expired) = self.gathered.pop_front() {
            self.handle(inner, expired);
        }
    }

    /// Wakes what has been gathered, when the turn has not come to its end.
    pub(super) fn forget_gathered(&mut self) {
        // A task that is dropped wakes.
        contain::drop_each("a timer's payload", self.gathered.drain(..));
    }
}
