//! From a timer that has fired to its handler, and the calls of a periodic timer.
//!
//! A periodic timer goes on to its next deadline before its handler is called. Everything else is as with other
//! timers: one key, one `cancel`, one `reschedule`. A call counts as one timer fired, and the next one as one
//! scheduled; the permit under `max_pending` is kept from schedule to end.

use super::own::Own;
use super::owner::Owner;
use super::producer::Producer;
use super::stats::LastFired;
use crate::node::periodic::Call;
use crate::node::table::Fired;
use crate::time::{TickRate, Time};
use crate::types::Expired;
use crate::wheel::Entry;

impl<T, O: Own> Owner<T, O> {
    /// Records how late a timer has fired, and returns it as its handler sees it.
    #[inline(always)] // or the payload goes through memory
    pub(crate) fn expired(
        &mut self,
        fired: Fired<T>,
        is_last: bool,
        rate: &TickRate,
        now: Time,
    ) -> Expired<T> {
        let Fired {
            payload,
            key,
            deadline: tick,
        } = fired;
        if (self.last_fired.tick, self.last_fired.now) != (tick, now) {
            self.last_fired = LastFired::of(tick, now, rate);
        }
        let LastFired {
            deadline,
            lateness,
            sample,
            ..
        } = self.last_fired;
        self.handle.counters.lateness.record(sample);
        Expired::new(payload, key, deadline, lateness, is_last)
    }

    /// Decides about a periodic timer that is due, directly before its handler is called, and whether that is its last
    /// call; `None` if it is not called after all. Nothing of the user's may run between this and the handler.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub(crate) fn call(&mut self, index: u32, mark: u32, now: Time) -> Option<(Fired<T>, bool)> {
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
                (Some((fired, false)), Some(entry))
            }
            Call::Last(fired) => {
                shard.release_permit();
                shard.counters.fired.add(1);
                (Some((fired, true)), None)
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

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::node::offer::offer;
    use crate::node::table::Due;
    use crate::sync::way;
    use crate::types::Budget;
    use std::time::Duration;

    /// Timers of one tick between which the clock is read again, and timers of two ticks at one reading.
    #[test]
    fn each_timer_is_as_late_as_the_clock_says() {
        const MS: u64 = 1_000_000;
        let rate = TickRate::new(MS);
        let mut owner = Owner::new(way::new_group(), 0, None, Box::new(|| true), &rate);
        let handle = std::sync::Arc::clone(&owner.handle);
        for tick in [5, 5, 5, 6] {
            let _ = offer(7, |it| handle.producer(0).schedule(tick, it, false)).unwrap();
        }
        owner.begin_turn(7, &Budget::new(), false);
        for (now, late) in [(7, 2), (7, 2), (9, 4), (9, 3)] {
            let Some(Due::Once(fired)) = owner.next_in_turn() else {
                panic!("all of them are due");
            };
            let expired = owner.expired(fired, true, &rate, Time::from_nanos(now * MS));
            assert_eq!(expired.lateness, Duration::from_nanos(late * MS));
        }
        let lateness = handle.counters.lateness.snapshot();
        assert_eq!(
            (lateness.count(), lateness.sum()),
            (4, Duration::from_nanos(11 * MS))
        );
        let _ = owner.finish_turn(&Budget::new());
    }
}
