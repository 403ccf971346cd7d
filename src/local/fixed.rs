//! `FixedTimer`: timers that all have the same delay.

use super::timer::LocalTimer;
use crate::settings::Settings;
use crate::time::Time;
use crate::types::{BuildError, Key, Reschedule, ScheduleError};
use crate::wheel::Fifo;
use core::time::Duration;

/// Timers of one thread that all have the same delay: idle timeouts, time-outs of requests, TTLs.
///
/// What is scheduled last is due last, so the wheel is a queue, where it is
/// more for [`LocalTimer`](crate::LocalTimer): there are no ticks, deadlines are exact to the nanosecond,
/// and so is [`next_deadline`](Self::next_deadline), always. Rescheduling moves a timer to the back.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{FixedTimer, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let seconds = |n| Time::ZERO + Duration::from_secs(n);
/// let mut idle = FixedTimer::with_delay(Duration::from_secs(30));
/// let first = idle.schedule(seconds(0), "first connection")?;
/// let second = idle.schedule(seconds(5), "second connection")?;
///
/// assert!(idle.reschedule(seconds(10), first).moved()); // it has sent something
/// assert_eq!(idle.next_deadline(), Some(seconds(35)));
/// assert_eq!(idle.cancel(second).into_payload(), Some("second connection")); // closed
/// assert_eq!(idle.next_deadline(), Some(seconds(40)));
///
/// let polled = idle.poll(seconds(40), |expired| assert_eq!(expired.key, first));
/// assert!(polled.fired == 1 && idle.is_empty());
/// # Ok(()) }
/// ```
///
/// # Guarantees
///
/// Never early, every timer ends exactly once, stale keys are harmless. Timers fire in the order in which
/// they were scheduled, or rescheduled last: a timer behind very many waits for all of them. A `now` that
/// goes back makes timers late, nothing else: a timer is never due before one that was scheduled earlier.
///
/// Operations are O(1), those that end or move the oldest timer on average; they allocate only while the
/// number of timers grows. What cancelled and moved timers leave in the queue, 16 bytes each, is swept away
/// piece by piece, so that there are never many more of these than pending timers.
pub type FixedTimer<T> = LocalTimer<T, Fifo>;

impl Settings {
    /// Builds a timer whose timers all have the same delay. It has neither ticks nor a choice of wheels, so these two
    /// settings do not matter.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build_fixed<T>(self, delay: Duration) -> Result<FixedTimer<T>, BuildError> {
        let mut timer = LocalTimer::over(Fifo::new(), self)?;
        timer.delay = delay;
        Ok(timer)
    }
}

impl<T> FixedTimer<T> {
    /// Creates a timer whose timers fire `delay` after they are scheduled.
    ///
    /// With a zero delay they fire in the next poll. What would be due at [`Time::MAX`] or later never is.
    /// [`Settings::build_fixed`] sets a limit, a budget and a capacity.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{FixedTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer = FixedTimer::with_delay(Duration::from_millis(5));
    /// let key = timer.schedule(Time::ZERO, 1)?;
    /// *timer.get_mut(key).expect("it is pending") += 1;
    /// assert_eq!(timer.deadline(key), Some(Time::ZERO + timer.delay()));
    /// assert_eq!(timer.poll_timeout_ms(Time::ZERO), 5);
    /// let now = Time::ZERO + timer.poll_timeout(Time::ZERO).expect("one is pending");
    /// timer.poll_with(now, |timer, due| drop(timer.schedule(now, due.payload))); // once more
    /// assert_eq!(timer.pending(), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_delay(delay: Duration) -> Self {
        Settings::new()
            .build_fixed(delay)
            .expect("the default settings are in range")
    }

    /// Returns the delay of every timer.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Schedules `payload` to fire one delay after `now`.
    ///
    /// # Errors
    ///
    /// If as many timers are pending as `max_pending` allows (without it, 2^32 - 1), or if there is no memory for the
    /// timer. The payload comes back in the error.
    #[inline]
    pub fn schedule(&mut self, now: Time, payload: T) -> Result<Key<T>, ScheduleError<T>> {
        let deadline = self.deadline_at(now);
        let key = self.schedule_at(deadline.as_nanos(), payload)?;
        self.last = deadline;
        Ok(key)
    }

    /// Moves the timer that `key` names to the back: it fires one delay after `now` instead.
    #[inline]
    pub fn reschedule(&mut self, now: Time, key: Key<T>) -> Reschedule {
        let deadline = self.deadline_at(now);
        let Some(armed) = self.table.reschedule_anew(key, deadline.as_nanos()) else {
            return Reschedule::Gone;
        };
        self.last = deadline;
        self.insert(armed.entry(deadline.as_nanos()));
        self.count_zombie(key);
        Reschedule::Moved
    }

    /// Returns the deadline of a timer that is scheduled at `now`: not before the one at the back.
    fn deadline_at(&self, now: Time) -> Time {
        self.last.max(now + self.delay)
    }
}
