//! `Timer`: the engine as its users hold it.

use super::crew::status::EnginePhase;
use super::handle::TimerHandle;
use super::hold::TimerRef;
use super::inner::{Berth, Inner};
use super::settings::Shutdown;
use super::stats::{EngineState, Stats};
use super::task::TimerTask;
use crate::node::offer::offer;
use crate::shard::{Producer, ShardHandle};
use crate::sync::slot;
use crate::time::{Period, Time, When};
use crate::types::{
    Cancel, Key, Recurring, Reschedule, ScheduleError, StartError, StopError, Unfired,
};
use std::mem::ManuallyDrop;
use std::time::Duration;

/// A timer engine: schedule from any thread, cancel from any thread, fire on the shards' workers.
///
/// A `Timer` is a handle: clone it freely and share it between threads. When the last clone is dropped the workers
/// are told to end, and drop the payloads that are left; the drop itself does not wait. [`stop`](Self::stop) waits
/// and returns the payloads instead.
/// Note that a payload which holds a clone keeps its own engine alive; one that holds a [`WeakTimer`](crate::WeakTimer)
/// does not.
///
/// `T` is what a timer carries and what the handler gets when it fires. The default, [`TimerTask`], is a
/// closure that runs on the worker.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, Expired, MissedTicks, Period};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Builder::new()
///     .build_with(|expired: Expired<u64>| println!("{} is late", expired.payload))?;
/// let minute = Duration::from_secs(60);
///
/// timer.schedule(minute, 17)?;
/// let key = timer.schedule(minute, 18)?; // its name, 12 bytes
/// assert!(timer.reschedule(key, 2 * minute).is_moved());
/// assert!(timer.is_pending(key) && timer.deadline(key) > Some(timer.now() + minute));
/// assert_eq!(timer.cancel(key).into_payload(), Some(18));
///
/// let beat =
///     timer.schedule_periodic(minute, Period::fixed_rate(minute, MissedTicks::Skip), 19)?;
/// assert!(timer.cancel(beat).is_won());
/// assert_eq!(timer.stop()?.len(), 1); // 17
/// # Ok(()) }
/// ```
///
/// # Guarantees
///
/// * A timer never fires before its deadline: delays are rounded *up* to the tick.
/// * Every accepted timer ends exactly once: fired, cancelled, or returned by `stop`.
/// * `schedule`, `cancel` and `reschedule` take no lock and never wait for a worker or for each other. Exceptions: a
///   thread's very first operation and the lazy start take a lock once. Growth of the node table allocates. A fourth
///   thread that moves one timer spins until one of the other three is done.
///
/// # Order
///
/// A shard fires in the order of deadlines, tick by tick. Within a tick the timers of one thread fire in the order in
/// which it scheduled them; one that was moved fires anywhere within its tick. No order is promised between shards, and
/// within a tick between threads. What exceeds a turn's [`Budget`](crate::Budget), or 16 384 timers of one tick, may
/// fire after later timers.
///
/// # Complexity
///
/// `schedule`, `cancel`, `reschedule`, `is_pending`: O(1). `pending` and `stats`: O(threads * shards).
pub struct Timer<T = TimerTask> {
    pub(super) inner: TimerRef<T>,
}

impl<T> Clone for Timer<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<T> Timer<T> {
    /// Runs `f` with a `Timer` that is not counted, for the handlers of the engine's own workers.
    #[inline]
    pub(super) fn lend<R>(engine: &Inner<T>, f: impl FnOnce(&Self) -> R) -> R {
        let inner = ManuallyDrop::into_inner(TimerRef::uncounted(engine));
        f(&ManuallyDrop::new(Self { inner }))
    }
}

impl Timer<TimerTask> {
    /// Runs a closure on a worker, once, after a delay or at a point in time ([`When`]), rounded up to the next tick.
    ///
    /// Like [`schedule`](Self::schedule) with [`TimerTask::new`]: a closure of up to three words is not boxed.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = tickwheel::Timer::new()?;
    /// let deadline = timer.run_after(Duration::from_secs(5), || println!("request timed out"))?;
    /// assert!(timer.cancel(deadline).is_won());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule). The closure is in the error, as a task.
    #[inline]
    pub fn run_after(
        &self,
        when: impl Into<When>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Key<TimerTask>, ScheduleError<TimerTask>> {
        self.schedule(when, TimerTask::new(run))
    }

    /// Like [`run_after`](Self::run_after), but returns a [`TimerHandle`]; see
    /// [`schedule_handle`](Self::schedule_handle).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = tickwheel::Timer::new()?;
    /// let deadline =
    ///     timer.run_after_handle(Duration::from_secs(5), || println!("request timed out"))?;
    /// assert!(deadline.cancel().is_won() && deadline.is_cancelled());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`run_after`](Self::run_after).
    #[inline]
    pub fn run_after_handle(
        &self,
        when: impl Into<When>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<TimerHandle<TimerTask>, ScheduleError<TimerTask>> {
        self.schedule_handle(when, TimerTask::new(run))
    }

    /// Runs a closure once per period, the first time `first` from now; see
    /// [`schedule_periodic`](Timer::schedule_periodic).
    ///
    /// It never runs twice at a time and no thread waits for it. A call that comes while the closure still runs, or
    /// from within itself, does nothing. That may be the call of a later period on an executor's thread. Elsewhere it
    /// is a task that [`cancel`](Timer::cancel) has handed back and that is [run](TimerTask::run) by hand.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Timer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let second = Duration::from_secs(1);
    /// let mut beats = 0;
    /// let key = timer.repeat(Duration::ZERO, second, move || {
    ///     beats += 1;
    ///     println!("beat {beats}");
    /// })?;
    /// assert!(timer.cancel(key).is_won());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule).
    pub fn repeat(
        &self,
        first: impl Into<When>,
        period: impl Into<Period>,
        run: impl FnMut() + Send + 'static,
    ) -> Result<Key<TimerTask>, ScheduleError<TimerTask>> {
        self.inner.begin_periodic(
            first.into(),
            period.into(),
            TimerTask::repeating(run),
            TimerTask::again,
        )
    }
}

impl<T: Send + 'static> Timer<T> {
    /// Schedules `payload` to fire after a delay, or at a point in time ([`When`]), rounded up to the next tick.
    ///
    /// What is [due already](When) fires as soon as the worker gets to it; a delay that is too long for the scale of
    /// time (584 years) never fires and can be cancelled. The first timer starts the engine.
    ///
    /// The returned key names this timer for [`cancel`](Self::cancel), [`reschedule`](Self::reschedule) and the others.
    /// It can be copied, and dropping it changes nothing.
    ///
    /// # Errors
    ///
    /// If the engine is stopped, `max_pending` timers are pending, or the workers cannot be started.
    /// The payload is in the error.
    #[inline]
    pub fn schedule(&self, when: impl Into<When>, payload: T) -> Result<Key<T>, ScheduleError<T>> {
        let (inner, tick) = (&self.inner, self.inner.tick(when));
        offer(payload, |payload| {
            inner.schedule(tick, payload, false, ShardHandle::key)
        })
    }

    /// Like [`schedule`](Self::schedule), but returns a [`TimerHandle`], which needs no `Timer` beside it, knows how its
    /// timer ended, and can [cancel it on drop](TimerHandle::cancel_on_drop).
    ///
    /// Dropping the handle itself leaves the timer armed. A key costs fewer instructions, and a handle keeps its timer's
    /// record from being used again until it is dropped.
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule).
    pub fn schedule_handle(
        &self,
        when: impl Into<When>,
        payload: T,
    ) -> Result<TimerHandle<T>, ScheduleError<T>> {
        let (inner, tick) = (&self.inner, self.inner.tick(when));
        offer(payload, |payload| {
            inner.schedule(tick, payload, true, |shard, armed| {
                TimerHandle::new(inner, shard, armed)
            })
        })
    }

    /// Schedules a clone of `payload` once per period, the first time at `first`.
    ///
    /// The key stays the same over all periods: [`cancel`](Self::cancel) hands `payload` back, and no call of the
    /// handler begins after that; one that has begun goes on to its end. In the moment before a call the answer is
    /// [`Cancel::AfterCall`]: that call is the last, and its handler gets `payload` itself.
    /// [`reschedule`](Self::reschedule) moves the coming call, from within one as well, and the later ones are counted
    /// from there. Both may come from the handler itself.
    ///
    /// A call begins when the handler has returned from the one before, so a timer never piles up on itself, and
    /// [`Period`] says what happens to periods that were missed when it begins. It does not drift: each deadline is counted
    /// from the one before, not from the time of its handling. A period counts as one timer scheduled and one
    /// fired; under `max_pending` the timer keeps one permit until it ends.
    ///
    /// `T::clone` runs on the worker, before each call. No lock is held meanwhile. If it panics, that call is left out, the
    /// timer goes on to its next deadline, and the panic counts in [`stats`](Self::stats).
    ///
    /// Lock-free; allocates once.
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule).
    pub fn schedule_periodic(
        &self,
        first: impl Into<When>,
        period: impl Into<Period>,
        payload: T,
    ) -> Result<Key<T>, ScheduleError<T>>
    where
        T: Recurring,
    {
        self.inner
            .begin_periodic(first.into(), period.into(), payload, T::clone)
    }

    /// Cancels the timer that `key` names and hands its payload back, if it is still pending.
    ///
    /// A stale key answers [`Cancel::Gone`]. From any thread; one compare-and-swap.
    #[inline]
    pub fn cancel(&self, key: Key<T>) -> Cancel<T> {
        let cancel = |producer: Producer<'_, T>| producer.cancel(key);
        self.inner.on_shard(key.shard(), Cancel::Gone, cancel)
    }

    /// Cancels the timers that are pending now, of all threads, and returns them in no particular order.
    ///
    /// Each is cancelled by a step of its own, as [`cancel`](Self::cancel) does: one that another thread cancels or
    /// moves, or that fires meanwhile, has one end. What is scheduled while this runs may stay. Periodic timers end;
    /// a [`TimerHandle`] says [`Cancelled`](crate::TimerState::Cancelled). A pending [`Sleep`](crate::Sleep) of this
    /// engine is ready when its part of the answer is dropped, with the error of a stopped engine; those of the shared
    /// engine's free functions panic. From any thread, also from a handler.
    ///
    /// O(peak number of timers); allocates.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Expired};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Builder::new().build_with(|_: Expired<u64>| ())?;
    /// for id in 0..3 {
    ///     timer.schedule(Duration::from_secs(60), id)?;
    /// }
    /// let mut ids: Vec<_> =
    ///     timer.cancel_all().into_iter().map(|unfired| unfired.payload).collect();
    /// ids.sort();
    /// assert_eq!((ids, timer.pending()), (vec![0, 1, 2], 0));
    /// # Ok(()) }
    /// ```
    pub fn cancel_all(&self) -> Vec<Unfired<T>> {
        let rate = &self.inner.rate;
        let unfired = |(key, tick, payload)| Unfired::new(payload, key, tick, rate);
        slot::with(|slot| {
            let shards = self.inner.handles.iter();
            let cancelled = shards.flat_map(|shard| shard.producer(slot).cancel_all());
            cancelled.map(unfired).collect()
        })
    }

    /// Moves the timer that `key` names to fire after a delay or at a point in time instead; see [`When`].
    ///
    /// Pushing a deadline out moves nothing in the wheel and sends nothing to the worker; pulling it in
    /// costs about as much as a schedule. The key stays valid.
    ///
    /// It asks for the timer, not for the engine: in a forked child of the process that started the engine the timer
    /// moves, in the child's copy of it, and never fires there ([`state`](Self::state) says so).
    #[inline]
    pub fn reschedule(&self, key: Key<T>, when: impl Into<When>) -> Reschedule {
        self.inner.reschedule(key, self.inner.tick(when))
    }

    /// Returns whether the timer that `key` names has not ended: neither fired, nor cancelled, nor returned. A
    /// periodic timer has not while its handler runs.
    #[inline]
    #[must_use]
    pub fn is_pending(&self, key: Key<T>) -> bool {
        self.inner
            .handle(key)
            .is_some_and(|handle| handle.is_pending(key))
    }

    /// Returns when the timer that `key` names is due, rounded up to a tick, if it has not ended. Of a periodic timer
    /// the deadline of its next call.
    #[must_use]
    pub fn deadline(&self, key: Key<T>) -> Option<Time> {
        let tick = self.inner.handle(key)?.deadline_of(key)?;
        Some(self.inner.rate.start_of(tick))
    }
}

/// The engine as a whole.
impl<T: Send + 'static> Timer<T> {
    /// Returns the engine's time, for deadlines.
    #[must_use]
    pub fn now(&self) -> Time {
        self.inner.source.now()
    }

    /// Returns the length of a tick.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.inner.rate.tick()
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.inner.handles.len()
    }

    /// Returns the number of timers that are pending.
    ///
    /// Exact when nothing is going on at the moment; otherwise it may count timers that end during the call, never
    /// fewer than are pending. A cancelled timer is gone at once, a fired one before its handler runs; a periodic one
    /// stays until it is cancelled or returned. O(threads * shards).
    #[must_use]
    pub fn pending(&self) -> usize {
        let pending: u64 = self
            .inner
            .handles
            .iter()
            .map(|handle| handle.pending())
            .sum();
        usize::try_from(pending).unwrap_or(usize::MAX)
    }

    /// Returns where the engine stands. O(shards).
    #[must_use]
    pub fn state(&self) -> EngineState {
        EngineState::of(&self.inner)
    }

    /// Returns whether the engine has been stopped: [`EngineState::Stopped`].
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        // Without a look at the shards, of which `state` asks whether one has failed.
        self.inner.status.phase() == EnginePhase::Stopped
    }

    /// Returns whether a thread is turning or ending a shard, so that one of its handlers may be running or about to.
    /// False if there is no such shard, and in a forked child, which has no workers.
    ///
    /// A thread that has found a timer [not pending](Self::is_pending), and then finds that its [shard](Key::shard) is
    /// not turning, comes after the timer's handler and sees what it did: no handler of the timer runs or will run. What
    /// an executor was handed may still run. The answer may be out of date when it comes. Two atomic loads.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Drive, Expired, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = Builder::new().shards(1).drive(Drive::Manual);
    /// let timer = builder.build_per_shard(|_shard| {
    ///     |timer: &Timer<u32>, expired: Expired<u32>| assert!(timer.is_turning(expired.shard))
    /// })?;
    /// let key = timer.schedule(Duration::ZERO, 17)?;
    /// assert_eq!(timer.turn(), Ok(1));
    /// assert!(!timer.is_pending(key) && !timer.is_turning(key.shard()));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_turning(&self, shard: usize) -> bool {
        let is_turning = self.inner.berths.get(shard).is_some_and(Berth::is_turning);
        // In the child of a fork the parent's turns never end.
        is_turning && !self.inner.status.is_forked()
    }

    /// Starts the workers, which the first timer would do otherwise. Does nothing if they run.
    ///
    /// # Errors
    ///
    /// If the engine has been stopped, or a thread cannot be spawned; then the call may be repeated.
    pub fn start(&self) -> Result<(), StartError> {
        (self.inner.calls.start)(&self.inner)
    }

    /// Stops the engine and returns every timer that has not ended, due ones included.
    ///
    /// Waits until the handlers that run right now return, and drops them. Timers that other threads schedule
    /// meanwhile are either returned here or refused there, never lost. A second call returns nothing. Afterwards
    /// [`pending`](Self::pending) is 0. Statistics count what came back as returned, not as cancelled; to its handle
    /// it is cancelled ([`TimerHandle::is_cancelled`](crate::TimerHandle::is_cancelled)).
    ///
    /// No worker keeps the engine then, except for one whose shard a [`DrivenShard`](crate::DrivenShard) has at the time:
    /// that one lets go of it a moment later. The threads of all end by themselves: what handlers have left there in
    /// thread-locals is destroyed after this, and not waited for.
    ///
    /// # Errors
    ///
    /// [`StopError::InsideHandler`] on a worker of this engine, which would wait for itself;
    /// [`StopError::Forked`] in a forked child of the process that started the engine.
    pub fn stop(&self) -> Result<Vec<Unfired<T>>, StopError> {
        (self.inner.calls.shutdown)(&self.inner, Shutdown::ReturnUnfired, None)
    }

    /// Ends the engine in the given way, waits for its shards, and returns every timer that has not fired.
    ///
    /// Waits for `limit` at most (`Duration::MAX` means for ever); for handlers that run, and in the modes other
    /// than [`Shutdown::ReturnUnfired`] for the timers that still fire. An engine that its caller turns fires them in
    /// this call, on this thread, however long that takes. Several calls do not disturb each other: the
    /// stricter mode counts, [`stop`](Self::stop) being the strictest, and each timer is returned by one of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Shutdown, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// timer.run_after(Duration::from_millis(5), || println!("soon"))?;
    /// timer.run_after(Duration::from_secs(3600), || println!("in an hour"))?;
    /// let within = Duration::from_millis(500);
    /// let rest = timer.shutdown(Shutdown::Drain { within }, Duration::from_secs(10))?;
    /// assert_eq!(rest.len(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`StopError::InsideHandler`] on a worker of this engine, which would wait for itself; the engine goes on.
    /// * [`StopError::TimedOut`] if shards are still at work after `limit`. The engine goes on to end, and nothing is
    ///   lost: call again, or call [`stop`](Self::stop) to cut it short.
    /// * [`StopError::Forked`] in a forked child of the process that started the engine.
    pub fn shutdown(&self, mode: Shutdown, limit: Duration) -> Result<Vec<Unfired<T>>, StopError> {
        (self.inner.calls.shutdown)(&self.inner, mode, Some(limit))
    }

    /// Waits until every worker has handled what is due at the clock's current time and has nothing to do.
    ///
    /// Meant for a virtual clock: after `clock.advance(..)`, `wait_idle` returns when every handler that became due has
    /// returned. It wakes each worker, and waits until each has found nothing to do after that. A timer that a handler
    /// schedules for now on *another* shard meanwhile may not have fired. A shard that has ended or failed counts as
    /// idle. Returns at once inside of the engine's own handlers, and of an engine that has not started, has been
    /// stopped, or is turned by hand.
    ///
    /// It has no limit: it waits for handlers that block, so it must not be called with a lock in hand that one of them
    /// takes, and for as long as timers come faster than their handlers return.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Builder, EngineState, ManualClock};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Builder::new().clock(clock.clone()).build()?;
    /// timer.start()?;
    /// assert_eq!(timer.state(), EngineState::Started);
    /// timer.run_after(Duration::from_secs(3600), || println!("an hour later"))?;
    /// clock.advance(Duration::from_secs(3600) + timer.tick());
    /// timer.wait_idle(); // its handler has returned
    /// assert_eq!((timer.stats().fired, timer.pending()), (1, 0));
    /// println!("{} shards, {} on the clock", timer.shards(), timer.now());
    /// timer.stop()?;
    /// assert!(timer.is_stopped());
    /// # Ok(()) }
    /// ```
    pub fn wait_idle(&self) {
        self.inner.wait_idle();
    }

    /// Returns the statistics so far. O(threads * shards).
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.inner)
    }
}

/// Makes a shard the home of the calling thread, for tests of several shards by one thread.
#[cfg(feature = "__internal")]
pub fn set_home<T>(timer: &Timer<T>, shard: usize) {
    timer.inner.set_home(shard);
}

debug_fields!([T] Timer<T>, "Timer", it, state: EngineState::of(&it.inner), shards: it.inner.handles.len(),
    tick: it.inner.rate.tick());

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<T> core::panic::UnwindSafe for Timer<T> {}
impl<T> core::panic::RefUnwindSafe for Timer<T> {}
