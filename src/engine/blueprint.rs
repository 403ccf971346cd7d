//! From what a builder has decided to an engine in memory of its own.

use super::hold;
use super::hooks::Hooks;
use super::inner::{Earliest, Hold, Inner, Lifecycle, ShardWorker};
use super::routing::{Router, Routing};
use super::settings::{Drive, IdleStrategy};
use super::state::Standing;
use super::task::Task;
use crate::contain::{self, Contained};
use crate::sync::atomic::AtomicU64;
use crate::sync::fence;
use crate::sync::process;
use crate::time::{TickRate, TimeSource};
use crate::types::Budget;
use crossbeam_utils::CachePadded;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Names engines; 0 means none.
static NEXT_ENGINE: process::AtomicU64 = process::AtomicU64::new(1);

/// All that the builder decides.
pub(super) struct Blueprint<T> {
    pub(super) workers: Vec<ShardWorker<T>>,
    pub(super) rate: TickRate,
    pub(super) source: TimeSource,
    pub(super) routing: Routing,
    pub(super) budget: Budget,
    pub(super) slack: Duration,
    pub(super) idle: IdleStrategy,
    pub(super) drive: Drive,
    pub(super) hooks: Hooks,
    pub(super) thread_name: String,
}

impl<T: Send + 'static> Blueprint<T> {
    /// The engine, not started.
    pub(super) fn build(self) -> Arc<Hold<T>> {
        // ORDERING: Relaxed: only the number matters.
        let id = NEXT_ENGINE.fetch_add(1, process::Ordering::Relaxed);
        // Decided before the first handle is made, so that dropping handles is light from the first one on.
        fence::is_asymmetric();
        Hold::new(|hold| self.engine(id, hold))
    }

    fn engine(self, id: u64, hold: Weak<Hold<T>>) -> Inner<T> {
        let handles: Box<[_]> =
            self.workers.iter().map(|it| Arc::clone(it.owner.handle())).collect();
        let source = self.source;
        let hook = source.is_virtual().then(|| {
            // The hook must not keep the shards alive while the clock calls it.
            let shards: Vec<Weak<_>> = handles.iter().map(Arc::downgrade).collect();
            let hook: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
                shards.iter().filter_map(Weak::upgrade).for_each(|handle| handle.unpark());
            });
            source.on_advance(Arc::downgrade(&hook));
            hook
        });
        Inner {
            rate: self.rate,
            source,
            router: Router::new(self.routing, handles.len()),
            shelf: hold::shelf(id),
            standing: Standing::new(handles.len()),
            handles,
            id,
            budget: self.budget,
            slack: self.slack,
            idle: self.idle,
            drive: self.drive,
            hooks: Contained::new("a hook", self.hooks),
            thread_name: self.thread_name,
            rejected: CachePadded::new(AtomicU64::new(0)),
            drain_until: Earliest::never(),
            lifecycle: Lifecycle::new(self.workers),
            _hook: hook,
            timers: CachePadded::default(),
            hold,
            retire: hold::retire,
            on_return: wake_returned,
        }
    }
}

/// Wakes the future whose timer was returned: it must not wait for whoever has been given the payload.
fn wake_returned<T: 'static>(payload: &T) {
    #[cfg(feature = "futures")]
    {
        let payload: &dyn std::any::Any = payload;
        if let Some(waker) = payload.downcast_ref::<Task>().and_then(|it| it.waker()) {
            contain::quietly("a waker", || waker.wake_by_ref());
        }
    }
    #[cfg(not(feature = "futures"))]
    let _ = payload;
}
