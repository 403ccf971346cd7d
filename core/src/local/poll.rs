//! `LocalTimer`: firing what is due.

use super::table::Due;
use super::timer::LocalTimer;
use crate::loop_timer::{Expirations, Poll, Steps, poll_with};
use crate::time::{Clock, Time, read_quietly};
use crate::types::{Expired, Key, Polled};
use crate::wheel::{NodeMemory, Settled};

impl<T> LocalTimer<T> {
    /// Fires what is due at `now`, in the order of deadlines, within the budget.
    ///
    /// If the budget runs out, the answer says so and the next poll goes on: look after your sockets in
    /// between, and do not sleep. An entry may turn out to belong to a timer that was cancelled or pushed
    /// out, so up to [`Budget::fire`](crate::Budget::fire) timers fire. What is left of cancelled timers is swept by
    /// polls as well, a bounded piece each time, after everything due; that too counts as more to do. If nothing is due
    /// and no sweep goes on, a poll costs a few nanoseconds.
    ///
    /// A `now` before that of an earlier poll counts as the latter.
    ///
    /// # Panics
    ///
    /// Only if `handler` does, or the `Clone` of a periodic timer's payload. The timer that it was called for counts as
    /// fired, and the next poll goes on with the rest. A periodic timer goes on with its next period.
    #[inline]
    pub fn poll(&mut self, now: Time, mut handler: impl FnMut(Expired<T>)) -> Polled {
        self.poll_with(now, |_, expired| handler(expired))
    }

    /// Like [`poll`](Self::poll), for handlers that use the timer: schedule again, cancel a neighbour.
    ///
    /// A timer that a handler schedules fires in a later poll, even if it is due already;
    /// [`poll_timeout`](Self::poll_timeout) then answers zero. So a handler that schedules zero delays for ever starves
    /// no other timer. One that schedules into the past may. A poll from inside a handler does nothing. A handler must
    /// not put another timer in the place of this one: memory stays safe, but what the two timers do from then on is
    /// not specified.
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
    ///     let polled = timer.poll_with(now, |timer, expired| {
    ///         tries.push(now.as_nanos() / 1_000_000);
    ///         let attempt: u32 = expired.payload;
    ///         if attempt < 3 {
    ///             timer
    ///                 .schedule(now, Duration::from_millis(10 << attempt), attempt + 1)
    ///                 .unwrap();
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
    /// Like [`poll`](Self::poll).
    #[inline]
    pub fn poll_with(&mut self, now: Time, handler: impl FnMut(&mut Self, Expired<T>)) -> Polled {
        poll_with(self, now, handler)
    }

    /// Yields the timers that are due at `now`, one at a time and within the budget, for loops whose own code takes
    /// the place of a handler; see [`Expirations`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{LocalTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    /// timer.schedule(Time::ZERO, Duration::from_millis(3), "flush")?;
    /// let sleep = timer.poll_timeout(Time::ZERO).expect("one is pending");
    /// for due in timer.expired(Time::ZERO + sleep) {
    ///     println!("{}", due.payload);
    /// }
    /// assert!(timer.is_empty());
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn expired(&mut self, now: Time) -> Expirations<'_, Self> {
        Expirations::begin(self, now)
    }

    /// Begins the pause of the timer that was handled last, if it has not begun.
    #[inline]
    fn rest(&mut self, ended: Time) {
        if let Some(key) = self.resting.take() {
            self.table.rest(key, ended);
        }
    }

    /// Sends a periodic timer on to its next deadline and fires it for this one: in this order, so that the timer goes
    /// on even if the payload's `clone`, or the handler, panics.
    #[cold]
    #[inline(never)]
    fn fire_periodic(&mut self, poll: &mut Poll, index: u32) -> Option<Expired<T>> {
        let Self { table, wheel, .. } = self;
        let renewed = table.renew(index, poll.now);
        // Not deferred to the next poll: a period missed in a burst is due in this one, after the timers
        // that are due already, and counts against the same budget.
        wheel.accept(renewed.entry, table);
        let payload = table.clone_payload(renewed.key)?;
        self.resting = (poll.has_clock && renewed.rests).then_some(renewed.key);
        Some(expired(
            poll.now,
            self.rate.start_of(renewed.deadline),
            renewed.key,
            payload,
            false,
        ))
    }

    /// Like [`poll_with`](Self::poll_with) at the time that `clock` tells, which is read again after each
    /// handler of a timer with a [fixed delay](crate::Period::fixed_delay), when it returns or panics: its pause begins
    /// there. If the clock panics then, this poll ends, and the pause begins at the next one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{LocalTimer, ManualClock, Period};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (clock, ms) = (ManualClock::new(), Duration::from_millis);
    /// let mut timer = LocalTimer::new(ms(1))?;
    /// let pause = Period::fixed_delay(ms(10));
    /// let key = timer.schedule_periodic(clock.now(), Duration::ZERO, pause, "slow")?;
    /// timer.poll_with_clock(&clock, |_, _| drop(clock.advance(ms(7)))); // it takes 7 ms
    /// assert_eq!(timer.deadline(key), Some(clock.now() + ms(10)));
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// Like [`poll`](Self::poll), and if `clock` does before the first handler.
    pub fn poll_with_clock(
        &mut self,
        clock: &(impl Clock + ?Sized),
        mut handler: impl FnMut(&mut Self, Expired<T>),
    ) -> Polled {
        let mut due = self.expired(clock.now());
        if let Some(poll) = due.poll() {
            poll.has_clock = true;
        }
        while let Some(expired) = due.next() {
            if due.timer().resting.is_none() {
                handler(due.timer(), expired);
                continue;
            }
            let call = CallUnderWay {
                due: &mut due,
                clock,
            };
            handler(call.due.timer(), expired);
            drop(call);
            // Its end is not known: the next poll is to begin the pause.
            if due.timer().resting.is_some() {
                break;
            }
        }
        due.finish()
    }
}

/// A handler's call, after which a pause begins, be it by a panic.
struct CallUnderWay<'c, 'a, T, C: Clock + ?Sized> {
    due: &'c mut Expirations<'a, LocalTimer<T>>,
    clock: &'c C,
}

impl<T, C: Clock + ?Sized> Drop for CallUnderWay<'_, '_, T, C> {
    fn drop(&mut self) {
        if let Some(ended) = read_quietly(self.clock) {
            self.due.timer().rest(ended);
        }
    }
}

impl<T> Steps for LocalTimer<T> {
    type Payload = T;

    #[inline(always)]
    fn is_idle(&mut self, now: Time) -> bool {
        let now = self.latest.present(now);
        let idle = self.rate.current(now) < self.wheel.idle_until();
        if idle {
            self.latest.0 = now;
        }
        idle
    }

    #[inline]
    fn begin(&mut self, now: Time) -> Option<Poll> {
        if self.wheel.is_turning() {
            return None;
        }
        let now = self.latest.present(now);
        self.latest.0 = now;
        // Left over where the clock could not be read.
        self.rest(now);
        self.wheel
            .begin_turn(self.rate.current(now), &self.budget, false);
        Some(Poll::at(now))
    }

    #[inline(always)]
    fn next(&mut self, poll: &mut Poll) -> Option<Expired<T>> {
        loop {
            match self.wheel.next(&mut self.table)? {
                Due::Once {
                    payload,
                    key,
                    deadline,
                } => {
                    return Some(expired(
                        poll.now,
                        self.rate.start_of(deadline),
                        key,
                        payload,
                        true,
                    ));
                }
                Due::Every { index } => {
                    if let Some(expired) = self.fire_periodic(poll, index) {
                        return Some(expired);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn after_handler(&mut self, _: &mut Poll) {}

    #[inline]
    fn finish(&mut self) -> Polled {
        let mut polled = self.wheel.end_turn(&self.table, false, self.budget.sweep);
        let settled = self.wheel.settle_spare(polled.more, NodeMemory::InUse);
        polled.more |= settled == Settled::Resumes;
        polled
    }
}

/// Describes a timer that fires in the poll at `now`.
#[inline(always)]
fn expired<T>(now: Time, deadline: Time, key: Key<T>, payload: T, is_last: bool) -> Expired<T> {
    let lateness = now.saturating_duration_since(deadline);
    Expired {
        payload,
        key,
        deadline,
        lateness,
        shard: 0,
        is_last,
    }
}
