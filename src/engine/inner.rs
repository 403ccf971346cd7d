//! What timers, timeouts and workers of one engine share.

use super::events;
use super::hold;
use super::hold::{AnyShelf, Hold, Retire};
use super::hooks::Hooks;
use super::lifecycle::Lifecycle;
use super::routing::Router;
use super::settings::{Drive, IdleStrategy};
use super::state::{Phase, Standing};
#[cfg(feature = "futures")]
use crate::contain;
use crate::contain::Contained;
use crate::shard::{Refusal, ShardHandle};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::slot;
use crate::time::{Course, Period, Repeat, TickRate, Time, TimeSource, When};
use crate::types::{Budget, Key, Reschedule, ScheduleError, ScheduleErrorKind};
use crossbeam_utils::CachePadded;
use std::sync::{Arc, Weak};

/// See the module. The fields that every schedule reads come first; none of them is written after the build.
pub(super) struct Inner<T> {
    pub(super) handles: Box<[Arc<ShardHandle<T>>]>,
    pub(super) rate: TickRate,
    pub(super) source: TimeSource,
    pub(super) router: Router,
    /// Where the engine waits for its last handle.
    pub(super) shelf: &'static AnyShelf,
    pub(super) standing: Standing,
    /// Names the engine in the thread-local that says which engine's handlers run on this thread.
    pub(super) id: u64,
    pub(super) budget: Budget,
    pub(super) idle: IdleStrategy,
    pub(super) drive: Drive,
    pub(super) hooks: Contained<Hooks>,
    pub(super) thread_name: String,
    pub(super) rejected: CachePadded<AtomicU64>,
    /// When a drain gives up.
    pub(super) drain_until: Earliest,
    pub(super) lifecycle: Lifecycle<T>,
    /// What the clock calls when it was moved by hand: the clock knows it weakly, so that it forgets engines that
    /// are gone.
    _hook: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Counted `Timer`s; see `hold`.
    pub(super) timers: CachePadded<AtomicUsize>,
    /// What keeps this engine's memory.
    pub(super) hold: Weak<Hold<T>>,
    pub(super) retire: Retire<T>,
    /// Called with each payload that a shard has returned.
    pub(super) on_return: fn(&T),
}

/// Wakes the future whose timer was returned: it must not wait for whoever has been given the payload.
fn wake_returned<T: 'static>(payload: &T) {
    #[cfg(feature = "futures")]
    {
        let payload: &dyn std::any::Any = payload;
        if let Some(waker) = payload.downcast_ref::<super::task::Task>().and_then(|it| it.waker()) {
            contain::quietly("the waker", || waker.wake_by_ref());
        }
    }
    #[cfg(not(feature = "futures"))]
    let _ = payload;
}

/// A time that only ever comes nearer.
pub(super) struct Earliest(AtomicU64);

impl Earliest {
    /// Written before the phase that makes others read it.
    pub(super) fn lower(&self, time: Time) {
        // ORDERING: Relaxed: published with the phase.
        self.0.fetch_min(time.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Time {
        // ORDERING: Relaxed: as above; a later value of a second drain may be missed for one look.
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The parts of a core that the builder decides.
pub(super) struct Blueprint<T> {
    pub(super) handles: Box<[Arc<ShardHandle<T>>]>,
    pub(super) rate: TickRate,
    pub(super) source: TimeSource,
    pub(super) router: Router,
    pub(super) budget: Budget,
    pub(super) idle: IdleStrategy,
    pub(super) drive: Drive,
    pub(super) hooks: Hooks,
    pub(super) thread_name: String,
    pub(super) lifecycle: Lifecycle<T>,
    pub(super) hook: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl<T> Inner<T> {
    pub(super) fn new(id: u64, plan: Blueprint<T>, hold: Weak<Hold<T>>) -> Self
    where
        T: Send + 'static,
    {
        Self {
            shelf: hold::shelf(id),
            timers: CachePadded::new(AtomicUsize::new(0)),
            hold,
            retire: hold::retire,
            on_return: wake_returned,
            standing: Standing::new(plan.handles.len()),
            handles: plan.handles,
            rate: plan.rate,
            source: plan.source,
            router: plan.router,
            id,
            budget: plan.budget,
            idle: plan.idle,
            drive: plan.drive,
            hooks: Contained::new("a hook", plan.hooks),
            thread_name: plan.thread_name,
            rejected: CachePadded::new(AtomicU64::new(0)),
            drain_until: Earliest(AtomicU64::new(u64::MAX)),
            lifecycle: plan.lifecycle,
            _hook: plan.hook,
        }
    }

    #[inline]
    pub(super) fn phase(&self) -> Phase {
        self.standing.phase()
    }

    /// The time as a worker reads it: a clock that panics stands still.
    #[inline]
    pub(super) fn worker_now(&self) -> Time {
        self.source.worker_now()
    }

    #[inline]
    pub(super) fn now(&self) -> Time {
        self.source.now()
    }

    /// The tick of a timer that is set now.
    #[inline(always)] // see `When::tick`
    pub(super) fn tick(&self, when: impl Into<When>) -> u64 {
        self.source.tick(&self.rate, when.into())
    }

    /// The shard that a key names, if it can be one of this engine's.
    #[inline]
    pub(super) fn handle(&self, key: Key<T>) -> Option<&ShardHandle<T>> {
        self.handles.get(key.shard()).map(|handle| &**handle)
    }

    /// Counts a refusal and turns it into the user's error.
    #[cold]
    pub(super) fn rejected(&self, refusal: Refusal<T>, shard: usize) -> ScheduleError<T> {
        // ORDERING: Relaxed: a statistic.
        self.rejected.fetch_add(1, Ordering::Relaxed);
        let error = refusal.into_error(shard);
        let error = match (error.kind(), self.standing.failure(shard)) {
            (ScheduleErrorKind::Stopped, Some(message)) if self.phase() == Phase::Started => {
                let message = message.clone();
                let kind = ScheduleErrorKind::WorkerFailed { shard, message };
                ScheduleError::new(kind, error.into_payload())
            }
            _ => error,
        };
        events::timer_was_refused(shard, error.kind());
        error
    }

    #[cold]
    pub(super) fn reject(&self, kind: ScheduleErrorKind, payload: T) -> ScheduleError<T> {
        // ORDERING: Relaxed: a statistic.
        self.rejected.fetch_add(1, Ordering::Relaxed);
        ScheduleError::new(kind, payload)
    }

    #[inline]
    pub(super) fn reschedule(&self, key: Key<T>, tick: u64) -> Reschedule {
        let moved = self.with_thread(key, |handle, thread| handle.reschedule(thread, key, tick));
        Reschedule::from_moved(moved.unwrap_or(false))
    }

    /// Runs `f` with the shard that a key names and the calling thread's thread state of it.
    #[inline]
    pub(super) fn with_thread<R>(
        &self,
        key: Key<T>,
        f: impl FnOnce(&ShardHandle<T>, &crate::shard::thread_state::ThreadState) -> R,
    ) -> Option<R> {
        let handle = self.handle(key)?;
        Some(slot::with(|slot| f(handle, handle.thread(slot))))
    }

    /// The calling thread's thread state in the first shard, for what belongs to the whole engine.
    #[cfg(feature = "futures")]
    #[inline]
    pub(super) fn home(&self, slot: u32) -> &crate::shard::thread_state::ThreadState {
        // An engine has at least one shard.
        self.handles[0].thread(slot)
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
    ) -> Result<Key<T>, ScheduleError<T>> {
        let payload = self.ready(payload)?;
        let nominal = self.source.time(first);
        slot::with(|slot| {
            let shard = self.router.route(slot);
            let handle = &self.handles[shard];
            let course = Course::new(nominal, period, self.rate);
            let repeat = Repeat { payload, clone, course };
            let begun = handle.schedule_periodic(handle.thread(slot), repeat);
            begun.map_err(|refusal| self.rejected(refusal, shard))
        })
    }
}
