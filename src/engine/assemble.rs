//! An engine of what the builder was told: checks, shards, parts.

use super::builder::Builder;
use super::handler::Handler;
use super::hold::{Hold, TimerRef};
use super::inner::{Blueprint, Inner};
use super::lifecycle::Lifecycle;
use super::pinning;
use super::routing::Router;
use super::settings::IdleStrategy;
use super::shard_worker::ShardWorker;
use super::timer::Timer;
use crate::contain::Contained;
use crate::park::parker::Parker;
use crate::shard::{Limit, Owner};
use crate::sync::fence;
use crate::sync::process::{AtomicU64, Ordering};
use crate::time::{TickRate, TimeSource};
use crate::types::{BuildError, checks};
use crate::wheel::AnyWheel;
use std::sync::{Arc, Weak};

/// Names engines; 0 means none.
static NEXT_ENGINE: AtomicU64 = AtomicU64::new(1);

impl Builder {
    pub(super) fn build_handlers<T: Send + 'static>(
        mut self,
        mut handler: impl FnMut(usize) -> Handler<T>,
    ) -> Result<Timer<T>, BuildError> {
        let rate = self.settings.check()?;
        let cores = pinning::Cores::of_this_process();
        let shards = checks::check_shards(self.shards.unwrap_or_else(|| cores.default_shards()))?;
        let limit = self.settings.max_pending.map(|max| Arc::new(Limit::new(max)));
        pinning::check_pinning(&self.pinning, cores.allowed())?;
        checks::check_thread_name(&self.thread_name)?;
        let source = TimeSource::of(self.clock.take());
        if source.is_virtual() {
            // Time does not move by itself: there is nothing to spin for.
            self.idle = IdleStrategy::Park;
        }
        let cores = pinning::deal(&self.pinning, &cores, shards);
        let mut workers = Vec::with_capacity(shards);
        for (shard, core) in cores.into_iter().enumerate() {
            let wheel = AnyWheel::new(self.settings.wheel, rate.tick_ns())?;
            let (parker, waker) = Parker::new();
            // A shard number is below 1024 (`check_shards`).
            let owner = Owner::new(shard as u16, wheel, limit.clone(), Box::new(waker));
            let handler = Contained::new("a handler", handler(shard));
            let starvation = pinning::Starvation::of(&self.pinning);
            workers.push(ShardWorker { owner, parker, handler, shard, core, starvation });
        }
        Ok(self.assemble(rate, source, workers))
    }

    fn assemble<T: Send + 'static>(
        self,
        rate: TickRate,
        source: TimeSource,
        workers: Vec<ShardWorker<T>>,
    ) -> Timer<T> {
        let handles: Box<[_]> = workers.iter().map(|it| Arc::clone(it.owner.handle())).collect();
        let hook = source.is_virtual().then(|| {
            // The hook must not keep the shards alive while the clock calls it.
            let shards: Vec<Weak<_>> = handles.iter().map(Arc::downgrade).collect();
            let hook: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
                shards.iter().filter_map(Weak::upgrade).for_each(|handle| handle.unpark());
            });
            source.on_advance(Arc::downgrade(&hook));
            hook
        });
        let router = Router::new(self.routing, handles.len());
        // ORDERING: Relaxed: only the number matters.
        let id = NEXT_ENGINE.fetch_add(1, Ordering::Relaxed);
        // Decided before the first handle is made, so that dropping handles is light from the first one on.
        fence::is_asymmetric();
        let plan = Blueprint {
            handles,
            rate,
            source,
            router,
            budget: self.settings.budget,
            slack: self.settings.slack,
            idle: self.idle,
            drive: self.drive,
            hooks: self.hooks,
            thread_name: self.thread_name,
            lifecycle: Lifecycle::new(workers),
            hook,
        };
        let hold = Hold::new(|hold| Inner::new(id, plan, hold));
        Timer::from_ref(TimerRef::first(&hold))
    }
}
