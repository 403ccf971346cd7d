//! From a timer that has fired to its handler, and the calls of a periodic timer.
//!
//! A periodic timer goes on to its next deadline before its handler is called. Everything else is as with other
//! timers: one key, one `cancel`, one `reschedule`. A call counts as one timer fired, and the next one as one
//! scheduled; the permit under `max_pending` is kept from schedule to end.

use super::own::Own;
use super::owner::Owner;
use super::producer::Producer;
use crate::node::fired::Fired;
use crate::node::periodic::Call;
use crate::time::{TickRate, Time};
use crate::types::Expired;
use crate::wheel::Entry;
use std::time::Duration;

impl<T, O: Own> Owner<T, O> {
    /// Records how late a timer has fired, and returns it as its handler sees it.
    #[inline(always)] // or the payload goes through memory
    pub(crate) fn expired(&self, fired: Fired<T>, rate: &TickRate, now: Time) -> Expired<T> {
        let Fired {
            payload,
            key,
            deadline,
            is_last,
        } = fired;
        let deadline = rate.start_of(deadline);
        let late_ns = now.as_nanos().saturating_sub(deadline.as_nanos());
        self.handle.counters.lateness.record(late_ns);
        let lateness = Duration::from_nanos(late_ns);
        Expired::new(payload, key, deadline, lateness, is_last)
    }

    /// Decides about a periodic timer that is due, directly before its handler is called; `None` if it is not called after
    /// all. Nothing of the user's may run between this and the handler.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub(crate) fn call(&mut self, index: u32, mark: u32, now: Time) -> Option<Fired<T>> {
        let Producer { shard, thread } = self.handle.of_owner();
        let tick = self.wheel.now();
        let clone_panicked = || _ = shard.counters.panics.add(1);
        let call = shard
            .table
            .call(&thread.cache, (index, mark), tick, now, clone_panicked);
        let (fired, entry) = match call {
            Call::Begins {
                fired,
                entry,
                recurrence,
            } => {
                // The next call is counted before this one counts as over, so that the timer always counts as pending.
                thread.scheduled.add(1);
                shard.counters.fired.add(1);
                self.resting = recurrence.rests.then_some((fired.key, recurrence));
                (Some(fired), Some(entry))
            }
            Call::Last(fired) => {
                shard.release_permit();
                shard.counters.fired.add(1);
                (Some(fired), None)
            }
            Call::Waits(entry) => (None, Some(entry)),
            Call::Gone => (None, None),
        };
        if let Some((deadline, mark)) = entry.filter(|_| !self.wheel.is_at_last_tick()) {
            self.insert(Entry {
                deadline,
                index,
                mark,
            });
        }
        if fired.is_none() {
            self.wheel.count_not_fired();
        }
        fired
    }

    /// Begins the pause of a timer with a fixed delay, whose handler has returned or has panicked at `now`. Does nothing
    /// after other timers, and does not ask for the time then.
    #[inline]
    pub(crate) fn finish_call(&mut self, now: impl FnOnce() -> Time) {
        if let Some((key, recurrence)) = self.resting.take() {
            let Producer { shard, thread } = self.handle.of_owner();
            shard.table.rest(&thread.cache, key, recurrence, now());
        }
    }
}
