//! `FixedTimer`: timers that all have the same delay.

use super::common::{Contents, expired, until};
use super::table::Due;
use crate::drive::TimerStore;
use crate::pull::{Expirations, Poll, Steps};
use crate::state::Phase;
use crate::time::{Time, whole_ms};
use crate::types::{
    Budget, BuildError, Cancel, Expired, Key, Polled, Reschedule, ScheduleError, Settings, Unfired,
};
use crate::wheel::Fifo;
use core::fmt;
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
/// let mut idle = FixedTimer::new(Duration::from_secs(30));
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
/// they were scheduled, or rescheduled last: whoever comes behind very many waits for all of them. A `now` that
/// goes back makes timers late, nothing else: a timer is never due before one that was scheduled earlier.
///
/// Operations are O(1), those that end or move the oldest timer on average; they allocate only while the
/// number of timers grows. What cancelled and moved timers leave in the queue, 16 bytes each, is swept away
/// piece by piece, so that there are never many more of these than pending timers.
pub struct FixedTimer<T> {
    delay: Duration,
    /// Its ticks are nanoseconds, its entries exact. The front is live, unless a poll was cut short.
    contents: Contents<T, Fifo, true>,
    /// The deadline at the back.
    last: Time,
}

impl Settings {
    /// Builds a timer whose timers all have the same delay. It has neither ticks nor a choice of wheels, so these two
    /// settings do not matter.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build_fixed<T>(self, delay: Duration) -> Result<FixedTimer<T>, BuildError> {
        self.check()?;
        let mut timer = FixedTimer::from_settings(delay, &self);
        timer.reserve(self.capacity);
        Ok(timer)
    }
}

impl<T> FixedTimer<T> {
    /// A timer whose timers fire `delay` after they are scheduled.
    ///
    /// With a zero delay they fire in the next poll. What would be due at [`Time::MAX`] or later never is.
    /// [`Settings::build_fixed`] sets a limit and a budget.
    #[must_use]
    pub fn new(delay: Duration) -> Self {
        Self::from_settings(delay, &Settings::new())
    }

    fn from_settings(delay: Duration, settings: &Settings) -> Self {
        Self { delay, contents: Contents::new(Fifo::new(), settings), last: Time::ZERO }
    }

    /// As [`new`](Self::new), with room for `timers` pending ones; see [`reserve`](Self::reserve).
    #[must_use]
    pub fn with_capacity(delay: Duration, timers: usize) -> Self {
        let mut timer = Self::new(delay);
        timer.reserve(timers);
        timer
    }

    /// The delay of every timer.
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
        let key = self.contents.schedule(deadline.as_nanos(), payload)?;
        self.last = deadline;
        Ok(key)
    }

    /// Cancels the timer that `key` names and hands its payload back, if it is pending.
    #[inline]
    pub fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        let Some(payload) = self.contents.table.end(key, Phase::Cancelled) else {
            return Cancel::Lost;
        };
        self.count_zombie(key);
        Cancel::Won(payload)
    }

    /// Moves the timer that `key` names to the back: it fires one delay after `now` instead.
    #[inline]
    pub fn reschedule(&mut self, now: Time, key: Key<T>) -> Reschedule {
        let deadline = self.deadline_at(now);
        let Some(armed) = self.contents.table.reschedule_anew(key, deadline.as_nanos()) else {
            return Reschedule::Gone;
        };
        self.last = deadline;
        self.contents.insert(armed.entry(deadline.as_nanos()));
        self.count_zombie(key);
        Reschedule::Moved
    }

    /// The entry that the timer `key` had is dead now.
    #[inline]
    fn count_zombie(&mut self, key: Key<T>) {
        let Contents { driver, table, .. } = &mut self.contents;
        // Brings a live entry to the front.
        if driver.wheel.front().is_some_and(|front| front.index == key.index()) {
            driver.wheel.trim(|entry| table.is_live(entry));
        }
        self.contents.count_zombie();
    }

    /// The deadline of what is scheduled at `now`: not before that of any other.
    #[inline]
    fn deadline_at(&self, now: Time) -> Time {
        self.last.max(now + self.delay)
    }

    /// The payload of the timer that `key` names, if it is pending.
    #[inline]
    #[must_use]
    pub fn get(&self, key: Key<T>) -> Option<&T> {
        self.contents.table.get(key)
    }

    /// The payload of the timer that `key` names, to be changed, if it is pending.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{FixedTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer = FixedTimer::new(Duration::from_secs(30));
    /// let key = timer.schedule(Time::ZERO, 1)?;
    /// *timer.get_mut(key).expect("it is pending") += 1;
    /// assert_eq!((timer.get(key), timer.is_pending(key), timer.pending()), (Some(&2), true, 1));
    /// assert_eq!(timer.deadline(key), Some(Time::ZERO + timer.delay()));
    /// # Ok(()) }
    /// ```
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.contents.table.get_mut(key)
    }

    /// When the timer that `key` names is due, if it is pending.
    #[inline]
    #[must_use]
    pub fn deadline(&self, key: Key<T>) -> Option<Time> {
        self.contents.table.deadline(key).map(Time::from_nanos)
    }

    /// Whether the timer that `key` names has not ended.
    #[inline]
    #[must_use]
    pub fn is_pending(&self, key: Key<T>) -> bool {
        self.contents.table.deadline(key).is_some()
    }

    /// Timers that are pending.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> usize {
        self.contents.table.pending()
    }

    /// Whether no timer is pending.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// All pending timers with their deadlines, in no particular order. O(peak number of timers).
    pub fn iter(&self) -> impl Iterator<Item = (Key<T>, Time, &T)> {
        let timers = self.contents.table.iter();
        timers.map(|(key, nanos, payload)| (key, Time::from_nanos(nanos), payload))
    }

    /// Drops all pending timers; as [`LocalTimer::clear`](crate::LocalTimer::clear). O(peak number of timers).
    pub fn clear(&mut self) {
        drop(self.drain());
    }

    /// Takes all pending timers out, in no particular order; those that the iterator has not come to when
    /// it is dropped are dropped with it; if it is forgotten, they stay, and [`next_deadline`](Self::next_deadline) may
    /// be too early once. O(peak number of timers).
    pub fn drain(&mut self) -> impl Iterator<Item = Unfired<T>> {
        self.contents.drain(Time::from_nanos)
    }

    /// Changes how much one poll may do before it returns to the loop. A zero counts as one.
    pub fn set_budget(&mut self, budget: Budget) {
        self.contents.budget = budget.at_least_one();
    }

    /// Makes room for `timers` more pending ones, as [`LocalTimer::reserve`](crate::LocalTimer::reserve): scheduling
    /// that many allocates no node. The queue grows by itself, a chunk at a time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Budget, FixedTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer = FixedTimer::with_capacity(Duration::from_secs(30), 1000);
    /// timer.set_budget(Budget::new().fire(64));
    /// timer.reserve(100_000); // a burst is coming
    /// for n in 0..100_000_u64 {
    ///     timer.schedule(Time::ZERO, n)?;
    /// }
    /// assert!(timer.iter().all(|(_, deadline, _)| deadline == Time::ZERO + timer.delay()));
    /// assert_eq!(timer.drain().map(|unfired| unfired.payload).max(), Some(99_999));
    /// let full = timer.held_bytes();
    /// timer.clear(); // does nothing more
    /// timer.shrink_to_fit();
    /// assert!(timer.held_bytes() < full);
    /// # Ok(()) }
    /// ```
    pub fn reserve(&mut self, timers: usize) {
        self.contents.table.reserve(timers);
    }

    /// Gives back the memory of nodes behind the last one in use; chunks of entries are given back by themselves.
    /// O(peak number of timers).
    pub fn shrink_to_fit(&mut self) {
        self.contents.table.shrink_to_fit();
    }

    /// Bytes held for nodes and entries, reserves included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.contents.held_bytes()
    }

    /// The earliest deadline: exact; after a poll that was cut short perhaps earlier, but due in any case.
    /// `None` if nothing is pending, or only what practically never fires. O(1).
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.contents.next_deadline(Time::from_nanos)
    }

    /// How long a loop may sleep, `None` for ever, slack included. Zero if something is due. O(1).
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Duration> {
        until(self.next_deadline(), now, |next| next.saturating_add(self.contents.slack))
    }

    /// As [`poll_timeout`](Self::poll_timeout), in whole milliseconds for `epoll_wait` or `poll`: rounded
    /// up, so that the loop never spins before a deadline; -1 for ever.
    #[must_use]
    pub fn poll_timeout_ms(&self, now: Time) -> i32 {
        whole_ms(self.poll_timeout(now))
    }

    /// Fires what is due at `now`, in the order of deadlines, within the budget.
    ///
    /// If the budget runs out, the answer says so and the next poll goes on. Costs O(fired), and a little
    /// for what was cancelled since the last poll. A `now` before that of an earlier poll counts as the latter.
    ///
    /// # Panics
    ///
    /// Only if `handler` does. The timer that it was called for counts as fired, and the next poll goes on
    /// with the others.
    pub fn poll(&mut self, now: Time, mut handler: impl FnMut(Expired<T>)) -> Polled {
        self.poll_with(now, |_, expired| handler(expired))
    }

    /// As [`poll`](Self::poll), for handlers that use the timer.
    ///
    /// What a handler schedules fires in a later poll at the earliest. A poll from inside a handler does
    /// nothing. A handler that swaps the timer for another one ends the poll; what was due in the first one
    /// fires in a later poll of it.
    ///
    /// # Panics
    ///
    /// As [`poll`](Self::poll).
    pub fn poll_with(&mut self, now: Time, handler: impl FnMut(&mut Self, Expired<T>)) -> Polled {
        self.expired(now).handle_with(handler)
    }

    /// The timers that are due at `now`, one at a time and within the budget, for loops whose own code takes the place
    /// of a handler; see [`Expirations`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{FixedTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer = FixedTimer::new(Duration::from_millis(5));
    /// timer.schedule(Time::ZERO, "first")?;
    /// assert_eq!(timer.poll_timeout_ms(Time::ZERO), 5);
    /// let now = Time::ZERO + timer.poll_timeout(Time::ZERO).expect("one is pending");
    /// for due in timer.expired(now) {
    ///     println!("{}", due.payload);
    /// }
    /// timer.schedule(now, "second")?;
    /// let later = now + timer.delay();
    /// timer.poll_with(later, |timer, due| drop(timer.schedule(later, due.payload))); // once more
    /// assert_eq!(timer.pending(), 1);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn expired(&mut self, now: Time) -> Expirations<'_, Self> {
        Expirations::begin(self, now)
    }
}

impl<T> Steps for FixedTimer<T> {
    type Payload = T;

    #[inline]
    fn begin(&mut self, now: Time) -> Option<Poll> {
        // What practically never fires does not fire at the end of the scale either.
        let fire = self.contents.budget.fire;
        let turn = self.contents.driver.begin(now.as_nanos().min(u64::MAX - 1), fire)?;
        // A poll before an earlier one counts as the latter.
        let now = Time::from_nanos(turn.now);
        Some(Poll::new(turn, now))
    }

    #[inline(always)]
    fn next(&mut self, poll: &mut Poll) -> Option<Expired<T>> {
        loop {
            if let Due::Once { payload, key, deadline } = self.contents.next(&mut poll.turn)? {
                return Some(expired(poll.now, Time::from_nanos(deadline), key, payload));
            }
        }
    }

    #[inline(always)]
    fn after_handler(&mut self, _: &mut Poll) {}

    #[inline]
    fn finish(&mut self, poll: Poll) -> Polled {
        let was_cut_short = poll.turn.cut_short;
        let polled = self.contents.finish(poll);
        if !was_cut_short {
            let Contents { driver, table, .. } = &mut self.contents;
            driver.wheel.trim(|entry| table.is_live(entry));
        }
        polled
    }
}

impl<T> fmt::Debug for FixedTimer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedTimer")
            .field("delay", &self.delay)
            .field("pending", &self.pending())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}
