//! The owner's side: the timer inside the event loop.

use super::own::{Due, LoopShard};
use super::remote::Remote;
use super::{OWN, stats_of};
use crate::contain;
use crate::engine::TimerTask;
use crate::loop_timer::{Expirations, Poll, Steps, poll_with};
use crate::settings::Settings;
use crate::shard::Producer;
use crate::stats::ShardStats;
use crate::time::{
    Deadline, MonotonicNow, Period, Recurrence, Repeat, TickRate, Time, TimeSource, When, whole_ms,
};
use crate::types::{
    Budget, Cancel, Expired, Key, Polled, Recurring, Reschedule, ScheduleError, Unfired,
};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A timer inside an event loop: the loop's thread owns it, any thread may hold a [`Remote`].
///
/// A round of a loop looks like this, with the feature `mio`:
///
/// ```
/// use mio::{Events, Poll, Token};
/// use std::time::Duration;
/// use tickwheel::{EventLoopTimer, Settings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const TIMERS: Token = Token(0);
/// let mut poll = Poll::new()?;
/// let mut events = Events::with_capacity(128);
/// let mut timer: EventLoopTimer<u64> =
///     EventLoopTimer::with_mio(Settings::new(), poll.registry(), TIMERS)?;
///
/// timer.schedule(timer.now(), Duration::from_millis(2), 17u64)?;
/// let mut fired = 0;
/// while fired == 0 {
///     // Sleep until a socket is ready, a timer is due, or a remote has an earlier one.
///     match poll.poll(&mut events, timer.poll_timeout(timer.now())) {
///         // A signal: an empty round.
///         Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
///         polled => polled?,
///     }
///     // ... serve the sockets in `events` ...
///     let now = timer.now(); // one clock read per round
///     fired += timer.poll(now, |expired| assert_eq!(expired.payload, 17)).fired;
/// }
/// # Ok(()) }
/// ```
///
/// What else it can do, on a clock that is moved by hand:
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Budget, EventLoopTimer, ManualClock, MissedTicks, Period, Settings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
/// let mut timer = EventLoopTimer::with_waker(Settings::new().clock(clock.clone()), || ())?;
/// timer.set_budget(Budget::new().fire(256));
/// let now = timer.now();
/// let idle = timer.schedule(now, second, "idle")?;
/// let every_second = Period::fixed_rate(second, MissedTicks::Skip);
/// let beat = timer.schedule_periodic(now, second, every_second, "beat")?;
/// timer.remote().schedule(3 * second, "from another thread")?;
/// assert!(timer.reschedule(now, idle, 2 * second).is_moved());
/// assert_eq!(timer.deadline(idle), Some(now + 2 * second));
/// assert!(
///     timer.next_deadline() <= Some(now + second) && timer.poll_timeout_ms(now) <= 1000
/// );
///
/// let now = clock.advance(second);
/// timer.poll_with(now, |timer, beat| assert!(timer.cancel(beat.key).is_won()));
/// assert!(!timer.is_pending(beat) && timer.pending() == 2);
/// for late in timer.expired(clock.advance(second + timer.tick())) {
///     assert_eq!((late.payload, late.lateness), ("idle", Duration::from_millis(1)));
/// }
/// assert_eq!((timer.stats().fired, timer.stats().cancelled), (2, 1));
/// println!("{} bytes", timer.held_bytes());
/// assert_eq!(timer.close().len(), 1); // what has not fired
/// # Ok(()) }
/// ```
///
/// Time is an argument: read the clock once per round and pass it on. The guarantees are the engine's: never
/// early, each timer ends once, stale keys are harmless. Owner operations are O(1), take no lock and allocate
/// only while the number of timers grows.
///
/// What the loop itself schedules is its own, as in a [`LocalTimer`](crate::LocalTimer) and as fast: no other thread can
/// cancel it, move it or ask about it. So its key is a [`Key`], and a remote takes a [`RemoteKey`](crate::RemoteKey)
/// only, which is the key of what remotes schedule. The loop takes both. Everything else is common to both kinds: their
/// order, the budget of a poll, `max_pending`, the statistics.
///
/// Timers fire in the order of deadlines, tick by tick. Within a tick those of the loop, and those of each thread with a
/// [`Remote`], fire in the order in which they were scheduled; between threads no order is promised. The rest is as with
/// a [`Timer`](crate::Timer#order).
///
/// Dropping the timer drops the payloads that are left; [`close`](Self::close) returns them.
pub struct EventLoopTimer<T> {
    /// The shard, and the loop's own timers.
    shard: LoopShard<T>,
    pub(super) rate: TickRate,
    budget: Budget,
    /// How much longer than to the next deadline the loop may sleep.
    slack: Duration,
    source: Arc<TimeSource>,
    /// Of polls, and of what was scheduled for a point in time that had passed.
    latest: MonotonicNow,
    /// A sleep is announced, from a [`poll_timeout`](Self::poll_timeout) to the next poll.
    is_asleep: Cell<bool>,
    /// The remotes wake through it and do not keep it.
    _waker: Waker,
}

/// Returns whether a key names a timer that the loop itself has scheduled.
#[inline(always)]
fn is_own<T>(key: Key<T>) -> bool {
    key.shard() == usize::from(OWN)
}

/// Wakes the loop, and says whether it has.
pub(super) type Waker = Arc<dyn Fn() -> bool + Send + Sync>;

impl<T: Send + 'static> EventLoopTimer<T> {
    pub(super) fn new(
        shard: LoopShard<T>,
        rate: TickRate,
        settings: Settings,
        waker: Waker,
    ) -> Self {
        let Settings {
            budget,
            slack,
            clock,
            ..
        } = settings;
        let source = Arc::new(TimeSource::of(clock));
        let latest = MonotonicNow::NONE;
        Self {
            shard,
            rate,
            budget,
            slack,
            source,
            latest,
            is_asleep: Cell::new(false),
            _waker: waker,
        }
    }

    /// Returns the time by the timer's clock. Costs a clock read (about 20 ns): once per round is enough.
    #[must_use]
    pub fn now(&self) -> Time {
        self.source.now()
    }

    /// Returns a handle for other threads.
    #[must_use]
    pub fn remote(&self) -> Remote<T> {
        Remote::new(
            Arc::clone(&self.shard.handle),
            self.rate,
            Arc::clone(&self.source),
        )
    }

    /// Schedules `payload` to fire after a delay that counts from `now`, or at a point in time ([`When`]), rounded
    /// up to the next tick.
    ///
    /// `now` may be a cached reading of this round: the timer then fires that much earlier relative to the
    /// true time of the call, never earlier than `now + delay`. That holds also for a `now` before the latest poll's;
    /// polls go by the latest time that they were told, so such a delay may be over already. A timer scheduled from a
    /// handler fires in a later poll at the earliest.
    ///
    /// # Errors
    ///
    /// If `max_pending` timers are pending, or if there is no memory for the timer. The payload is in the error.
    #[inline]
    pub fn schedule(
        &mut self,
        now: Time,
        when: impl Into<When>,
        payload: T,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let tick = self.deadline_of(now, when.into()).tick;
        self.shard.schedule(tick, payload)
    }

    /// Returns the deadline of a timer that is set at `now`.
    #[inline(always)] // see `MonotonicNow::deadline`
    fn deadline_of(&mut self, now: Time, when: When) -> Deadline {
        self.latest.deadline(&self.rate, now, when.on(&self.source))
    }

    /// Schedules a clone of `payload` once per period, the first time at `first`, where a delay counts from `now`; see
    /// [`Timer::schedule_periodic`](crate::Timer::schedule_periodic).
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
        self.begin_periodic(now, first.into(), period.into(), payload, T::clone)
    }

    fn begin_periodic(
        &mut self,
        now: Time,
        first: When,
        period: Period,
        payload: T,
        clone: fn(&T) -> T,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let recurrence = Recurrence::new(self.deadline_of(now, first), period, self.rate);
        self.shard.schedule_periodic(Repeat {
            payload,
            clone,
            recurrence,
        })
    }

    /// Cancels the timer that `key` names, of the loop or of a remote, and hands its payload back, if it is still
    /// pending.
    #[inline]
    pub fn cancel(&mut self, key: impl Into<Key<T>>) -> Cancel<T> {
        let key = key.into();
        if is_own(key) {
            self.shard.cancel_own(key)
        } else {
            // As a remote does.
            self.shard.handle.with_producer(|it| it.cancel(key))
        }
    }

    /// Moves the timer that `key` names, of the loop or of a remote, to fire after a delay that counts from `now`, or at
    /// a point in time, instead. Pushing a deadline out moves nothing in the wheel.
    #[inline]
    pub fn reschedule(
        &mut self,
        now: Time,
        key: impl Into<Key<T>>,
        when: impl Into<When>,
    ) -> Reschedule {
        let (key, deadline) = (key.into(), self.deadline_of(now, when.into()));
        if is_own(key) {
            return self.shard.move_own(key, deadline);
        }
        let move_to = |it: Producer<'_, T>| it.move_to(key, deadline.tick);
        Reschedule::from_moved(self.shard.handle.with_producer(move_to))
    }

    /// Returns whether the timer that `key` names has not ended.
    #[must_use]
    pub fn is_pending(&self, key: impl Into<Key<T>>) -> bool {
        self.tick_of(key.into()).is_some()
    }

    /// Returns when the timer that `key` names is due, rounded up to a tick, if it has not ended. Of a periodic timer
    /// the deadline of its next call.
    #[must_use]
    pub fn deadline(&self, key: impl Into<Key<T>>) -> Option<Time> {
        self.tick_of(key.into())
            .map(|tick| self.rate.start_of(tick))
    }

    fn tick_of(&self, key: Key<T>) -> Option<u64> {
        if is_own(key) {
            self.shard.own.table.deadline(key)
        } else {
            self.shard.handle.deadline_of(key)
        }
    }

    /// Returns the number of timers that are pending. O(threads).
    #[must_use]
    pub fn pending(&self) -> usize {
        usize::try_from(self.shard.handle.pending()).unwrap_or(usize::MAX)
    }

    /// Returns whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// Returns when there is something to do next: never later than the earliest pending deadline. Earlier for a
    /// timer that was cancelled or pushed out, and a second after a burst, when its memory goes back. [`Time::ZERO`],
    /// which is at once, for what waits for the next poll only: the rest of a poll that ran out of budget, memory that
    /// polls sweep or give back piece by piece, what a handler scheduled for now. `None` if nothing is left to look at, or only what practically never fires. O(1).
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let next = self.rate.start_of(self.shard.next_tick());
        Some(next).filter(|next| *next < Time::MAX)
    }

    /// Returns how long the loop may sleep, `None` for ever; notifies that sleep to the remotes.
    ///
    /// Call it right before the loop blocks: from here until the next [`poll`](Self::poll), a remote that schedules
    /// something earlier wakes the loop, be it made in between. Zero if something is due or was handed in just now,
    /// or if [`next_deadline`](Self::next_deadline) says at once.
    ///
    /// The duration is exact. On Linux `mio`, from 1.2.1 on, rounds it to what the system can wait for. macOS refuses
    /// more than 10^8 seconds: a loop there that may have such a timer alone sleeps a day at most. A loop on plain
    /// `epoll` takes [`poll_timeout_ms`](Self::poll_timeout_ms).
    #[must_use = "the sleep has been announced: block for this long, then poll"]
    pub fn poll_timeout(&self, now: Time) -> Option<Duration> {
        let next = self.shard.next_tick();
        if next <= self.rate.current(now) {
            return Some(Duration::ZERO);
        }
        let asleep = self.shard.begin_sleep(next);
        self.is_asleep.set(asleep);
        if !asleep {
            return Some(Duration::ZERO);
        }
        match self.rate.start_of(next) {
            Time::MAX => None,
            until => {
                let until = self.rate.with_slack(until, self.slack);
                Some(self.source.bounded(until.saturating_duration_since(now)))
            }
        }
    }

    /// Like [`poll_timeout`](Self::poll_timeout), in whole milliseconds for `epoll_wait` or `poll`: rounded
    /// up, so that the loop never spins before a deadline; -1 for ever.
    #[must_use = "the sleep has been announced: block for this long, then poll"]
    pub fn poll_timeout_ms(&self, now: Time) -> i32 {
        whole_ms(self.poll_timeout(now))
    }

    /// Fires what is due at `now`, within the budget. If nothing is due and nothing was sent that could be, a poll costs
    /// a few nanoseconds, so that a loop may poll in every round.
    ///
    /// # Panics
    ///
    /// Only if `handler` does; the timer that it was called for counts as fired, and the next poll goes on
    /// with the rest. A periodic timer goes on with its next period, as if the handler had returned.
    #[inline]
    pub fn poll(&mut self, now: Time, mut handler: impl FnMut(Expired<T>)) -> Polled {
        self.poll_with(now, |_, expired| handler(expired))
    }

    /// Like [`poll`](Self::poll), for handlers that use the timer: schedule again, cancel a neighbour. A poll from
    /// inside a handler does nothing. A handler must not put another timer in the place of this one: memory stays safe,
    /// but what the two timers do from then on is not specified.
    ///
    /// # Panics
    ///
    /// Like [`poll`](Self::poll).
    #[inline]
    pub fn poll_with(&mut self, now: Time, handler: impl FnMut(&mut Self, Expired<T>)) -> Polled {
        poll_with(self, now, handler)
    }

    /// Yields the timers that are due at `now`, one at a time and within the budget, without a handler; see
    /// [`Expirations`].
    #[inline]
    pub fn expired(&mut self, now: Time) -> Expirations<'_, Self> {
        Expirations::begin(self, now)
    }

    /// Ends the sleep that was announced, if one was.
    #[inline(always)]
    fn end_sleep(&self) {
        if self.is_asleep.take() {
            self.shard.end_sleep();
        }
    }

    /// Ends the call of a periodic timer.
    #[cold]
    #[inline(never)]
    fn end_call(&mut self, poll: &Poll) {
        // The clock is the user's, and a panic may be on its way: a second one must not get out.
        let ended = contain::call(|| self.source.now()).unwrap_or(poll.now);
        self.shard.end_call(ended.max(poll.now));
    }

    /// Returns the keys and deadlines of the timers that are pending now, in no particular order. O(peak number of
    /// timers).
    ///
    /// There is no call that shows a payload, because a remote may take that of its timer at any time.
    pub fn keys(&self) -> impl Iterator<Item = (Key<T>, Time)> {
        let LoopShard { handle, own, .. } = &self.shard;
        let own = own.table.iter().map(|(key, tick, _)| (key, tick));
        own.chain(handle.table.pending_keys())
            .map(|(key, tick)| (key, self.rate.start_of(tick)))
    }

    /// Cancels the timers that are pending now and returns them, in no particular order. O(peak number of timers).
    pub fn drain(&mut self) -> impl Iterator<Item = Unfired<T>> {
        let (mut unfired, rate) = (Vec::new(), self.rate);
        self.cancel_all(|key, tick, payload| {
            unfired.push(Unfired::new(payload, key, tick, &rate));
        });
        Drain(unfired.into_iter())
    }

    /// Drops all pending timers. O(peak number of timers).
    ///
    /// A payload's destructor that panics is logged, and the rest is dropped.
    pub fn clear(&mut self) {
        self.cancel_all(|_, _, payload| contain::drop_payload(payload));
    }

    fn cancel_all(&mut self, mut take: impl FnMut(Key<T>, u64, T)) {
        self.shard.cancel_all_own(&mut take);
        let cancelled = self.shard.handle.with_producer(|it| it.cancel_all());
        for (key, tick, payload) in cancelled {
            take(key, tick, payload);
        }
        // What they have left is looked at by the next poll, which gives memory back as well.
        self.shard.look_at_zombies();
    }

    /// Makes room for `timers` more of the loop's own: scheduling that many allocates no node, if there is memory.
    pub fn reserve(&mut self, timers: usize) {
        self.shard.own.table.reserve(timers);
    }

    /// Gives back the memory of the loop's own nodes behind the last one in use, and at once what polls give back a
    /// second after a burst: the wheel's. O(peak number of timers). What remotes have used goes back by polls.
    ///
    /// The nodes that stay are copied, so memory rises for a moment. Without memory for the copy nothing is given back.
    pub fn shrink_to_fit(&mut self) {
        self.shard.own.table.shrink_to_fit();
        self.shard.wheel.give_back();
        self.shard.report_bytes();
    }

    /// Returns the bytes that nodes and wheel hold, as of the last poll. What other threads have sent since then is
    /// not in it: 8 bytes for each message that [`ShardStats::inbox`] counts.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        usize::try_from(self.shard.handle.held_bytes()).unwrap_or(usize::MAX)
    }

    /// Changes how much one poll may do before it returns to the loop. A zero counts as one.
    pub fn set_budget(&mut self, budget: Budget) {
        self.budget = budget.at_least_one();
    }

    /// Returns the length of a tick.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.rate.tick()
    }

    /// Returns the statistics so far; reads the timer's clock. O(threads).
    #[must_use]
    pub fn stats(&self) -> ShardStats {
        stats_of(&self.shard.handle, &self.rate, self.source.now())
    }

    /// Ends the timer and returns everything that has not fired; remotes are refused from now on.
    pub fn close(mut self) -> Vec<Unfired<T>> {
        let mut unfired = Vec::new();
        let rate = self.rate;
        self.shard.end_all(|it| {
            unfired.push(Unfired::new(it.payload, it.key, it.deadline, &rate));
        });
        unfired
    }
}

impl EventLoopTimer<TimerTask> {
    /// Schedules a closure to fire after a delay from `now`, or at a point in time, rounded up to the next
    /// tick; the loop runs it where it polls.
    ///
    /// Like [`schedule`](Self::schedule) with [`TimerTask::new`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{EventLoopTimer, TimerTask, Settings};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer: EventLoopTimer<TimerTask> =
    ///     EventLoopTimer::with_waker(Settings::new(), || ())?;
    /// let now = timer.now();
    /// timer.run_after(now, Duration::ZERO, || println!("in this loop"))?;
    /// assert_eq!(timer.poll(now, |expired| expired.payload.run()).fired, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule). The closure is in the error, as a task.
    pub fn run_after(
        &mut self,
        now: Time,
        when: impl Into<When>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Key<TimerTask>, ScheduleError<TimerTask>> {
        self.schedule(now, when, TimerTask::new(run))
    }

    /// Schedules a closure to fire once per period, the first time at `first`, where a delay counts from `now`; the
    /// loop runs it where it polls. See [`Timer::repeat`](crate::Timer::repeat).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{EventLoopTimer, ManualClock, Settings, TimerTask};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
    /// let mut timer: EventLoopTimer<TimerTask> =
    ///     EventLoopTimer::with_waker(Settings::new().clock(clock.clone()), || ())?;
    /// let beat = timer.repeat(clock.now(), Duration::ZERO, second, || println!("beat"))?;
    /// for _ in 0..3 {
    ///     assert_eq!(timer.poll(clock.now(), |expired| expired.payload.run()).fired, 1);
    ///     clock.advance(second);
    /// }
    /// assert!(timer.cancel(beat).is_won());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule).
    pub fn repeat(
        &mut self,
        now: Time,
        first: impl Into<When>,
        period: impl Into<Period>,
        run: impl FnMut() + Send + 'static,
    ) -> Result<Key<TimerTask>, ScheduleError<TimerTask>> {
        let task = TimerTask::repeating(run);
        self.begin_periodic(now, first.into(), period.into(), task, TimerTask::again)
    }
}

impl<T: Send + 'static> Steps for EventLoopTimer<T> {
    type Payload = T;

    #[inline(always)]
    fn is_idle(&mut self, now: Time) -> bool {
        let now = self.latest.present(now);
        if !self.shard.is_idle(self.rate.current(now)) {
            return false;
        }
        self.latest.0 = now;
        self.end_sleep();
        true
    }

    fn begin(&mut self, now: Time) -> Option<Poll> {
        if self.shard.is_turning() {
            return None;
        }
        self.end_sleep();
        let now = self.latest.present(now);
        self.latest.0 = now;
        self.shard
            .begin_turn(self.rate.current(now), &self.budget, false);
        Some(Poll::at(now))
    }

    #[inline(always)]
    fn next(&mut self, poll: &mut Poll) -> Option<Expired<T>> {
        loop {
            let (fired, is_last) = match self.shard.next_of_all()? {
                Due::Once(fired) => (fired, true),
                Due::OwnEvery { index } => match self.shard.call_own(index, poll.now) {
                    Some(fired) => (fired, false),
                    None => continue,
                },
                Due::Every { index, mark } => match self.shard.call(index, mark, poll.now) {
                    Some(call) => call,
                    None => continue,
                },
            };
            let expired = self.shard.expired(fired, is_last, &self.rate, poll.now);
            return Some(expired);
        }
    }

    #[inline(always)]
    fn after_handler(&mut self, poll: &mut Poll) {
        if self.shard.is_in_call() {
            self.end_call(poll);
        }
    }

    fn finish(&mut self) -> Polled {
        self.shard.finish_turn(&self.budget)
    }
}

/// The iterator of [`EventLoopTimer::drain`]. It drops the rest one by one, so that panics of destructors stay apart.
struct Drain<T>(std::vec::IntoIter<Unfired<T>>);

impl<T> Iterator for Drain<T> {
    type Item = Unfired<T>;

    fn next(&mut self) -> Option<Unfired<T>> {
        self.0.next()
    }
}

impl<T> Drop for Drain<T> {
    fn drop(&mut self) {
        self.for_each(|unfired| contain::drop_payload(unfired.payload));
    }
}

impl<T> Drop for EventLoopTimer<T> {
    fn drop(&mut self) {
        // Remotes that live on must not schedule into a shard without an owner.
        self.shard
            .end_all(|returned| contain::drop_payload(returned.payload));
    }
}

debug_fields!([T] EventLoopTimer<T>, "EventLoopTimer", it, tick: it.rate.tick());

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<T: core::panic::UnwindSafe> core::panic::UnwindSafe for EventLoopTimer<T> {}
impl<T: core::panic::RefUnwindSafe> core::panic::RefUnwindSafe for EventLoopTimer<T> {}
