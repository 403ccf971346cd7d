//! The state that timers, handles and workers of one engine share.
//!
//! An engine owns its shards' workers while they have no thread, a worker owns its handler, and a handler is given the
//! engine: these types name each other, so they stand in one file, and what they do in files of their own.

use super::berths::Berths;
use super::events;
use super::hooks::Hooks;
use super::pinning::Starvation;
use super::retired::TimerCount;
use super::routing::Router;
use super::seat::Seat;
use super::settings::{Drive, IdleStrategy};
use crate::contain::Contained;
use crate::park::parker::Parker;
use crate::shard::{Owner, Producer, ShardHandle};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{forks, slot};
use crate::time::{Period, Recurrence, Repeat, TickRate, Time, TimeSource, When};
use crate::types::{
    Budget, Expired, Key, RawKey, Reschedule, ScheduleError, ScheduleErrorKind, Scheduled, Unfired,
};
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

/// See the module. The fields that every schedule reads come first; none of them is written after the build.
pub(super) struct Inner<T> {
    pub(super) handles: Box<[Arc<ShardHandle<T>>]>,
    pub(super) rate: TickRate,
    pub(super) source: TimeSource,
    pub(super) router: Router,
    pub(super) status: EngineStatus,
    pub(super) budget: Budget,
    pub(super) slack: Duration,
    pub(super) idle: IdleStrategy,
    pub(super) drive: Drive,
    pub(super) hooks: Hooks,
    pub(super) thread_name: String,
    pub(super) rejected: CachePadded<AtomicU64>,
    /// When a drain gives up, in nanoseconds: the earliest that was asked for.
    pub(super) drain_until: AtomicU64,
    /// Calls of `wait_idle`.
    pub(super) idle_requests: AtomicU64,
    pub(super) berths: Arc<Berths<ShardWorker<T>, Unfired<T>>>,
    pub(super) seats: Vec<Arc<Seat>>,
    /// The hook that the clock calls when it was moved by hand: the clock knows it weakly, so that it forgets engines
    /// that are gone.
    pub(super) _hook: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Counted `Timer`s; see `hold`.
    pub(super) timers: CachePadded<TimerCount>,
    /// The reference that keeps this engine's memory.
    pub(super) hold: Weak<EngineOwner<T>>,
    /// Retires the engine when its last `EngineOwner` goes.
    pub(super) retire: fn(NonNull<Self>),
    /// The waker in a payload that is one; of engines whose payloads may be wakers.
    pub(super) waker_of: Option<fn(&T) -> Option<&Waker>>,
    /// Takes it out.
    pub(super) take_waker: Option<fn(T) -> Result<Waker, T>>,
}

/// The address of an engine, for a holder that keeps the engine's memory; see `hold`.
pub(super) struct EnginePointer<T>(pub(super) NonNull<Inner<T>>);

/// Keeps an engine's memory; lives in an `Arc`.
pub(super) struct EngineOwner<T>(pub(super) EnginePointer<T>);

/// Drives one shard, on any thread; see `shard_worker`.
pub(super) struct ShardWorker<T> {
    pub(super) owner: Owner<T>,
    pub(super) parker: Parker,
    pub(super) handler: Contained<Handler<T>>,
    pub(super) shard: usize,
    /// The core to pin the worker to.
    pub(super) core: Option<usize>,
    pub(super) starvation: Starvation,
    /// A driven shard has announced a sleep.
    pub(super) asleep: bool,
    /// The number of calls of `wait_idle` that the worker has seen.
    pub(super) idle_seen: u64,
    /// The number of them that it has answered.
    pub(super) idle_answered: u64,
    /// Wakers that have fired and are called together; see `shard_worker`.
    pub(super) wake_batch: Vec<(Waker, RawKey)>,
    /// How they are called.
    pub(super) wake: fn(Waker),
}

/// The handler of one shard.
pub(super) type Handler<T> = Box<dyn FnMut(&Inner<T>, Expired<T>) + Send>;

impl<T> Inner<T> {
    /// Returns when a drain gives up.
    pub(super) fn drain_until(&self) -> Time {
        // ORDERING: Relaxed: published with the phase; what a second drain lowers may be missed for one look.
        Time::from_nanos(self.drain_until.load(Ordering::Relaxed))
    }

    /// Returns the tick of a timer that is set now.
    #[inline(always)] // see `When::deadline`
    pub(super) fn tick(&self, when: impl Into<When>) -> u64 {
        self.source.deadline(&self.rate, when.into()).tick
    }

    /// Returns the shard that a key names, if it can be one of this engine's.
    #[inline]
    pub(super) fn handle(&self, key: Key<T>) -> Option<&ShardHandle<T>> {
        self.handles.get(key.shard()).map(|handle| &**handle)
    }

    /// Counts a refusal, and says so if the shard takes no timers because its worker has failed.
    #[cold]
    pub(super) fn rejected<P>(&self, error: ScheduleError<P>, shard: usize) -> ScheduleError<P> {
        // ORDERING: Relaxed: a statistic.
        self.rejected.fetch_add(1, Ordering::Relaxed);
        let error = match error.kind() {
            ScheduleErrorKind::Stopped => {
                ScheduleError::new(self.why_closed(shard), error.into_payload())
            }
            _ => error,
        };
        events::timer_was_refused(shard, error.kind());
        error
    }

    /// Returns why a shard takes no timers any more: its worker has failed, or the engine is stopped.
    #[cold]
    pub(super) fn why_closed(&self, shard: usize) -> ScheduleErrorKind {
        match self.status.failure(shard) {
            Some(message) if self.status.is(Phase::Started) => ScheduleErrorKind::WorkerFailed {
                shard,
                message: message.clone(),
            },
            _ => ScheduleErrorKind::Stopped,
        }
    }

    #[inline]
    pub(super) fn reschedule(&self, key: Key<T>, tick: u64) -> Reschedule {
        let moved = self.on_shard(key, |producer| producer.reschedule(key, tick));
        Reschedule::from_moved(moved.unwrap_or(false))
    }

    /// Runs `f` with the calling thread's way to the shard that a key names.
    #[inline]
    pub(super) fn on_shard<R>(
        &self,
        key: Key<T>,
        f: impl FnOnce(Producer<'_, T>) -> R,
    ) -> Option<R> {
        let handle = self.handle(key)?;
        Some(slot::with(|slot| f(handle.producer(slot))))
    }

    /// Returns whether the calling thread turns or ends one of the shards: an engine must not be stopped or turned from
    /// its own handlers, destructors and hooks, because it would wait for itself.
    pub(super) fn is_inside(&self) -> bool {
        self.seats.iter().any(|seat| seat.is_inside())
    }

    /// Makes every shard turn now.
    pub(super) fn request_turns(&self) {
        for handle in &self.handles {
            handle.request_turn();
        }
    }
}

impl<T: Send + 'static> Inner<T> {
    pub(super) fn begin_periodic(
        &self,
        first: When,
        period: Period,
        payload: T,
        clone: fn(&T) -> T,
    ) -> Scheduled<T> {
        let course = Recurrence::new(self.source.deadline(&self.rate, first), period, self.rate);
        if let Err(kind) = self.ready() {
            return Err(ScheduleError::new(kind, payload));
        }
        slot::with(|slot| {
            let shard = self.router.route(slot);
            let begun = match self.handles[shard].try_producer(slot) {
                Some(producer) => producer.schedule_periodic(Repeat {
                    payload,
                    clone,
                    course,
                }),
                None => Err(ScheduleError::no_memory(payload)),
            };
            begun.map_err(|error| self.rejected(error, shard))
        })
    }

    /// Schedules a timer on the shard that the calling thread's next timer goes to. `held`: a handle holds its node.
    #[inline(always)] // of every schedule
    pub(super) fn schedule(&self, tick: u64, payload: T, held: bool) -> Scheduled<T> {
        if let Err(kind) = self.ready() {
            return Err(ScheduleError::new(kind, payload));
        }
        slot::with(|slot| {
            let shard = self.router.route(slot);
            let scheduled = match self.handles[shard].try_producer(slot) {
                Some(producer) => producer.schedule(tick, payload, held),
                None => Err(ScheduleError::no_memory(payload)),
            };
            scheduled.map_err(|error| self.rejected(error, shard))
        })
    }
}

/// Where an engine stands.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{EngineState, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// assert_eq!(timer.state(), EngineState::Init);
/// timer.run_after(Duration::from_secs(5), || ())?;
/// assert_eq!(timer.state(), EngineState::Started);
/// timer.stop()?;
/// assert_eq!(timer.state(), EngineState::Stopped);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum EngineState {
    /// Built; the workers start with the first timer or with [`Timer::start`](crate::Timer::start).
    Init,
    /// Running.
    Started,
    /// Running, but a worker has ended by a panic: its shard refuses timers, and [`Stats`](crate::Stats) says why.
    Failed,
    /// Being shut down in a mode in which what is pending still fires, see [`Shutdown`](crate::Shutdown); new timers
    /// are refused.
    Draining,
    /// Stopped, which is final: by [`Timer::stop`](crate::Timer::stop) and the modes that return pending timers from
    /// the moment of the call, otherwise when the last shard has ended.
    Stopped,
    /// Started by another process, of which this one is a fork: the workers are not here.
    Forked,
}

/// Says what becomes of the timers that are pending when an engine ends.
///
/// New timers are refused from the moment of the call in every mode.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Shutdown, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// timer.run_after(Duration::from_secs(3600), || println!("flushed early, not lost"))?;
/// let unfired = timer.shutdown(Shutdown::FireAll, Duration::from_secs(5))?;
/// assert!(unfired.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Shutdown {
    /// They are returned, due ones included. The default, and what [`Timer::stop`](crate::Timer::stop) does.
    #[default]
    ReturnUnfired,
    /// They all fire now, each on its shard: the one case in which a timer fires before its deadline. They come in the
    /// order of their deadlines; but a timer that was pushed out may stand at an earlier one of its own, and of a tick
    /// with more than 16 384 of them the rest takes turns with what comes later, see [`Budget`](crate::Budget). A
    /// periodic timer fires once, even if it is moved meanwhile, and its next period is returned.
    FireAll,
    /// They fire when they are due, until this time by the engine's clock or until none is left; then the rest is
    /// returned. An engine that its caller turns fires what is due at the moment of the call.
    Drain {
        /// When to give up.
        until: Time,
    },
}

/// The phases in the order in which an engine goes through them; some are left out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    Init = 0,
    Started = 1,
    /// Turn until a given time, then end.
    Draining = 2,
    /// Fire everything, then end.
    Firing = 3,
    Stopped = 4,
}

/// Where an engine stands: one word for the whole engine, and why a shard has ended before its time.
///
/// The word is read by every schedule and written under the lock of the berths only. It carries the number of forks at
/// which it was written. In a forked child that number differs, and the word counts as `Init`, which leads a schedule
/// to the start. There the number at which the workers were started tells that they are another process's threads.
pub(crate) struct EngineStatus {
    /// The phase, and the number of forks at which it was written.
    word: AtomicU64,
    /// One more than the number of forks at which the workers were started; 0 without workers.
    home: AtomicU64,
    /// The engine has been told to end, in this process or before a fork.
    ended: AtomicBool,
    /// Why each shard has ended before its time.
    failures: Box<[OnceLock<String>]>,
}

impl EngineStatus {
    pub(crate) fn new(shards: usize) -> Self {
        let failures = (0..shards).map(|_| OnceLock::new()).collect();
        forks::watch();
        let (word, home) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            word,
            home,
            ended: AtomicBool::new(false),
            failures,
        }
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        // ORDERING: Acquire pairs with `set`: the workers' set-up is seen with `Started`, the end of a drain with
        // `Draining`. [P12]
        match self.word.load(Ordering::Acquire) ^ forks::count() {
            1 => Phase::Started,
            2 => Phase::Draining,
            3 => Phase::Firing,
            4 => Phase::Stopped,
            // Or the word was written before a fork, which does not forget an end.
            // ORDERING: Relaxed: of a value that is about to stand in the word, or has before a fork.
            _ if self.ended.load(Ordering::Relaxed) => Phase::Stopped,
            _ => Phase::Init,
        }
    }

    /// Returns whether this is the phase, one that comes after `Init`. One comparison, because each schedule asks.
    #[inline]
    pub(crate) fn is(&self, phase: Phase) -> bool {
        // ORDERING: Acquire as in `phase`. [P12]
        self.word.load(Ordering::Acquire) == forks::count() | phase as u64
    }

    /// Goes on to a later phase; does nothing if the engine is there already. Under the lock of the berths.
    pub(crate) fn set(&self, phase: Phase) {
        if self.phase() < phase {
            // ORDERING: Relaxed: read together with the word, which follows, or in a fork.
            self.ended.store(phase > Phase::Started, Ordering::Relaxed);
            // ORDERING: Release as in `phase`. [P12]
            self.word
                .store(forks::count() | phase as u64, Ordering::Release);
        }
    }

    /// Notes that the workers are threads of the calling process.
    pub(super) fn live_here(&self) {
        // ORDERING: Release: a thread that sees that there are workers sees where. [P12]
        self.home.store(forks::count() + 1, Ordering::Release);
    }

    /// Returns whether the workers are another process's threads.
    pub(super) fn is_forked(&self) -> bool {
        // ORDERING: Acquire pairs with `live_here`. [P12]
        let home = self.home.load(Ordering::Acquire);
        home != 0 && home != forks::count() + 1
    }

    /// Notes why a shard has ended; the first reason stays.
    pub(super) fn fail(&self, shard: usize, message: String) {
        if let Some(failure) = self.failures.get(shard) {
            let _ = failure.set(message);
        }
    }

    /// Returns why a shard has ended before its time, if it has.
    pub(super) fn failure(&self, shard: usize) -> Option<&String> {
        self.failures.get(shard)?.get()
    }

    /// Returns the state for the user.
    pub(super) fn engine_state(&self) -> EngineState {
        let failed = || self.failures.iter().any(|failure| failure.get().is_some());
        match self.phase() {
            Phase::Init if self.is_forked() => EngineState::Forked,
            Phase::Init => EngineState::Init,
            Phase::Started if failed() => EngineState::Failed,
            Phase::Started => EngineState::Started,
            Phase::Draining | Phase::Firing => EngineState::Draining,
            Phase::Stopped => EngineState::Stopped,
        }
    }
}
