//! The state that timers, handles and workers of one engine share.
//!
//! An engine owns its shards' berths, a shard owns its handler, and a handler is given the engine: these types name each
//! other, so they stand in one file, and what they do in files of their own.

use super::crew::standing::Standing;
use super::crew::status::{EnginePhase, EngineStatus};
use super::crew::wake::TurnWaker;
use super::events;
use super::hooks::Hooks;
use super::pinning::Starvation;
use super::retired::TimerCount;
use super::routing::Router;
use super::settings::{Drive, IdleStrategy, Shutdown};
use super::task::Wakers;
use crate::contain::Contained;
use crate::node::offer::{Offer, Refusal, offer};
use crate::node::table::Armed;
use crate::shard::{Owner, Producer, ShardHandle};
use crate::stats::Counter;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::lock::Mutex;
use crate::sync::{slot, way};
use crate::time::{Period, Recurrence, Repeat, TickRate, Time, TimeSource, When};
use crate::types::{
    Budget, Expired, Key, RawKey, Reschedule, ScheduleError, ScheduleErrorKind, Scheduled,
    StartError, StopError, TurnError, Unfired,
};
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

/// See the module. The fields that every schedule reads come first; none of them is written after the build.
pub(super) struct Inner<T> {
    /// The number of the engine's shards as a group: see `sync::way`.
    pub(super) group: u64,
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
    pub(super) idle_calls: AtomicU64,
    pub(super) berths: Box<[Berth<T>]>,
    /// The lock of what is rare, see `crew::lifecycle`, and what ended shards have left and no caller has received yet;
    /// `None` once the last `Timer` is gone, so that no caller will ask for it.
    pub(super) unfired: Mutex<Option<Vec<Unfired<T>>>>,
    /// The hook that the clock calls when it was moved by hand: the clock knows it weakly, so that it forgets engines
    /// that are gone.
    pub(super) _hook: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Counted `Timer`s; see `hold`.
    pub(super) timers: CachePadded<TimerCount>,
    /// The reference that keeps this engine's memory.
    pub(super) hold: Weak<EngineOwner<T>>,
    pub(super) calls: Calls<T>,
    /// Of engines whose payloads may be wakers.
    pub(super) wakers: Option<Wakers<T>>,
}

/// The calls of other crates, which compile none of them; see `crew::calls`.
pub(super) struct Calls<T> {
    /// Retires the engine when its last `EngineOwner` goes.
    pub(super) retire: fn(NonNull<Inner<T>>),
    pub(super) start: fn(&Inner<T>) -> Result<(), StartError>,
    pub(super) shutdown: Stop<T>,
    pub(super) stop_orphaned: fn(&Inner<T>),
    pub(super) turn: fn(&Inner<T>) -> Result<usize, TurnError>,
    pub(super) claim: fn(&Inner<T>, usize) -> Result<(), TurnError>,
    pub(super) release: fn(&Inner<T>, usize),
    pub(super) turn_driven: TurnDriven<T>,
}

type Stop<T> = fn(&Inner<T>, Shutdown, Option<Duration>) -> Result<Vec<Unfired<T>>, StopError>;
type TurnDriven<T> = fn(&Inner<T>, usize, &Waker, fn(Waker)) -> Result<Option<Duration>, TurnError>;

/// The way of a `TimerHandle`, a future or another holder to its engine; see `hold`.
///
/// It counts nothing itself. A handle or future is counted, by a thread state, from before this is made until after its
/// last use, or the engine is never freed. A copy is used no longer than its holder is counted.
pub(super) struct EngineRef<T>(pub(super) NonNull<Inner<T>>);

/// Where the timer of a handle or a future lies: its shard, which its engine has, in the upper half, and its node in the
/// lower one. One word, so that a handle takes two registers.
#[derive(Clone, Copy)]
pub(super) struct Place(u64);

impl Place {
    #[inline]
    pub(super) const fn new(shard: u16, index: u32) -> Self {
        Self((shard as u64) << 32 | index as u64)
    }

    #[inline]
    pub(super) const fn shard(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline]
    pub(super) const fn index(self) -> u32 {
        self.0 as u32
    }
}

/// Keeps an engine's memory; lives in an `Arc`.
pub(super) struct EngineOwner<T>(pub(super) EngineRef<T>);

/// Where a shard lies, from the build to its end; see `crew::berth`.
pub(super) struct Berth<T> {
    /// The shard, until a thread takes it out to end it. The thread that holds this lock turns it.
    pub(super) shard: Mutex<Option<ShardWorker<T>>>,
    pub(super) waker: Arc<TurnWaker>,
    pub(super) standing: Arc<Standing>,
    /// A worker's thread exists for the shard. Written under the engine's lock.
    pub(super) has_worker: AtomicBool,
    /// The number of the thread that turns or ends the shard, and so may run its handlers; 0 for none.
    pub(super) turned_by: AtomicU64,
    /// Why the shard has ended before its time.
    pub(super) failure: OnceLock<Arc<str>>,
    /// How the worker is pinned, packed. Written by the worker.
    pub(super) pinning: Counter,
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

    /// Runs `f` with the calling thread's producer of a shard. Returns `absent` if the engine has no such shard.
    #[inline(always)] // of every cancel
    pub(super) fn on_shard<R>(
        &self,
        shard: usize,
        absent: R,
        f: impl FnOnce(Producer<'_, T>) -> R,
    ) -> R {
        let way = way::current();
        if way.group == self.group && usize::from(way.shard) == shard {
            // SAFETY: the group's shards are this engine's, which keeps them.
            f(unsafe { Producer::of(way) })
        } else {
            self.on_shard_by_slot(shard, absent, f)
        }
    }

    #[inline(never)]
    fn on_shard_by_slot<R>(
        &self,
        shard: usize,
        absent: R,
        f: impl FnOnce(Producer<'_, T>) -> R,
    ) -> R {
        let Some(handle) = self.handles.get(shard) else {
            return absent;
        };
        slot::with(|slot| {
            let producer = handle.producer(slot);
            self.remember(slot, shard, producer);
            f(producer)
        })
    }

    /// Makes a producer the way of the calling thread, which holds `slot`, if its shard is the thread's home.
    fn remember(&self, slot: u32, shard: usize, producer: Producer<'_, T>) {
        if self.router.is_home(slot, shard) {
            producer.remember();
        }
    }

    /// Makes a shard the home of the calling thread, as a worker does.
    pub(super) fn set_home(&self, shard: usize) {
        slot::with(|slot| self.router.set_home(slot, shard));
        way::forget();
    }

    /// Counts a refusal, and says so if the shard takes no timers because its worker has failed.
    #[cold]
    pub(super) fn rejected(&self, kind: ScheduleErrorKind, shard: usize) -> ScheduleErrorKind {
        // ORDERING: Relaxed: a statistic.
        self.rejected.fetch_add(1, Ordering::Relaxed);
        let kind = match kind {
            ScheduleErrorKind::Stopped => self.why_closed(shard),
            kind => kind,
        };
        events::timer_was_refused(Some(shard), &kind);
        kind
    }

    /// Returns why a shard takes no timers any more: its worker has failed, or the engine is stopped.
    #[cold]
    pub(super) fn why_closed(&self, shard: usize) -> ScheduleErrorKind {
        match self.berths[shard].failure() {
            Some(message) if self.status.is(EnginePhase::Started) => {
                ScheduleErrorKind::WorkerFailed {
                    shard,
                    message: Arc::clone(message),
                }
            }
            _ => ScheduleErrorKind::Stopped,
        }
    }

    #[inline]
    pub(super) fn reschedule(&self, key: Key<T>, tick: u64) -> Reschedule {
        let moved = |producer: Producer<'_, T>| producer.move_to(key, tick);
        Reschedule::from_moved(self.on_shard(key.shard(), false, moved))
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
        self.on_home(|shard, producer| {
            let repeat = Repeat {
                payload,
                clone,
                recurrence,
            };
            let scheduled = match producer {
                Some(producer) => producer.schedule_periodic(repeat),
                None => Err(ScheduleError::no_memory(repeat.payload)),
            };
            scheduled.map_err(|error| {
                let (kind, payload) = error.into_parts();
                ScheduleError::new(self.rejected(kind, shard), payload)
            })
        })
    }

    /// Schedules a timer on the shard that the calling thread's next timer goes to. `held`: a handle holds its node.
    /// `name` makes the caller's name of it.
    #[inline(always)] // of every schedule
    pub(super) fn schedule<N>(
        &self,
        tick: u64,
        payload: Offer<'_, T>,
        held: bool,
        name: impl FnOnce(&ShardHandle<T>, Armed) -> N,
    ) -> Result<N, Refusal> {
        if let Err(kind) = self.ready() {
            return Err(payload.refuse(kind));
        }
        let way = way::current();
        if way.group != self.group {
            return payload.by_value(|payload| self.schedule_by_slot(tick, payload, held, name));
        }
        // SAFETY: the group's shards are this engine's, which keeps them.
        let producer = unsafe { Producer::of(way) };
        match producer.schedule(tick, payload, held) {
            Ok(armed) => Ok(name(producer.shard, armed)),
            Err(refusal) => Err(refusal.map(|kind| self.rejected(kind, usize::from(way.shard)))),
        }
    }

    /// Schedules a timer of a thread that remembers no way.
    #[inline(never)]
    fn schedule_by_slot<N>(
        &self,
        tick: u64,
        payload: T,
        held: bool,
        name: impl FnOnce(&ShardHandle<T>, Armed) -> N,
    ) -> Scheduled<T, N> {
        self.on_home(|shard, producer| {
            offer(payload, |payload| {
                let scheduled = match producer {
                    Some(producer) => producer
                        .schedule(tick, payload, held)
                        .map(|armed| name(producer.shard, armed)),
                    None => Err(payload.refuse(ScheduleErrorKind::OutOfMemory)),
                };
                scheduled.map_err(|refusal| refusal.map(|kind| self.rejected(kind, shard)))
            })
        })
    }

    /// Runs `f` with the shard that the calling thread's next timer goes to, and the thread's producer of it; with
    /// `None` if there is no memory for one.
    fn on_home<R>(&self, f: impl FnOnce(usize, Option<Producer<'_, T>>) -> R) -> R {
        slot::with(|slot| {
            let shard = self.router.route(slot);
            let producer = self.handles[shard].try_producer(slot);
            if let Some(producer) = producer {
                self.remember(slot, shard, producer);
            }
            f(shard, producer)
        })
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use crate::{Builder, Drive, Expired, Timer};
    use std::sync::Arc;
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3600);

    fn engine() -> Timer<u64> {
        let builder = Builder::new().shards(2).drive(Drive::Manual);
        builder.build_with(|_: Expired<u64>| ()).unwrap()
    }

    /// The number of timers that each shard has accepted.
    fn scheduled(timer: &Timer<u64>) -> Vec<u64> {
        let shards = timer.stats().shards;
        shards.iter().map(|shard| shard.scheduled).collect()
    }

    /// Engines that are built after others have gone get their memory.
    #[test]
    fn a_thread_finds_the_engine_that_it_asks() {
        for round in 0..100 {
            let (a, b) = (engine(), engine());
            let mut keys = Vec::new();
            for number in 0..8 {
                b.inner.set_home(number as usize % 2);
                keys.push((&a, &b, number, a.schedule(HOUR, number).unwrap()));
                keys.push((&b, &a, number, b.schedule(HOUR, number).unwrap()));
            }
            assert_eq!((a.pending(), b.pending()), (8, 8), "round {round}");
            assert!(scheduled(&a).contains(&8), "all on the thread's home");
            assert_eq!(scheduled(&b), [4, 4], "spread");
            for (timer, other, number, key) in keys {
                assert!(!other.cancel(key).is_won(), "a key of another engine");
                assert_eq!(timer.cancel(key).into_payload(), Some(number));
            }
            let handle = a.schedule_handle(HOUR, 9).unwrap();
            b.schedule(HOUR, 10).unwrap();
            assert_eq!(handle.cancel().into_payload(), Some(9));
            drop((handle, a));
            assert_eq!(b.pending(), 1);
        }
    }

    #[test]
    fn a_cancel_on_another_shard_changes_no_home() {
        let timer = engine();
        timer.schedule(HOUR, 0).unwrap();
        let home = usize::from(scheduled(&timer)[0] == 0);
        // The next thread's home is the other shard.
        let schedule = || timer.schedule(HOUR, 1).unwrap();
        let key = std::thread::scope(|scope| scope.spawn(schedule).join().unwrap());
        assert_ne!(key.shard(), home);
        assert!(timer.cancel(key).is_won());
        timer.schedule(HOUR, 2).unwrap();
        assert_eq!(scheduled(&timer)[home], 2);
    }

    #[test]
    fn a_thread_goes_to_its_new_home() {
        let timer = engine();
        for home in [1, 0, 1] {
            timer.inner.set_home(home);
            let key = timer.schedule(HOUR, 0).unwrap();
            assert_eq!(key.shard(), home);
        }
    }

    /// A thread remembers no way before its first schedule.
    #[test]
    fn a_refusal_by_slot_gives_the_payload_back_once() {
        let builder = Builder::new().drive(Drive::Manual).max_pending(1);
        let timer = builder.build_with(|_: Expired<Arc<()>>| ()).unwrap();
        let payload = Arc::new(());
        timer.schedule(HOUR, Arc::clone(&payload)).unwrap();
        let schedule = || timer.schedule(HOUR, Arc::clone(&payload)).unwrap_err();
        let refused = std::thread::scope(|scope| scope.spawn(schedule).join().unwrap());
        assert_eq!(Arc::strong_count(&payload), 3);
        drop(refused);
        assert_eq!(Arc::strong_count(&payload), 2);
    }

    /// Each thread inherits the number of the one before, and its part of the shard.
    #[test]
    fn threads_that_come_one_after_the_other_lose_nothing() {
        let timer = engine();
        let mut last = None;
        for number in 0..100 {
            let pair = || {
                let cancelled = last.take().map(|key| timer.cancel(key).into_payload());
                (timer.schedule(HOUR, number).unwrap(), cancelled)
            };
            let (key, cancelled) = std::thread::scope(|scope| scope.spawn(pair).join().unwrap());
            assert_eq!(cancelled, number.checked_sub(1).map(Some));
            last = Some(key);
        }
        assert_eq!((timer.pending(), timer.stats().cancelled), (1, 99));
    }
}
