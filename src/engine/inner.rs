//! The state that timers, handles and workers of one engine share.
//!
//! An engine owns its shards' berths, a shard owns its handler, and a handler is given the engine: these types name each
//! other, so they stand in one file, and what they do in files of their own.

use super::count::EngineCount;
use super::crew::standing::Standing;
use super::crew::status::{EnginePhase, EngineStatus};
use super::crew::wake::TurnWaker;
use super::events;
use super::hooks::Hooks;
use super::pinning::Starvation;
use super::retired::TimerCount;
use super::routing::Router;
use super::settings::{Drive, IdleStrategy};
use super::task::Wakers;
use crate::contain::Contained;
use crate::shard::{Owner, Producer, ShardHandle};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::lock::Mutex;
use crate::sync::process;
use crate::sync::slot;
use crate::time::{Period, Recurrence, Repeat, TickRate, Time, TimeSource, When};
use crate::types::{
    Budget, Expired, Key, RawKey, Reschedule, ScheduleError, ScheduleErrorKind, Scheduled, Unfired,
    WaitError,
};
use crate::waiting;
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
    pub(super) berths: Box<[Berth<T>]>,
    /// The lock of what is rare, see `crew::lifecycle`, and what ended shards have left and no caller has received yet;
    /// `None` once the last `Timer` is gone, so that no caller will ask for it.
    pub(super) unfired: Mutex<Option<Vec<Unfired<T>>>>,
    pub(super) _count: EngineCount,
    /// The hook that the clock calls when it was moved by hand: the clock knows it weakly, so that it forgets engines
    /// that are gone.
    pub(super) _hook: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Counted `Timer`s; see `hold`.
    pub(super) timers: CachePadded<TimerCount>,
    /// The reference that keeps this engine's memory.
    pub(super) hold: Weak<EngineOwner<T>>,
    /// Retires the engine when its last `EngineOwner` goes.
    pub(super) retire: fn(NonNull<Self>),
    /// The handlers hand timers to an executor.
    pub(super) on_executor: bool,
    /// Of engines whose payloads may be wakers.
    pub(super) wakers: Option<Wakers<T>>,
}

/// The address of an engine, for a holder that keeps the engine's memory; see `hold`.
pub(super) struct EnginePointer<T>(pub(super) NonNull<Inner<T>>);

/// Keeps an engine's memory; lives in an `Arc`.
pub(super) struct EngineOwner<T>(pub(super) EnginePointer<T>);

/// Where a shard lies, from the build to its end; see `crew::berth`.
pub(super) struct Berth<T> {
    /// The shard, until a thread takes it out to end it. Whoever holds this lock turns it.
    pub(super) shard: Mutex<Option<ShardWorker<T>>>,
    pub(super) waker: Arc<TurnWaker>,
    pub(super) standing: Arc<Standing>,
    /// A worker's thread exists for the shard. Written under the engine's lock.
    pub(super) has_worker: AtomicBool,
    /// The number of the thread that turns or ends the shard, and so may run its handlers; 0 for none.
    pub(super) turned_by: process::AtomicU64,
    /// Why the shard has ended before its time.
    pub(super) failure: OnceLock<String>,
}

/// Drives one shard, on any thread; see `crew::shard_worker`.
pub(super) struct ShardWorker<T> {
    pub(super) owner: Owner<T>,
    pub(super) handler: Contained<Handler<T>>,
    pub(super) shard: usize,
    /// The core to pin the worker to.
    pub(super) core: Option<usize>,
    pub(super) starvation: Starvation,
    /// Wakers of timers that have fired, which are called together; see `crew::shard_worker`.
    pub(super) wake_batch: Vec<(Waker, RawKey)>,
    /// How they are called.
    pub(super) wake: fn(Waker),
    /// The periodic timers that a drain has ended, for `stop`.
    pub(super) unfired: Vec<Unfired<T>>,
    /// How many timers had been scheduled when it looked for them last.
    pub(super) periodic_ended_at: Option<u64>,
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
        events::timer_was_refused(Some(shard), error.kind());
        error
    }

    /// Returns why a shard takes no timers any more: its worker has failed, or the engine is stopped.
    #[cold]
    pub(super) fn why_closed(&self, shard: usize) -> ScheduleErrorKind {
        match self.berths[shard].failure() {
            Some(message) if self.status.is(EnginePhase::Started) => {
                ScheduleErrorKind::WorkerFailed {
                    shard,
                    message: message.clone(),
                }
            }
            _ => ScheduleErrorKind::Stopped,
        }
    }

    #[inline]
    pub(super) fn reschedule(&self, key: Key<T>, tick: u64) -> Reschedule {
        let moved = self.on_shard(key, |producer| producer.reschedule(key, tick));
        Reschedule::from_moved(moved.unwrap_or(false))
    }

    /// Waits until the handler of the timer that `key` names has returned.
    pub(super) fn wait_for_handler(&self, key: Key<T>, limit: Duration) -> Result<(), WaitError> {
        if self.is_inside() {
            Err(WaitError::InsideHandler)
        } else if self.on_executor {
            Err(WaitError::OnExecutor)
        } else if self.status.is_forked() {
            Err(WaitError::Forked)
        } else {
            let shard = self.handle(key);
            shard.map_or(Ok(()), |shard| waiting::wait_for_handler(shard, key, limit))
        }
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
        self.berths.iter().any(Berth::is_inside)
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
        let recurrence =
            Recurrence::new(self.source.deadline(&self.rate, first), period, self.rate);
        if let Err(kind) = self.ready() {
            return Err(ScheduleError::new(kind, payload));
        }
        slot::with(|slot| {
            let shard = self.router.route(slot);
            let begun = match self.handles[shard].try_producer(slot) {
                Some(producer) => producer.schedule_periodic(Repeat {
                    payload,
                    clone,
                    recurrence,
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
