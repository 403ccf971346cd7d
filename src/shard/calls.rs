//! From a timer that has fired to its handler, and the calls of a periodic timer.
//!
//! A periodic timer is confirmed before its handler is called, and sent on after it. Everything else is as with other
//! timers: one key, one `cancel`, one `reschedule`. A call counts as one timer fired, and the next one as one
//! scheduled; the permit under `max_pending` is kept from schedule to end.

use super::own::Own;
use super::owner::Owner;
use crate::contain;
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
            ..
        } = fired;
        let deadline = rate.start_of(deadline);
        let late_ns = now.as_nanos().saturating_sub(deadline.as_nanos());
        self.handle.counters.lateness.record(late_ns);
        let lateness = Duration::from_nanos(late_ns);
        Expired::new(payload, key, deadline, lateness)
    }

    /// Confirms, directly before the handler is called, a periodic timer that fired; `None` if another thread has
    /// ended it since, or moved it. Nothing of the user's may run between this and the handler. Timers that fire once
    /// need none of this.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub(crate) fn confirm(&mut self, fired: Fired<T>) -> Option<Fired<T>> {
        let own = self.handle.of_owner();
        let index = fired.key.index();
        // The next call is counted before this one counts as over, so that the timer always counts as pending.
        match own
            .shard
            .table
            .confirm_call(&own.thread.cache, fired, self.wheel.now())
        {
            Call::Begins(fired) => {
                own.thread.scheduled.add(1);
                own.shard.counters.fired.add(1);
                return Some(fired);
            }
            Call::Moved(inserted) => {
                self.calling = None;
                if let Some((deadline, mark)) = inserted {
                    self.insert(Entry {
                        deadline,
                        index,
                        mark,
                    });
                }
            }
            Call::Ended(payload) => {
                self.calling = None;
                contain::drop_payload(payload);
            }
        }
        self.wheel.count_not_fired();
        None
    }

    /// Returns whether a periodic timer is at a call.
    pub(crate) fn is_calling(&self) -> bool {
        self.calling.is_some()
    }

    /// Ends a call whose handler has returned, or has panicked: sends a periodic timer on to its next deadline,
    /// counted from `now`. Does nothing after a timer that fires once, and does not ask for the time then.
    #[inline]
    pub(crate) fn finish_call(&mut self, now: impl FnOnce() -> Time) {
        if self.calling.is_some() {
            self.go_on(now());
        }
    }

    #[cold]
    #[inline(never)]
    fn go_on(&mut self, now: Time) {
        let Some(index) = self.calling.take() else {
            return;
        };
        let own = self.handle.of_owner();
        let inserted = own.shard.table.finish_call(&own.thread.cache, index, now);
        if let Some((deadline, mark)) = inserted.filter(|_| !self.wheel.is_at_last_tick()) {
            self.insert(Entry {
                deadline,
                index,
                mark,
            });
        }
    }

    /// Leaves the call of a periodic timer out that has fired: the timer waits for the shard's end, which returns it.
    #[cold]
    pub(crate) fn leave_out_call(&mut self, fired: Fired<T>) {
        self.abandon_call();
        self.wheel.count_not_fired();
        contain::drop_payload(fired.payload);
    }

    /// Gives up the call that is prepared or under way, if there is one: its timer waits without an entry.
    pub(super) fn abandon_call(&mut self) {
        if let Some(index) = self.calling.take() {
            self.handle
                .table
                .abandon_call(&self.handle.of_owner().thread.cache, index);
        }
    }
}
