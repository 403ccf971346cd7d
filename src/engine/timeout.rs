//! `Timeout`: the owned handle of one timer.

use super::inner::Inner;
use crate::state::{Phase, State};
use crate::time::Time;
use crate::types::{Cancel, Key, Reschedule};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The owned handle of one timer: cancel it, move it, ask how it ended.
///
/// A `Timeout` keeps its timer's record, so its answers hold for ever, and it keeps the engine's memory
/// (not its workers). It cannot be cloned; [`key`](Self::key) gives a plain copy of its name.
///
/// Dropping a `Timeout` leaves the timer armed.
pub struct Timeout<T> {
    inner: Arc<Inner<T>>,
    key: Key,
}

impl<T> Timeout<T> {
    pub(super) fn new(inner: Arc<Inner<T>>, key: Key) -> Self {
        Self { inner, key }
    }

    /// Cancels the timer and hands its payload back, if it is still pending. One compare-and-swap.
    pub fn cancel(&self) -> Cancel<T> {
        let key = self.key;
        Cancel::from_payload(
            self.inner.with_thread(key, |handle, thread| handle.cancel_held(thread, key)).flatten(),
        )
    }

    /// Moves the timer to fire `delay` from now instead; see [`Timer::reschedule`](crate::Timer::reschedule).
    pub fn reschedule(&self, delay: Duration) -> Reschedule {
        self.inner.reschedule(self.key, self.inner.deadline(delay))
    }

    /// As [`reschedule`](Self::reschedule), to a point in time.
    pub fn reschedule_at(&self, deadline: Time) -> Reschedule {
        self.inner.reschedule(self.key, self.inner.rate.deadline_at(self.inner.now(), deadline))
    }

    fn phase(&self) -> Phase {
        let state = self.inner.handle(self.key).and_then(|handle| handle.state(self.key));
        state.map_or(Phase::Idle, State::phase)
    }

    /// Whether the timer has not ended.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        match self.phase() {
            Phase::Pending | Phase::Waiting | Phase::Preparing | Phase::Running => true,
            Phase::Idle | Phase::Cancelled | Phase::Returned | Phase::Fired => false,
        }
    }

    /// Whether the timer was cancelled, or returned by `stop`.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match self.phase() {
            Phase::Cancelled | Phase::Returned => true,
            Phase::Idle | Phase::Fired => false,
            Phase::Pending | Phase::Waiting | Phase::Preparing | Phase::Running => false,
        }
    }

    /// Whether the timer has fired (its handler may still be running).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.phase() == Phase::Fired
    }

    /// When the timer is or was due: the time asked for, rounded up to a tick.
    #[must_use]
    pub fn deadline(&self) -> Time {
        let tick = self.inner.handle(self.key).map_or(u64::MAX, |handle| handle.deadline(self.key));
        self.inner.rate.start_of(tick)
    }

    /// The timer's name.
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }

    /// Gives up the handle and keeps the name; the timer stays armed.
    #[must_use = "to let the timer run without a name, drop the Timeout"]
    pub fn detach(self) -> Key {
        self.key
    }
}

impl<T> Drop for Timeout<T> {
    fn drop(&mut self) {
        let key = self.key;
        self.inner.with_thread(key, |handle, thread| handle.release(thread, key));
    }
}

impl<T> fmt::Debug for Timeout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("key", &self.key).field("phase", &self.phase()).finish()
    }
}
