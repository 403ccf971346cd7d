//! `FixedTimer`: timers that all have the same delay.
//!
//! The order of scheduling is the order of deadlines, so there is neither a wheel nor an entry of a timer: the nodes
//! themselves stand in a [`Queue`], and a timer that ends or moves leaves its place at once.

use super::node::drop_payload;
use super::queue::Queue;
use super::table::Table;
use crate::loop_timer::{Expirations, Poll, Steps, poll_with};
use crate::settings::Settings;
use crate::state::Phase;
use crate::time::{MonotonicNow, Time, whole_ms};
use crate::turn::TurnState;
use crate::types::{
    Budget, BuildError, Cancel, Expired, Key, Polled, Reschedule, ScheduleError, Unfired,
};
use core::time::Duration;

/// Timers of one thread that all have the same delay: idle timeouts, time-outs of requests, TTLs.
///
/// A timer that is scheduled last is due last, so a queue takes the place of a [`LocalTimer`](crate::LocalTimer)'s
/// wheel: there are no ticks, deadlines are exact to the nanosecond, and so is [`next_deadline`](Self::next_deadline),
/// always. Rescheduling moves a timer to the back.
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
/// assert!(idle.reschedule(seconds(10), first).is_moved()); // it has sent something
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
/// goes back makes timers late, nothing else: a timer is never due before one that was scheduled earlier, even if that
/// one has ended. So a `now` that is far ahead of the others makes all later timers late.
///
/// Operations are O(1) and allocate only while the number of timers grows. An ended or moved timer leaves nothing
/// behind.
pub struct FixedTimer<T> {
    /// Deadlines are in nanoseconds.
    table: Table<T>,
    queue: Queue,
    delay: Duration,
    /// The latest deadline so far.
    last: Time,
    /// The timers of one poll.
    fire: usize,
    /// How much longer than to the next deadline a loop may sleep.
    slack: Duration,
    /// Of polls.
    latest: MonotonicNow,
    /// A poll is under way.
    is_polling: bool,
}

impl Settings {
    /// Builds a [`FixedTimer`], whose timers all have the same delay.
    ///
    /// # Errors
    ///
    /// If a setting is out of range, or a tick or a clock was set.
    pub fn build_fixed<T>(self, delay: Duration) -> Result<FixedTimer<T>, BuildError> {
        let timer = "FixedTimer";
        self.refuse_clock(timer)?;
        if self.is_tick_set {
            let setting = "tick";
            return Err(BuildError::NoSuchSetting { setting, timer });
        }
        self.check()?;
        let mut timer = FixedTimer {
            table: Table::new(self.max_pending),
            queue: Queue::new(),
            delay,
            last: Time::ZERO,
            fire: self.budget.fire,
            slack: self.slack,
            latest: MonotonicNow::NONE,
            is_polling: false,
        };
        timer.reserve(self.capacity);
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
        let key = self.table.arm(deadline.as_nanos(), payload)?.key();
        if !self.queue.push(key.index()) {
            if let Some(payload) = self.table.end(key, Phase::Cancelled) {
                return Err(ScheduleError::no_memory(payload));
            }
        }
        self.last = deadline;
        Ok(key)
    }

    /// Moves the timer that `key` names to the back: it fires one delay after `now` instead.
    #[inline]
    pub fn reschedule(&mut self, now: Time, key: Key<T>) -> Reschedule {
        let deadline = self.deadline_at(now);
        if !self.table.move_without_entry(key, deadline.as_nanos()) {
            return Reschedule::Gone;
        }
        self.last = deadline;
        self.queue.move_to_back(key.index());
        Reschedule::Moved
    }

    /// Returns the deadline of a timer that is scheduled at `now`: not before the one at the back.
    #[inline]
    fn deadline_at(&self, now: Time) -> Time {
        self.last.max(now + self.delay)
    }

    /// Cancels the timer that `key` names and hands its payload back, if it is pending.
    #[inline]
    pub fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        let Some(payload) = self.table.end(key, Phase::Cancelled) else {
            return Cancel::Gone;
        };
        self.queue.remove(key.index());
        Cancel::Won(payload)
    }

    /// Returns the payload of the timer that `key` names, if it is pending.
    #[must_use]
    pub fn get(&self, key: Key<T>) -> Option<&T> {
        self.table.get(key)
    }

    /// Returns the payload of the timer that `key` names, to be changed, if it is pending.
    #[must_use]
    pub fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.table.get_mut(key)
    }

    /// Returns when the timer that `key` names is due, if it is pending.
    #[must_use]
    pub fn deadline(&self, key: Key<T>) -> Option<Time> {
        self.table.deadline(key).map(Time::from_nanos)
    }

    /// Returns whether the timer that `key` names has not ended.
    #[must_use]
    pub fn is_pending(&self, key: Key<T>) -> bool {
        self.table.deadline(key).is_some()
    }

    /// Returns the number of timers that are pending.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.table.pending()
    }

    /// Returns whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// Returns all pending timers with their deadlines, in no particular order. O(peak number of timers).
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, Time, &T)> {
        self.table
            .iter()
            .map(|(key, deadline, payload)| (key, Time::from_nanos(deadline), payload))
    }

    /// Returns the keys and deadlines of all pending timers, in no particular order. O(peak number of timers).
    pub fn keys(&self) -> impl Iterator<Item = (Key<T>, Time)> {
        self.iter().map(|(key, deadline, _)| (key, deadline))
    }

    /// Drops all pending timers. O(number of timers).
    ///
    /// A payload's destructor that panics is logged, as [`LocalTimer::clear`](crate::LocalTimer::clear) says.
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// Takes all pending timers out, in no particular order; those that the iterator has not come to when
    /// it is dropped are dropped with it; if it is forgotten, they stay. O(number of timers).
    pub fn drain(&mut self) -> impl Iterator<Item = Unfired<T>> {
        Drain(self)
    }

    /// Changes how many timers one poll may fire before it returns to the loop: [`Budget::fire`](field@Budget::fire).
    /// There is nothing to sweep. A zero counts as one.
    pub fn set_budget(&mut self, budget: Budget) {
        self.fire = budget.at_least_one().fire;
    }

    /// Makes room for `timers` more pending ones: scheduling that many allocates nothing.
    ///
    /// Without memory for all of them there is no more room than before: timers are accepted as long as each finds
    /// memory when it is scheduled.
    pub fn reserve(&mut self, timers: usize) {
        self.table.reserve(timers);
        self.queue.reserve(self.table.capacity());
    }

    /// Gives back the memory behind the last timer. O(peak number of timers).
    ///
    /// What stays is copied, so memory rises for a moment. Without memory for the copy nothing is given back.
    pub fn shrink_to_fit(&mut self) {
        self.table.shrink_to_fit();
        self.queue.shrink_to(self.table.capacity());
    }

    /// Returns how many timers there is room for without another allocation.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.table.capacity().min(self.queue.capacity())
    }

    /// Returns the bytes held for timers, reserves included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.table.held_bytes() + self.queue.held_bytes()
    }

    /// Returns when to poll next: the earliest pending deadline. `None` if nothing is pending, or only what practically
    /// never fires.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let deadline = self.table.deadline_of(self.queue.front()?);
        Some(Time::from_nanos(deadline)).filter(|next| *next < Time::MAX)
    }

    /// Returns how long a loop may sleep, `None` for ever, the builder's slack included. Zero if something is due.
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Duration> {
        let next = self.next_deadline()?;
        let until = if next <= now {
            next
        } else {
            next.saturating_add(self.slack)
        };
        Some(until.saturating_duration_since(now))
    }

    /// Like [`poll_timeout`](Self::poll_timeout), in whole milliseconds for `epoll_wait` or `poll`: rounded
    /// up, so that the loop never spins before a deadline; -1 for ever.
    #[must_use]
    pub fn poll_timeout_ms(&self, now: Time) -> i32 {
        whole_ms(self.poll_timeout(now))
    }

    /// Fires the timers that are due at `now`, within the budget: see [`LocalTimer::poll`](crate::LocalTimer::poll).
    ///
    /// # Panics
    ///
    /// Only if `handler` does. The timer that it was called for counts as fired, and the next poll goes on
    /// with the rest.
    #[inline]
    pub fn poll(&mut self, now: Time, mut handler: impl FnMut(Expired<T>)) -> Polled {
        self.poll_with(now, |_, expired| handler(expired))
    }

    /// Like [`poll`](Self::poll), for handlers that use the timer: see
    /// [`LocalTimer::poll_with`](crate::LocalTimer::poll_with).
    ///
    /// # Panics
    ///
    /// Like [`poll`](Self::poll).
    #[inline]
    pub fn poll_with(&mut self, now: Time, handler: impl FnMut(&mut Self, Expired<T>)) -> Polled {
        poll_with(self, now, handler)
    }

    /// Yields the timers that are due at `now`, one at a time and within the budget; see [`Expirations`].
    #[inline]
    pub fn expired(&mut self, now: Time) -> Expirations<'_, Self> {
        Expirations::begin(self, now)
    }
}

impl<T> Steps for FixedTimer<T> {
    type Payload = T;

    #[inline(always)]
    fn is_idle(&mut self, now: Time) -> bool {
        let now = self.latest.present(now);
        let idle = !self.is_polling && !self.table.is_due(self.queue.front, now.as_nanos());
        if idle {
            self.latest.0 = now;
        }
        idle
    }

    #[inline]
    fn begin(&mut self, now: Time) -> Option<Poll> {
        if self.is_polling {
            return None;
        }
        self.is_polling = true;
        self.queue.begin_poll();
        let now = self.latest.present(now);
        self.latest.0 = now;
        // A timer at the end of the scale never fires.
        let last_due = now.as_nanos().min(Time::MAX.as_nanos() - 1);
        Some(Poll::new(TurnState::new(last_due, self.fire), now))
    }

    #[inline]
    fn next(&mut self, poll: &mut Poll) -> Option<Expired<T>> {
        let front = self.queue.front_of_poll()?;
        if !self.table.is_due(front, poll.turn.now()) {
            return None;
        }
        if !poll.turn.spend_one() {
            return None;
        }
        let (key, deadline, payload) = self.table.take(front, Phase::Fired)?;
        self.queue.remove(front);
        poll.turn.count_fired();
        let deadline = Time::from_nanos(deadline);
        Some(Expired {
            payload,
            key,
            deadline,
            lateness: poll.now.saturating_duration_since(deadline),
            shard: 0,
        })
    }

    #[inline(always)]
    fn after_handler(&mut self, _: &mut Poll) {}

    #[inline]
    fn finish(&mut self, poll: Poll) -> Polled {
        self.is_polling = false;
        Polled {
            fired: poll.turn.fired(),
            more: poll.turn.is_cut_short(),
        }
    }
}

/// Ends all pending timers from the front on; when it is dropped, also those that it has not yielded.
struct Drain<'a, T>(&'a mut FixedTimer<T>);

impl<T> Iterator for Drain<'_, T> {
    type Item = Unfired<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let front = self.0.queue.front()?;
        let (key, deadline, payload) = self.0.table.take(front, Phase::Returned)?;
        self.0.queue.remove(front);
        Some(Unfired {
            payload,
            key,
            deadline: Time::from_nanos(deadline),
        })
    }
}

impl<T> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        self.for_each(|unfired| drop_payload(unfired.payload));
    }
}

debug_fields!([T] FixedTimer<T>, "FixedTimer", it,
    pending: it.pending(), next_deadline: it.next_deadline());

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<T: core::panic::UnwindSafe> core::panic::UnwindSafe for FixedTimer<T> {}
impl<T: core::panic::RefUnwindSafe> core::panic::RefUnwindSafe for FixedTimer<T> {}
