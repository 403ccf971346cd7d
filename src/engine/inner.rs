//! What timers, timeouts and workers of one engine share.

use super::handler::PanicHook;
use super::hold;
use super::hold::{AnyShelf, Hold, Retire};
use super::lifecycle::Lifecycle;
use super::routing::Router;
use super::settings::{Drive, IdleStrategy};
use super::state::EngineState;
use crate::shard::{Refusal, ShardHandle};
use crate::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crate::sync::slot;
use crate::time::{TickRate, Time, TimeSource, When};
use crate::types::{Budget, Key, ScheduleError, ScheduleErrorKind};
use crossbeam_utils::CachePadded;
use std::sync::{Arc, Mutex, Weak};

/// See the module. The fields that every schedule reads come first; none of them is written after the build.
pub(super) struct Inner<T> {
    pub(super) handles: Box<[Arc<ShardHandle<T>>]>,
    pub(super) rate: TickRate,
    pub(super) source: TimeSource,
    pub(super) router: Router,
    /// Where the engine waits for its last handle.
    pub(super) shelf: &'static AnyShelf,
    /// An `EngineState`; written under the lifecycle's lock only.
    state: AtomicU8,
    /// Names the engine in the thread-local that says which engine's handlers run on this thread.
    pub(super) id: u64,
    pub(super) budget: Budget,
    pub(super) idle: IdleStrategy,
    pub(super) drive: Drive,
    pub(super) panic_hook: Option<PanicHook>,
    pub(super) thread_name: String,
    pub(super) rejected: CachePadded<AtomicU64>,
    pub(super) lifecycle: Mutex<Lifecycle<T>>,
    /// Counted `Timer`s; see `hold`.
    pub(super) timers: CachePadded<AtomicUsize>,
    /// What keeps this engine's memory.
    pub(super) hold: Weak<Hold<T>>,
    pub(super) retire: Retire<T>,
}

/// The parts of a core that the builder decides.
pub(super) struct Plan<T> {
    pub(super) handles: Box<[Arc<ShardHandle<T>>]>,
    pub(super) rate: TickRate,
    pub(super) source: TimeSource,
    pub(super) router: Router,
    pub(super) budget: Budget,
    pub(super) idle: IdleStrategy,
    pub(super) drive: Drive,
    pub(super) panic_hook: Option<PanicHook>,
    pub(super) thread_name: String,
    pub(super) lifecycle: Lifecycle<T>,
}

impl<T> Inner<T> {
    pub(super) fn new(id: u64, plan: Plan<T>, hold: Weak<Hold<T>>) -> Self
    where
        T: Send + 'static,
    {
        Self {
            shelf: hold::shelf(id),
            timers: CachePadded::new(AtomicUsize::new(0)),
            hold,
            retire: hold::retire,
            handles: plan.handles,
            rate: plan.rate,
            source: plan.source,
            router: plan.router,
            state: AtomicU8::new(EngineState::Init as u8),
            id,
            budget: plan.budget,
            idle: plan.idle,
            drive: plan.drive,
            panic_hook: plan.panic_hook,
            thread_name: plan.thread_name,
            rejected: CachePadded::new(AtomicU64::new(0)),
            lifecycle: Mutex::new(plan.lifecycle),
        }
    }

    #[inline]
    pub(super) fn state(&self) -> EngineState {
        // ORDERING: Acquire pairs with `set_state`: who sees `Started` sees the workers' set-up. [P12]
        match self.state.load(Ordering::Acquire) {
            0 => EngineState::Init,
            1 => EngineState::Started,
            _ => EngineState::Stopped,
        }
    }

    pub(super) fn set_state(&self, state: EngineState) {
        // ORDERING: Release as in `state`. [P12]
        self.state.store(state as u8, Ordering::Release);
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
        refusal.into_error(shard)
    }

    #[cold]
    pub(super) fn reject(&self, kind: ScheduleErrorKind, payload: T) -> ScheduleError<T> {
        // ORDERING: Relaxed: a statistic.
        self.rejected.fetch_add(1, Ordering::Relaxed);
        ScheduleError::new(kind, payload)
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

    /// Makes every shard turn now.
    pub(super) fn request_turns(&self) {
        for handle in &self.handles {
            handle.request_turn();
        }
    }
}
