//! `LocalTimer`: firing what is due.

use super::SWEEP_PER_POLL;
use super::table::Due;
use super::timer::LocalTimer;
use crate::drive::TurnState;
use crate::time::{Clock, Time};
use crate::types::{Expired, Key, Polled};

impl<T> LocalTimer<T> {
    /// Fires what is due at `now`, in the order of deadlines, looking at `budget` entries at most.
    ///
    /// If the budget runs out, the answer says so and the next poll goes on: look after your sockets in
    /// between, and do not sleep. An entry may turn out to belong to a timer that was cancelled or pushed
    /// out, so up to `budget` timers fire. What is left of cancelled timers is swept by polls as well, a
    /// bounded piece each time, after everything due; that too counts as more to do.
    ///
    /// A `now` before that of an earlier poll counts as the latter.
    ///
    /// # Panics
    ///
    /// Only if `handler` does. The timer that it was called for counts as fired, and the next poll goes on
    /// with the others. A periodic timer goes on with its next period.
    pub fn poll(
        &mut self,
        now: Time,
        budget: usize,
        mut handler: impl FnMut(Expired<T>),
    ) -> Polled {
        self.fire(now, budget, || None, |_, expired| handler(expired))
    }

    /// As [`poll`](Self::poll), for handlers that use the timer: schedule again, cancel a neighbour.
    ///
    /// What a handler schedules fires in a later poll at the earliest, even if it is due already, so a
    /// handler that schedules zero delays for ever starves nobody; [`poll_timeout`](Self::poll_timeout)
    /// then answers zero. A poll from inside a handler does nothing. A handler that swaps the timer for another
    /// one ends the poll; what was due in the first one fires in a later poll of it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{LocalTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // A request is tried three times, each time with twice the timeout.
    /// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    /// timer.schedule(Time::ZERO, Duration::from_millis(10), 1)?;
    /// let mut tries = Vec::new();
    /// while let Some(now) = timer.next_deadline() {
    ///     let polled = timer.poll_with(now, 100, |timer, expired| {
    ///         tries.push(now.as_nanos() / 1_000_000);
    ///         let attempt: u32 = expired.payload;
    ///         if attempt < 3 {
    ///             timer.schedule(now, Duration::from_millis(10 << attempt), attempt + 1).unwrap();
    ///         }
    ///     });
    ///     assert_eq!(polled.fired, 1);
    /// }
    /// assert_eq!(tries, [10, 30, 70]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// As [`poll`](Self::poll).
    pub fn poll_with(
        &mut self,
        now: Time,
        budget: usize,
        handler: impl FnMut(&mut Self, Expired<T>),
    ) -> Polled {
        self.fire(now, budget, || None, handler)
    }

    /// As [`poll_with`](Self::poll_with) at the time that `clock` tells, which is read again after each
    /// handler of a timer with a [fixed delay](crate::Period::fixed_delay): its pause begins there.
    ///
    /// # Panics
    ///
    /// As [`poll`](Self::poll).
    pub fn poll_with_clock(
        &mut self,
        clock: &(impl Clock + ?Sized),
        budget: usize,
        handler: impl FnMut(&mut Self, Expired<T>),
    ) -> Polled {
        self.fire(clock.now(), budget, || Some(clock.now()), handler)
    }

    /// `ended` tells when a handler has ended, if that is known.
    fn fire(
        &mut self,
        now: Time,
        budget: usize,
        ended: impl Fn() -> Option<Time>,
        mut handler: impl FnMut(&mut Self, Expired<T>),
    ) -> Polled {
        let now = self.latest.max(now);
        let Some(mut turn) = self.driver.begin(self.rate.current(now), budget) else {
            return Polled { fired: 0, more: false };
        };
        self.latest = now;
        while self.driver.owns(&turn) {
            let Some(due) = self.driver.next(&mut turn, &mut self.table) else { break };
            match due {
                Due::Once { payload, key, deadline } => {
                    let expired = self.expired(now, key, deadline, payload);
                    handler(self, expired);
                }
                Due::Every { index } => {
                    self.fire_periodic(now, index, &turn, &ended, &mut handler);
                }
            }
        }
        let (fired, more) = (turn.fired, turn.cut_short);
        self.driver.finish(turn);
        let sweeping = self.driver.keep_bounded(&mut self.table, false, SWEEP_PER_POLL);
        Polled { fired, more: more || sweeping }
    }

    #[inline]
    fn expired(&self, now: Time, key: Key<T>, tick: u64, payload: T) -> Expired<T> {
        let deadline = self.rate.start_of(tick);
        let lateness = now.saturating_duration_since(deadline);
        Expired { payload, key, deadline, lateness, shard: 0 }
    }

    /// Sends a periodic timer on to its next deadline, then calls the handler for this one: in this order,
    /// so that the timer goes on even if the handler, or the payload's `clone`, panics.
    #[cold]
    #[inline(never)]
    fn fire_periodic(
        &mut self,
        now: Time,
        index: u32,
        turn: &TurnState,
        ended: impl Fn() -> Option<Time>,
        mut handler: impl FnMut(&mut Self, Expired<T>),
    ) {
        let renewed = self.table.renew(index, now);
        // Not deferred to the next poll: a period missed in a burst is due in this one, after the timers
        // that are due already, and counts against the same budget.
        while !self.driver.file_at_once(renewed.entry) {
            self.driver.evict_dead(&self.table);
        }
        let Some(payload) = self.table.clone_payload(renewed.key) else {
            return;
        };
        let expired = self.expired(now, renewed.key, renewed.deadline, payload);
        handler(self, expired);
        let Some((nominal, ended)) = renewed.resting.zip(ended()) else {
            return;
        };
        // The handler may have put another timer in this one's place.
        if self.driver.owns(turn) {
            self.table.rest(renewed.key, nominal, ended);
        }
    }
}
