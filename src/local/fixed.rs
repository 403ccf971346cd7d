//! `FixedTimer`: timers that all have the same delay.

use super::common::{SWEEP_PER_LOOK, ZOMBIES_PER_LOOK, no_memory, refusal, until};
use super::table::{Due, MAX_NODES, Table};
use crate::drive::{Driver, Fate, TimerStore};
use crate::pull::{Expirations, Poll, Steps};
use crate::state::Phase;
use crate::time::{Time, whole_ms};
use crate::types::{Budget, Cancel, Expired, Key, Polled, Reschedule, ScheduleError, Settings};
use crate::wheel::{Entry, Fifo};
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
/// assert_eq!(idle.cancel(second).payload(), Some("second connection")); // closed
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
    pub(super) table: Table<T>,
    /// Its ticks are nanoseconds, its entries exact. The front is live, unless a poll was cut short.
    pub(super) driver: Driver<Fifo>,
    /// The deadline at the back.
    last: Time,
    limit: usize,
    /// What one poll may do.
    pub(super) budget: Budget,
    slack: Duration,
    /// Zombies made since the last look at their bound.
    pub(super) unlooked: u32,
}

/// The table as the driver of a `FixedTimer` asks it: every move files an entry of its own, so an entry that names
/// another deadline than its node is a zombie.
struct Exact<'a, T>(&'a mut Table<T>);

impl<T> TimerStore for Exact<'_, T> {
    type Fired = Due<T>;

    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        self.0.is_exact(entry)
    }

    #[inline]
    fn prefetch(&self, entry: &Entry) {
        self.0.prefetch(entry);
    }

    #[inline]
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Due<T>> {
        if self.0.is_exact(&entry) { self.0.decide(entry, now) } else { Fate::Drop }
    }

    fn renew_entry(&mut self, _: Entry) -> Option<Entry> {
        None
    }

    fn pending(&self) -> u64 {
        self.0.pending() as u64
    }
}

impl<T> FixedTimer<T> {
    /// A timer whose timers fire `delay` after they are scheduled.
    ///
    /// With a zero delay they fire in the next poll; a delay beyond the scale of [`Time`] never ends.
    /// [`LocalBuilder::build_fixed`](crate::LocalBuilder::build_fixed) sets a limit and a budget.
    #[must_use]
    pub fn new(delay: Duration) -> Self {
        Self::from_parts(delay, &Settings::default())
    }

    pub(super) fn from_parts(delay: Duration, settings: &Settings) -> Self {
        Self {
            delay,
            table: Table::new(),
            driver: Driver::new(Fifo::new()),
            last: Time::ZERO,
            limit: settings.max_pending.map_or(MAX_NODES, |limit| limit.min(MAX_NODES)),
            budget: settings.budget,
            slack: settings.slack,
            unlooked: 0,
        }
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
        if self.table.pending() >= self.limit {
            return Err(refusal(self.limit, payload));
        }
        let deadline = self.next_last(now).as_nanos();
        let armed = self.table.arm(deadline, payload).map_err(no_memory)?;
        self.push(armed.entry(deadline));
        Ok(armed.key())
    }

    /// The deadline of what is scheduled at `now`, which becomes the last of all.
    #[inline]
    fn next_last(&mut self, now: Time) -> Time {
        self.last = self.last.max(now + self.delay);
        self.last
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        while !self.driver.file(entry) {
            self.driver.evict_dead(&Exact(&mut self.table));
        }
    }

    /// Cancels the timer that `key` names and hands its payload back, if it is pending.
    #[inline]
    pub fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        let Some(payload) = self.table.end(key, Phase::Cancelled) else {
            return Cancel::Lost;
        };
        self.count_zombie(key);
        Cancel::Won(payload)
    }

    /// Moves the timer that `key` names to the back: it fires one delay after `now` instead.
    #[inline]
    pub fn reschedule(&mut self, now: Time, key: Key<T>) -> Reschedule {
        if !self.is_pending(key) {
            return Reschedule::Gone;
        }
        let deadline = self.next_last(now).as_nanos();
        if let Some(armed) = self.table.reschedule_anew(key, deadline) {
            self.push(armed.entry(deadline));
            self.count_zombie(key);
        }
        Reschedule::Moved
    }

    /// The entry that the timer `key` had is dead now.
    #[inline]
    fn count_zombie(&mut self, key: Key<T>) {
        self.driver.trim_after(&Exact(&mut self.table), key.index());
        self.unlooked += 1;
        if self.unlooked >= ZOMBIES_PER_LOOK {
            self.look_at_zombies();
        }
    }

    #[cold]
    #[inline(never)]
    fn look_at_zombies(&mut self) {
        self.unlooked = 0;
        self.driver.keep_bounded(&mut Exact(&mut self.table), true, SWEEP_PER_LOOK);
    }

    /// The payload of the timer that `key` names, if it is pending.
    #[inline]
    #[must_use]
    pub fn get(&self, key: Key<T>) -> Option<&T> {
        self.table.get(key)
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
        self.table.get_mut(key)
    }

    /// When the timer that `key` names is due, if it is pending.
    #[inline]
    #[must_use]
    pub fn deadline(&self, key: Key<T>) -> Option<Time> {
        self.table.deadline(key).map(Time::from_nanos)
    }

    /// Whether the timer that `key` names has not ended.
    #[inline]
    #[must_use]
    pub fn is_pending(&self, key: Key<T>) -> bool {
        self.table.deadline(key).is_some()
    }

    /// Timers that are pending.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> usize {
        self.table.pending()
    }

    /// Whether no timer is pending.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// The earliest deadline: exact; after a poll that was cut short perhaps earlier, but due in any case.
    /// `None` if nothing is pending, or only what practically never fires. O(1).
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let next = self.driver.next_deadline().filter(|_| !self.is_empty())?;
        Some(Time::from_nanos(next)).filter(|next| *next < Time::MAX)
    }

    /// How long a loop may sleep, `None` for ever, slack included. Zero if something is due. O(1).
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Duration> {
        until(self.next_deadline(), now, |next| next.saturating_add(self.slack))
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
    pub fn poll_with(
        &mut self,
        now: Time,
        mut handler: impl FnMut(&mut Self, Expired<T>),
    ) -> Polled {
        let mut due = self.expired(now);
        while let Some(expired) = due.next() {
            handler(due.timer(), expired);
        }
        due.finish()
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
        let turn = self.driver.begin(now.as_nanos().min(u64::MAX - 1), self.budget.fire)?;
        // A poll before an earlier one counts as the latter.
        let now = Time::from_nanos(turn.now);
        Some(Poll::new(turn, now))
    }

    #[inline(always)]
    fn next(&mut self, poll: &mut Poll) -> Option<Expired<T>> {
        while self.driver.owns(&poll.turn) {
            let due = self.driver.next(&mut poll.turn, &mut Exact(&mut self.table))?;
            if let Due::Once { payload, key, deadline } = due {
                let deadline = Time::from_nanos(deadline);
                let lateness = poll.now.saturating_duration_since(deadline);
                return Some(Expired { payload, key, deadline, lateness, shard: 0 });
            }
        }
        None
    }

    #[inline(always)]
    fn handled(&mut self, _: &mut Poll, _: Option<Time>) {}

    #[inline]
    fn finish(&mut self, poll: Poll) -> Polled {
        let (fired, more) = (poll.turn.fired, poll.turn.cut_short);
        self.driver.finish(poll.turn);
        let mut store = Exact(&mut self.table);
        let sweeping = self.driver.keep_bounded(&mut store, false, self.budget.sweep);
        if !more {
            self.driver.trim(&store);
        }
        Polled { fired, more: more || sweeping }
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
