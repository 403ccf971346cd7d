//! From what a builder has decided to an engine in memory of its own.

use super::builder::Builder;
use super::gather;
use super::hold;
use super::inner::{Earliest, Hold, Inner, Lifecycle, ShardWorker};
use super::routing::Router;
use super::settings::IdleStrategy;
use super::state::Standing;
use crate::shard::ShardHandle;
use crate::sync::atomic::AtomicU64;
use crate::sync::process;
use crate::time::{TickRate, TimeSource};
use crossbeam_utils::CachePadded;
use std::sync::{Arc, Weak};

/// Names engines; 0 means none.
static NEXT_ENGINE: process::AtomicU64 = process::AtomicU64::new(1);

impl Builder {
    /// The engine, not started, with a worker for each of its shards.
    pub(super) fn engine<T: Send + 'static>(
        mut self,
        rate: TickRate,
        workers: Vec<ShardWorker<T>>,
    ) -> Arc<Hold<T>> {
        let source = TimeSource::of(self.clock.take());
        if source.is_virtual() {
            // Time does not move by itself: there is nothing to spin for.
            self.idle = IdleStrategy::Park;
        }
        // ORDERING: Relaxed: only the number matters.
        let id = NEXT_ENGINE.fetch_add(1, process::Ordering::Relaxed);
        let handles: Box<[_]> = workers.iter().map(|it| Arc::clone(it.owner.handle())).collect();
        let hook = wake_on_advance(&source, &handles);
        Hold::new(|hold| Inner {
            rate,
            source,
            router: Router::new(self.routing, handles.len()),
            standing: Standing::new(handles.len()),
            handles,
            id,
            budget: self.settings.budget,
            slack: self.settings.slack,
            idle: self.idle,
            drive: self.drive,
            hooks: self.hooks,
            thread_name: self.thread_name,
            rejected: CachePadded::new(AtomicU64::new(0)),
            drain_until: Earliest::never(),
            idle_requests: AtomicU64::new(0),
            lifecycle: Arc::new(Lifecycle::new(workers)),
            _hook: hook,
            timers: CachePadded::default(),
            hold,
            retire: hold::retire,
            waker_of: gather::waker_of(),
        })
    }
}

/// What a virtual clock calls when it has moved: wakes the workers. The hook must not keep the shards alive meanwhile.
fn wake_on_advance<T: Send + 'static>(
    source: &TimeSource,
    handles: &[Arc<ShardHandle<T>>],
) -> Option<Arc<dyn Fn() + Send + Sync>> {
    source.is_virtual().then(|| {
        let shards: Vec<Weak<_>> = handles.iter().map(Arc::downgrade).collect();
        let hook: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            shards.iter().filter_map(Weak::upgrade).for_each(|handle| handle.unpark());
        });
        source.on_advance(Arc::downgrade(&hook));
        hook
    })
}
