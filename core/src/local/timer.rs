//! `LocalTimer`: schedule, cancel, reschedule, ask.

use super::table::{Armed, LocalMove, Table};
use crate::settings::Settings;
use crate::state::Phase;
use crate::time::{
    Deadline, MonotonicNow, Period, Recurrence, Repeat, TickRate, Time, When, whole_ms,
};
use crate::types::{
    Budget, BuildError, Cancel, Key, Recurring, Reschedule, ScheduleError, Scheduled,
};
use crate::wheel::{Entry, Wheel, ZOMBIES_PER_LOOK, no_memory};
use core::time::Duration;

/// A timer of one thread: no atomics, no locks, and no clock of its own.
///
/// The fastest of the three timers: use it where one thread schedules, cancels and fires, be it an event
/// loop, a busy-spinning core or a simulation. Time is an argument everywhere and may come from any clock,
/// a [`MonotonicClock`](crate::MonotonicClock), a [`ManualClock`](crate::ManualClock), or a number that a
/// simulation counts up. Points in time are on that clock; an [`Instant`](std::time::Instant) only means something to
/// a timer that is told the time of a [`MonotonicClock`](crate::MonotonicClock).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// let ms = |n| Time::ZERO + Duration::from_millis(n);
///
/// let request = timer.schedule(ms(0), Duration::from_millis(500), "request")?;
/// let idle = timer.schedule(ms(0), Duration::from_millis(100), "idle connection")?;
/// assert_eq!(timer.next_deadline(), Some(ms(100)));
///
/// // Something was read: the idle timeout moves out, which moves nothing in the wheel.
/// assert!(timer.reschedule(ms(80), idle, Duration::from_millis(100)).is_moved());
/// // The response came: the payload is handed back.
/// assert_eq!(timer.cancel(request).into_payload(), Some("request"));
///
/// let mut fired = Vec::new();
/// let polled =
///     timer.poll(ms(200), |expired| fired.push((expired.payload, expired.deadline)));
/// assert_eq!(fired, [("idle connection", ms(180))]);
/// assert!(polled.fired == 1 && !polled.more && timer.is_empty());
/// # Ok(()) }
/// ```
///
/// # Guarantees
///
/// Those of the engine: never early, every timer ends exactly once, stale keys are harmless, a deadline is
/// rounded up to a tick. Timers fire in the order of their deadlines, tick by tick, and within a tick in the
/// order in which they were scheduled. One that was moved fires anywhere within its tick. Those that were overdue when
/// they were scheduled come first. Of a tick with more than 16 384 timers, and of as many overdue ones, the rest takes turns with
/// what is due later: see [`Budget`](crate::Budget).
///
/// All operations are O(1) unless they say otherwise, and allocate only while the number of timers grows.
/// A cancel hands the payload back and frees its place at once. What it leaves in the wheel, 16 bytes, is
/// swept away piece by piece, so that there are never many more of these than pending timers; now and then a
/// cancel therefore takes a few microseconds.
///
/// # A loop that sleeps
///
/// ```no_run
/// # use tickwheel::{Clock, LocalTimer, MonotonicClock, Settings};
/// # fn serve_sockets(timer: &mut LocalTimer<u64>, timeout_ms: i32) {}
/// # fn main() -> Result<(), tickwheel::BuildError> {
/// let clock = MonotonicClock::new();
/// let mut timer: LocalTimer<u64> = Settings::new().build_local()?;
/// loop {
///     let timeout_ms = timer.poll_timeout_ms(clock.now());
///     serve_sockets(&mut timer, timeout_ms); // epoll_wait, then read and write
///     timer.poll(clock.now(), |expired| println!("{} timed out", expired.payload));
/// }
/// # }
/// ```
pub struct LocalTimer<T> {
    pub(super) rate: TickRate,
    pub(super) table: Table<T>,
    pub(super) wheel: Wheel,
    /// The work of one poll.
    pub(super) budget: Budget,
    /// How much longer than to the next deadline a loop may sleep.
    slack: Duration,
    /// Zombies to be made until the next check of their bound.
    pub(super) zombies_until_check: u64,
    /// Of polls, and of what was scheduled for a point in time that had passed.
    pub(super) latest: MonotonicNow,
    /// The timer whose handler is running in a poll with a clock: its pause begins when that ends, or with
    /// the next poll if the end is unknown.
    pub(super) resting: Option<Key<T>>,
}

impl Settings {
    /// Builds a [`LocalTimer`].
    ///
    /// # Errors
    ///
    /// If a setting is out of range, or a clock was set.
    pub fn build_local<T>(self) -> Result<LocalTimer<T>, BuildError> {
        self.refuse_clock("LocalTimer")?;
        let rate = self.check()?;
        let mut timer = LocalTimer {
            rate,
            table: Table::new(self.max_pending),
            wheel: Wheel::new(&rate),
            budget: self.budget,
            slack: self.slack,
            zombies_until_check: ZOMBIES_PER_LOOK,
            latest: MonotonicNow::NONE,
            resting: None,
        };
        timer.reserve(self.capacity);
        Ok(timer)
    }
}

/// With ticks of 1 ms and without a limit.
impl<T> Default for LocalTimer<T> {
    fn default() -> Self {
        Settings::new()
            .build_local()
            .expect("the default settings are in range")
    }
}

impl<T> LocalTimer<T> {
    /// Creates a timer without a limit; `tick` is 1 us to 1 h. [`Default`] has ticks of 1 ms and cannot fail;
    /// [`Settings`] have the rest.
    ///
    /// # Errors
    ///
    /// If the tick is out of range.
    pub fn new(tick: Duration) -> Result<Self, BuildError> {
        Settings::new().tick(tick).build_local()
    }

    /// Like [`new`](Self::new), with room for `timers` pending ones; see [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// If the tick is out of range.
    pub fn with_capacity(tick: Duration, timers: usize) -> Result<Self, BuildError> {
        Settings::new().tick(tick).capacity(timers).build_local()
    }

    /// Schedules `payload` to fire after a delay that counts from `now`, or at a point in time ([`When`]), rounded
    /// up to the next tick. A delay counts from `now` also where that is before the latest poll's; polls go by the
    /// latest time that they were told, so such a delay may be over already.
    ///
    /// A zero delay is due at once, and so is a point in time that has passed: it fires in the next poll, however
    /// long a tick is.
    ///
    /// # Errors
    ///
    /// If as many timers are pending as the builder's `max_pending` allows (without it, 2^32 - 1), or if there is no
    /// memory for the timer. The payload comes back in the error.
    #[inline(always)] // here and below, so that the key needs no detour through memory
    pub fn schedule(
        &mut self,
        now: Time,
        when: impl Into<When>,
        payload: T,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let Deadline { tick, .. } = self.deadline_of(now, when.into());
        let armed = self.table.arm(tick, payload)?;
        self.insert_new(armed, tick)
    }

    /// Returns the deadline of a timer that is set at `now`; an instant counts on the machine's clock.
    #[inline(always)]
    fn deadline_of(&mut self, now: Time, when: When) -> Deadline {
        self.latest.deadline(&self.rate, now, when)
    }

    /// Schedules a timer that fires at `first` and then once per `period`, until it is cancelled.
    ///
    /// The handler gets a clone of the payload each time; the original stays in the timer, where
    /// [`get_mut`](Self::get_mut) reaches it and [`cancel`](Self::cancel) takes it from. The key stays valid
    /// over all periods, for the handler too: `timer.cancel(expired.key)` ends the timer from inside.
    ///
    /// Deadlines follow each other in nanoseconds and are then rounded up to ticks: no drift. What counts
    /// as the end of the handler for [`Period::fixed_delay`] is the `now` of the poll, since nothing else is
    /// known; use [`poll_with_clock`](Self::poll_with_clock) where handlers take their time.
    /// [`reschedule`](Self::reschedule) moves the next deadline, and the later ones are counted from there.
    ///
    /// Allocates once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{LocalTimer, MissedTicks, Period, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let second = Duration::from_secs(1);
    /// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    /// let every_second = Period::fixed_rate(second, MissedTicks::Skip);
    /// let heartbeat = timer.schedule_periodic(Time::ZERO, second, every_second, "heartbeat")?;
    ///
    /// let mut beats = 0;
    /// while let Some(now) = timer.next_deadline() {
    ///     let polled = timer.poll_with(now, |timer, expired| {
    ///         beats += 1;
    ///         if expired.deadline == Time::ZERO + second * 60 {
    ///             assert!(timer.cancel(expired.key).is_won());
    ///         }
    ///     });
    ///     assert!(!polled.more);
    /// }
    /// assert_eq!(beats, 60);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule).
    pub fn schedule_periodic(
        &mut self,
        now: Time,
        first: impl Into<When>,
        period: impl Into<Period>,
        payload: T,
    ) -> Result<Key<T>, ScheduleError<T>>
    where
        T: Recurring,
    {
        let recurrence = Recurrence::new(
            self.deadline_of(now, first.into()),
            period.into(),
            self.rate,
        );
        let tick = recurrence.tick();
        let repeat = Repeat {
            payload,
            clone: T::clone,
            recurrence,
        };
        let armed = self.table.arm_periodic(repeat)?;
        self.insert_new(armed, tick)
    }

    /// Cancels the timer that `key` names and hands its payload back, if it is pending.
    #[inline]
    pub fn cancel(&mut self, key: Key<T>) -> Cancel<T> {
        let Some(payload) = self.table.end(key, Phase::Cancelled) else {
            return Cancel::Gone;
        };
        self.count_zombie();
        Cancel::Won(payload)
    }

    /// Moves the timer that `key` names to fire after a delay that counts from `now`, or at a point in time,
    /// instead; rounded up to the next tick.
    ///
    /// Pushing a deadline out only writes it down. Pulling it in inserts a second entry into the wheel, which
    /// counts as a cancel towards what has to be swept.
    #[inline]
    pub fn reschedule(&mut self, now: Time, key: Key<T>, when: impl Into<When>) -> Reschedule {
        let deadline = self.deadline_of(now, when.into());
        match self.table.move_to(key, deadline) {
            LocalMove::Gone => return Reschedule::Gone,
            LocalMove::Later => {}
            LocalMove::Earlier(armed) => {
                self.insert(armed.entry(deadline.tick));
                self.count_zombie();
            }
        }
        Reschedule::Moved
    }

    /// Returns the payload of the timer that `key` names, if it is pending.
    #[must_use]
    pub fn get(&self, key: Key<T>) -> Option<&T> {
        self.table.get(key)
    }

    /// Returns the payload of the timer that `key` names, to be changed, if it is pending.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{LocalTimer, Time};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    /// let key = timer.schedule(Time::ZERO, timer.tick() * 5, vec!["first"])?;
    /// timer.get_mut(key).expect("it is pending").push("second");
    /// assert_eq!(timer.get(key).map(Vec::len), Some(2));
    /// timer.poll(Time::ZERO + Duration::from_millis(5), |batch| {
    ///     assert_eq!(batch.payload.len(), 2)
    /// });
    /// assert!(!timer.is_pending(key) && timer.pending() == 0);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.table.get_mut(key)
    }

    /// Returns when the timer that `key` names is due, rounded up to a tick, if it is pending.
    #[must_use]
    pub fn deadline(&self, key: Key<T>) -> Option<Time> {
        self.table
            .deadline(key)
            .map(|tick| self.rate.start_of(tick))
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

    /// Returns the length of a tick.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.rate.tick()
    }

    /// Returns whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// Returns when to poll next: the earliest pending deadline if no timer was cancelled or moved, no fixed delay was
    /// counted by a clock ([`poll_with_clock`](Self::poll_with_clock)) and the last poll was not cut short, otherwise
    /// that or earlier, never later. `None` if nothing is pending, or only what practically never fires.
    ///
    /// Simulations jump: `while let Some(now) = timer.next_deadline()`. O(1).
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if self.is_empty() {
            return None;
        }
        let next = self.rate.start_of(self.wheel.next_deadline());
        Some(next).filter(|next| *next < Time::MAX)
    }

    /// Returns how long a loop may sleep, `None` for ever, the builder's slack included. Zero if something is due, or
    /// if the next poll goes on with a sweep or gives memory back. O(1).
    ///
    /// The duration is exact. On Linux `mio`, from 1.2.1 on, rounds it to what the system can wait for. macOS refuses
    /// more than 10^8 seconds: a loop there that may have such a timer alone sleeps a day at most. A loop on plain
    /// `epoll` takes [`poll_timeout_ms`](Self::poll_timeout_ms).
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Duration> {
        if self.wheel.has_housekeeping() {
            return Some(Duration::ZERO);
        }
        let next = self.next_deadline()?;
        let until = if next <= now {
            next
        } else {
            self.rate.with_slack(next, self.slack)
        };
        Some(until.saturating_duration_since(now))
    }

    /// Like [`poll_timeout`](Self::poll_timeout), in whole milliseconds for `epoll_wait` or `poll`: rounded
    /// up, so that the loop never spins before a deadline; -1 for ever.
    #[must_use]
    pub fn poll_timeout_ms(&self, now: Time) -> i32 {
        whole_ms(self.poll_timeout(now))
    }

    /// Inserts the entry of a timer that has just been armed, or takes it back if there is no memory.
    #[inline(always)]
    fn insert_new(&mut self, armed: Armed, tick: u64) -> Scheduled<T> {
        if !self.wheel.insert(armed.entry(tick), &self.table) {
            if let Some(payload) = self.take_back(armed.key()) {
                return Err(ScheduleError::no_memory(payload));
            }
        }
        Ok(armed.key())
    }

    /// Takes the payload of a timer that has just been armed. Apart, so that the usual case pays nothing for it.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, key: Key<T>) -> Option<T> {
        self.table.end(key, Phase::Cancelled)
    }

    /// Inserts the entry of a timer whose deadline moves; ends the process if there is no memory.
    #[inline(always)]
    fn insert(&mut self, entry: Entry) {
        if !self.wheel.insert(entry, &self.table) {
            no_memory();
        }
    }

    /// Counts an entry that a timer has left behind.
    #[inline]
    fn count_zombie(&mut self) {
        self.zombies_until_check -= 1;
        if self.zombies_until_check == 0 {
            self.check_zombies();
        }
    }

    /// Cancels alone keep the bound: it must hold for loops that seldom poll, too.
    #[cold]
    #[inline(never)]
    fn check_zombies(&mut self) {
        self.zombies_until_check = ZOMBIES_PER_LOOK;
        self.wheel.look_at_zombies(&self.table);
    }
}

debug_fields!([T] LocalTimer<T>, "LocalTimer", it,
    pending: it.pending(), next_deadline: it.next_deadline());

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<T: core::panic::UnwindSafe> core::panic::UnwindSafe for LocalTimer<T> {}
impl<T: core::panic::RefUnwindSafe> core::panic::RefUnwindSafe for LocalTimer<T> {}
