//! `Remote`: the other threads' access to an event loop's timer.

use super::remote_key::RemoteKey;
use super::stats_of;
use crate::engine::TimerTask;
use crate::node::offer::offer;
use crate::shard::{Producer, ShardHandle};
use crate::stats::ShardStats;
use crate::time::{Deadline, Period, Recurrence, Repeat, TickRate, Time, TimeSource, When};
use crate::types::{Cancel, Recurring, Reschedule, ScheduleError, ScheduleErrorKind};
use std::sync::Arc;

/// Schedules on an [`EventLoopTimer`](super::EventLoopTimer) from other threads. Clone it freely.
///
/// Everything here is lock-free and O(1), and works while the loop polls, sleeps or is busy with its
/// sockets. The loop is woken only if it sleeps beyond the new deadline. After the loop's timer is gone,
/// schedules are refused with the payload in the error. It reaches what remotes have scheduled, by a [`RemoteKey`]; what
/// the loop itself has scheduled is the loop's own. Timers of one thread that have one deadline fire in the order in
/// which they were scheduled; see [`EventLoopTimer`](super::EventLoopTimer).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{EventLoopTimer, MissedTicks, Period, Settings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let mut timer: EventLoopTimer<u64> = EventLoopTimer::with_waker(Settings::new(), || ())?;
/// let remote = timer.remote();
/// let minute = Duration::from_secs(60);
/// let other = std::thread::spawn(move || {
///     let key = remote.schedule(minute, 17)?;
///     assert!(remote.reschedule(key, 2 * minute).is_moved());
///     assert!(remote.is_pending(key) && remote.deadline(key) > Some(remote.now() + minute));
///     assert_eq!(remote.cancel(key).into_payload(), Some(17));
///
///     remote.schedule(Duration::ZERO, 1)?;
///     remote.schedule(minute, 2)?;
///     remote.schedule_periodic(minute, Period::fixed_rate(minute, MissedTicks::Skip), 3)?;
///     assert_eq!((remote.pending(), remote.stats().cancelled), (3, 1));
///     Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// });
/// other.join().unwrap()?;
/// assert_eq!(timer.poll(timer.now(), |expired| assert_eq!(expired.payload, 1)).fired, 1);
/// # Ok(()) }
/// ```
pub struct Remote<T> {
    shard: Arc<ShardHandle<T>>,
    rate: TickRate,
    pub(super) source: Arc<TimeSource>,
}

impl<T> Clone for Remote<T> {
    fn clone(&self) -> Self {
        Self {
            shard: Arc::clone(&self.shard),
            rate: self.rate,
            source: Arc::clone(&self.source),
        }
    }
}

impl<T: Send + 'static> Remote<T> {
    pub(super) fn new(shard: Arc<ShardHandle<T>>, rate: TickRate, source: Arc<TimeSource>) -> Self {
        Self {
            shard,
            rate,
            source,
        }
    }

    /// Schedules `payload` to fire after a delay, or at a point in time ([`When`]), rounded up to the next tick.
    ///
    /// # Errors
    ///
    /// If the loop's timer is gone or `max_pending` timers are pending. The payload is in the error.
    pub fn schedule(
        &self,
        when: impl Into<When>,
        payload: T,
    ) -> Result<RemoteKey<T>, ScheduleError<T>> {
        let tick = self.deadline_now(when.into()).tick;
        offer(payload, |payload| {
            self.shard.try_with_producer(|producer| {
                let Some(producer) = producer else {
                    return Err(payload.refuse(ScheduleErrorKind::OutOfMemory));
                };
                let armed = producer.schedule(tick, payload, false)?;
                Ok(RemoteKey::new(self.shard.key(armed)))
            })
        })
    }

    /// Schedules a clone of `payload` once per period, the first time at `first`; see
    /// [`Timer::schedule_periodic`](crate::Timer::schedule_periodic).
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule).
    pub fn schedule_periodic(
        &self,
        first: impl Into<When>,
        period: impl Into<Period>,
        payload: T,
    ) -> Result<RemoteKey<T>, ScheduleError<T>>
    where
        T: Recurring,
    {
        self.begin_periodic(first.into(), period.into(), payload, T::clone)
    }

    fn begin_periodic(
        &self,
        first: When,
        period: Period,
        payload: T,
        clone: fn(&T) -> T,
    ) -> Result<RemoteKey<T>, ScheduleError<T>> {
        let recurrence = Recurrence::new(self.deadline_now(first), period, self.rate);
        let repeat = Repeat {
            payload,
            clone,
            recurrence,
        };
        self.shard.try_with_producer(|producer| match producer {
            Some(producer) => producer.schedule_periodic(repeat).map(RemoteKey::new),
            None => Err(ScheduleError::no_memory(repeat.payload)),
        })
    }

    /// Cancels the timer that `key` names and hands its payload back, if it is still pending.
    pub fn cancel(&self, key: RemoteKey<T>) -> Cancel<T> {
        self.shard
            .with_producer(|producer| producer.cancel(key.into()))
    }

    /// Moves the timer that `key` names to fire after a delay or at a point in time instead. Pushing a
    /// deadline out sends nothing to the loop.
    pub fn reschedule(&self, key: RemoteKey<T>, when: impl Into<When>) -> Reschedule {
        let tick = self.deadline_now(when.into()).tick;
        let moved = |producer: Producer<'_, T>| producer.move_to(key.into(), tick);
        Reschedule::from_moved(self.shard.with_producer(moved))
    }

    /// Returns whether the timer that `key` names has not ended.
    #[must_use]
    pub fn is_pending(&self, key: RemoteKey<T>) -> bool {
        self.shard.is_pending(key.into())
    }

    /// Returns when the timer that `key` names is due, rounded up to a tick, if it has not ended. Of a periodic timer
    /// the deadline of its next call.
    #[must_use]
    pub fn deadline(&self, key: RemoteKey<T>) -> Option<Time> {
        self.shard
            .deadline_of(key.into())
            .map(|tick| self.rate.start_of(tick))
    }

    /// Returns the number of timers that are pending, the loop's own included. O(threads).
    #[must_use]
    pub fn pending(&self) -> usize {
        usize::try_from(self.shard.pending()).unwrap_or(usize::MAX)
    }

    /// Returns the statistics of the loop's timer so far, its own timers included; reads its clock. O(threads).
    #[must_use]
    pub fn stats(&self) -> ShardStats {
        stats_of(&self.shard, &self.rate, self.source.now())
    }

    /// Returns the deadline of a timer that is set now.
    #[inline(always)] // see `When::deadline`
    pub(crate) fn deadline_now(&self, when: When) -> Deadline {
        self.source.deadline(&self.rate, when)
    }

    /// Returns the time by the timer's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.source.now()
    }

    /// Returns the point on the timer's clock that `when` names now, before it is rounded to a tick.
    #[must_use]
    pub fn time_of(&self, when: impl Into<When>) -> Time {
        self.deadline_now(when.into()).nominal
    }
}

impl Remote<TimerTask> {
    /// Schedules a closure to fire after a delay, or at a point in time, rounded up to the next tick; the
    /// loop runs it where it polls.
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
    /// let remote = timer.remote();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| remote.run_after(Duration::ZERO, || println!("in the loop's thread")));
    /// });
    /// assert_eq!(timer.poll(timer.now(), |expired| expired.payload.run()).fired, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule). The closure is in the error, as a task.
    pub fn run_after(
        &self,
        when: impl Into<When>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<RemoteKey<TimerTask>, ScheduleError<TimerTask>> {
        self.schedule(when, TimerTask::new(run))
    }

    /// Schedules a closure to fire once per period, the first time at `first`; the loop runs it where it polls. See
    /// [`Timer::repeat`](crate::Timer::repeat).
    ///
    /// # Errors
    ///
    /// Like [`schedule`](Self::schedule).
    pub fn repeat(
        &self,
        first: impl Into<When>,
        period: impl Into<Period>,
        run: impl FnMut() + Send + 'static,
    ) -> Result<RemoteKey<TimerTask>, ScheduleError<TimerTask>> {
        let task = TimerTask::repeating(run);
        self.begin_periodic(first.into(), period.into(), task, TimerTask::again)
    }
}

debug_fields!([T] Remote<T>, "Remote", it, tick: it.rate.tick());

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<T> core::panic::UnwindSafe for Remote<T> {}
impl<T> core::panic::RefUnwindSafe for Remote<T> {}
