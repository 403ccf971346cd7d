//! What other threads may do with an event loop's timer.

use crate::shard;
use crate::shard::IntoPayload;
use crate::shard::periodic::{PeriodicKey, Plan};
use crate::shard::thread_state::ThreadState;
use crate::state::Phase;
use crate::sync::slot;
use crate::time::{Period, TickRate, Time, TimeSource};
use crate::types::{Cancel, Key, Reschedule, ScheduleError};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Schedules on an [`EventLoopTimer`](super::EventLoopTimer) from other threads. Clone it freely.
///
/// Everything here is lock-free and O(1), and works while the loop polls, sleeps or is busy with its
/// sockets. The loop is woken only if it sleeps beyond the new deadline. After the loop's timer is gone,
/// schedules are refused with the payload in the error.
pub struct Remote<T> {
    shard: Arc<shard::ShardHandle<T>>,
    rate: TickRate,
    source: Arc<TimeSource>,
}

impl<T> Clone for Remote<T> {
    fn clone(&self) -> Self {
        Self { shard: Arc::clone(&self.shard), rate: self.rate, source: Arc::clone(&self.source) }
    }
}

impl<T: Send + 'static> Remote<T> {
    pub(super) fn new(
        shard: Arc<shard::ShardHandle<T>>,
        rate: TickRate,
        source: Arc<TimeSource>,
    ) -> Self {
        Self { shard, rate, source }
    }

    /// Schedules `payload` to fire `delay` from now, rounded up to the next tick.
    ///
    /// # Errors
    ///
    /// If the loop's timer is gone or `max_pending` timers are pending. The payload is in the error.
    pub fn schedule(
        &self,
        delay: Duration,
        payload: impl IntoPayload<T>,
    ) -> Result<Key, ScheduleError<T>> {
        self.arm(self.rate.deadline(self.source.start_of_delay(), delay), payload.into_payload())
    }

    /// Schedules `payload` to fire at `deadline`, rounded up to the next tick; at once if that is past.
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule).
    pub fn schedule_at(
        &self,
        deadline: Time,
        payload: impl IntoPayload<T>,
    ) -> Result<Key, ScheduleError<T>> {
        self.arm(self.rate.deadline_at(self.source.now(), deadline), payload.into_payload())
    }

    fn arm(&self, tick: u64, payload: T) -> Result<Key, ScheduleError<T>> {
        self.with_thread(|thread| self.shard.schedule(thread, tick, payload, false))
            .map_err(|refusal| refusal.into_error(0))
    }

    /// Schedules a clone of `payload` once per period, the first time `first` from now; see
    /// [`Timer::schedule_periodic`](crate::Timer::schedule_periodic).
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule).
    pub fn schedule_periodic(
        &self,
        first: Duration,
        period: Period,
        payload: impl IntoPayload<T>,
    ) -> Result<PeriodicKey, ScheduleError<T>>
    where
        T: Clone,
    {
        self.begin_periodic(self.source.now(), first, period, payload.into_payload())
    }

    pub(super) fn begin_periodic(
        &self,
        now: Time,
        first: Duration,
        period: Period,
        payload: T,
    ) -> Result<PeriodicKey, ScheduleError<T>>
    where
        T: Clone,
    {
        let nominal = now.saturating_add(first);
        let plan = Plan { payload, again: T::clone, period, nominal, rate: self.rate };
        self.with_thread(|thread| self.shard.schedule_periodic(thread, plan))
            .map_err(|refusal| refusal.into_error(0))
    }

    /// Ends a periodic timer and hands back the payload that it kept.
    pub fn cancel_periodic(&self, key: PeriodicKey) -> Cancel<T> {
        let owned = key.shard() == 0;
        Cancel::from_payload(
            owned
                .then(|| self.with_thread(|thread| self.shard.cancel_periodic(thread, key)))
                .flatten(),
        )
    }

    /// Whether a periodic timer goes on.
    #[must_use]
    pub fn is_active(&self, key: PeriodicKey) -> bool {
        key.shard() == 0 && self.shard.is_active(key)
    }

    fn with_thread<R>(&self, f: impl FnOnce(&ThreadState) -> R) -> R {
        slot::with(|slot| f(self.shard.thread(slot)))
    }

    /// Cancels the timer that `key` names and hands its payload back, if it is still pending.
    pub fn cancel(&self, key: Key) -> Cancel<T> {
        let owned = self.shard.owns(key);
        Cancel::from_payload(
            owned.then(|| self.with_thread(|thread| self.shard.cancel(thread, key))).flatten(),
        )
    }

    /// Moves the timer that `key` names to fire `delay` from now instead. Pushing a deadline out sends
    /// nothing to the loop.
    pub fn reschedule(&self, key: Key, delay: Duration) -> Reschedule {
        self.rearm(key, self.rate.deadline(self.source.start_of_delay(), delay))
    }

    /// As [`reschedule`](Self::reschedule), to a point in time.
    pub fn reschedule_at(&self, key: Key, deadline: Time) -> Reschedule {
        self.rearm(key, self.rate.deadline_at(self.source.now(), deadline))
    }

    fn rearm(&self, key: Key, tick: u64) -> Reschedule {
        let owned = self.shard.owns(key);
        Reschedule::from_moved(
            owned && self.with_thread(|thread| self.shard.reschedule(thread, key, tick)),
        )
    }

    /// Whether the timer that `key` names has not ended.
    #[must_use]
    pub fn is_pending(&self, key: Key) -> bool {
        self.shard.state(key).is_some_and(|state| state.phase() == Phase::Pending)
    }

    /// Timers that are pending. O(threads).
    #[must_use]
    pub fn pending(&self) -> usize {
        usize::try_from(self.shard.pending()).unwrap_or(usize::MAX)
    }

    /// The time by the timer's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.source.now()
    }
}

impl<T> fmt::Debug for Remote<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("tick", &self.rate.tick()).finish_non_exhaustive()
    }
}
