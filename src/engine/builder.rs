//! `Builder`: every choice about an engine, checked before anything starts.

use super::blueprint::Blueprint;
use super::handler::{Executor, through_executor};
use super::hold::TimerRef;
use super::hooks::{Hooks, PanicReport, SlowHandler, Watch, WorkerFailure};
use super::inner::{Handler, Outcome, ShardWorker};
use super::pinning::{self, Pinning};
use super::routing::Routing;
use super::settings::{Drive, IdleStrategy};
use super::task::Task;
use super::timer::Timer;
use crate::contain::Contained;
use crate::park::parker::Parker;
use crate::shard::{Limit, Owner};
use crate::time::{Clock, TimeSource};
use crate::types::checks;
use crate::types::{Budget, BuildError, Expired, Settings, WheelKind};
use crate::wheel::AnyWheel;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Builds a [`Timer`].
///
/// Every setting has a default; every mistake is reported by the `build` methods as a [`BuildError`]
/// that names the allowed range.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, Expired};
///
/// let timer = Builder::new()
///     .shards(2)
///     .tick(Duration::from_micros(100))
///     .max_pending(1_000_000)
///     .build_with(|expired: Expired<u64>| println!("connection {} is idle", expired.payload))?;
/// timer.schedule(Duration::from_secs(30), 17u64)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Builder {
    settings: Settings,
    shards: Option<usize>,
    pinning: Pinning,
    idle: IdleStrategy,
    thread_name: String,
    clock: Option<Arc<dyn Clock>>,
    routing: Routing,
    drive: Drive,
    hooks: Hooks,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// All defaults: one shard per available core, 1 ms ticks, the hierarchical wheel, no limit on
    /// pending timers, workers pinned and parking, the monotonic clock.
    #[must_use]
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            shards: None,
            pinning: Pinning::default(),
            idle: IdleStrategy::default(),
            thread_name: "tickwheel".to_owned(),
            clock: None,
            routing: Routing::default(),
            drive: Drive::default(),
            hooks: Hooks::default(),
        }
    }

    /// The number of shards, 1 to 1024. Default: one per core that the process may use, fewer if a container's quota
    /// is less than that.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The length of a tick, 1 us to 1 h. Default: 1 ms. A timer is at most one tick late, plus the
    /// sleep's error and the work queued ahead.
    #[must_use]
    pub fn tick(mut self, tick: Duration) -> Self {
        self.settings.tick = tick;
        self
    }

    /// The kind of wheel. Default: hierarchical.
    #[must_use]
    pub fn wheel(mut self, wheel: WheelKind) -> Self {
        self.settings.wheel = wheel;
        self
    }

    /// At most this many timers pending at once, all shards together, exactly. Default: no limit.
    ///
    /// The limit costs one contended counter per schedule, cancel and fire.
    #[must_use]
    pub fn max_pending(mut self, max_pending: usize) -> Self {
        self.settings.max_pending = Some(max_pending);
        self
    }

    /// Where workers are pinned. Default: worker `i` on the `i`-th available core. A pin that fails is
    /// logged and shown in the statistics, never fatal.
    #[must_use]
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.pinning = pinning;
        self
    }

    /// What workers do when nothing is due. Default: park.
    #[must_use]
    pub fn idle(mut self, idle: IdleStrategy) -> Self {
        self.idle = idle;
        self
    }

    /// The prefix of the workers' thread names, followed by `-` and the shard. Default: `tickwheel`.
    #[must_use]
    pub fn thread_name(mut self, prefix: impl Into<String>) -> Self {
        self.thread_name = prefix.into();
        self
    }

    /// The clock. Default: a [`MonotonicClock`](crate::MonotonicClock). With a
    /// [`ManualClock`](crate::ManualClock) time moves by hand, with real workers or with [`Drive::Manual`].
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// How much one turn may do. See [`Budget`] for the defaults.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.settings.budget = budget;
        self
    }

    /// Which thread's timers go to which shard. Default: each thread has a home shard.
    #[must_use]
    pub fn routing(mut self, routing: Routing) -> Self {
        self.routing = routing;
        self
    }

    /// Who turns the shards. Default: workers.
    #[must_use]
    pub fn drive(mut self, drive: Drive) -> Self {
        self.drive = drive;
        self
    }

    /// Called on the worker with every panic of a handler, after it was counted and logged.
    #[must_use]
    pub fn on_panic(mut self, hook: impl Fn(&PanicReport) + Send + Sync + 'static) -> Self {
        self.hooks.panic = Some(Arc::new(hook));
        self
    }

    /// Called with every worker that ends before its time, on that worker, before its shard closes; see
    /// [`WorkerFailure`].
    #[must_use]
    pub fn on_worker_failure(
        mut self,
        hook: impl Fn(&WorkerFailure) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.failure = Some(Arc::new(hook));
        self
    }

    /// Called on the worker with every handler call that took `threshold` or longer, after it has returned.
    ///
    /// A slow handler holds up all timers of its shard. With this set, the clock is read before and after each handler
    /// call, about 40 ns, and [`ShardStats::handler_time`](crate::ShardStats::handler_time) counts all of them.
    #[must_use]
    pub fn on_slow_handler(
        mut self,
        threshold: Duration,
        hook: impl Fn(&SlowHandler) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.slow = Some(Watch { threshold, hook: Arc::new(hook) });
        self
    }

    /// An engine whose timers are closures, run on the workers.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build(self) -> Result<Timer<Task>, BuildError> {
        self.build_with(|expired: Expired<Task>| expired.payload.run())
    }

    /// An engine with one handler, shared by all workers.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_with<T, H>(self, handler: H) -> Result<Timer<T>, BuildError>
    where
        T: Send + 'static,
        H: Fn(Expired<T>) + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.build_per_shard(move |_| {
            let handler = Arc::clone(&handler);
            move |expired| handler(expired)
        })
    }

    /// As [`build_with`](Self::build_with), with a handler that is given the timer: to schedule, cancel, move and ask.
    ///
    /// The timer is lent for the call and does not keep the engine alive; a clone of it does, and a
    /// [`WeakTimer`](crate::WeakTimer) does not.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Expired, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (done, tries) = std::sync::mpsc::channel();
    /// let timer = Builder::new().build_with_timer(move |timer: &Timer<u32>, expired: Expired<u32>| {
    ///     // Three tries, each after twice the pause.
    ///     let tried = expired.payload + 1;
    ///     if tried == 3 || timer.schedule_key(Duration::from_millis(1 << tried), tried).is_err() {
    ///         done.send(tried).unwrap();
    ///     }
    /// })?;
    /// timer.schedule_key(Duration::from_millis(1), 0)?;
    /// assert_eq!(tries.recv()?, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_with_timer<T, H>(self, handler: H) -> Result<Timer<T>, BuildError>
    where
        T: Send + 'static,
        H: Fn(&Timer<T>, Expired<T>) + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.build_per_shard_with_timer(move |_| {
            let handler = Arc::clone(&handler);
            move |timer: &Timer<T>, expired| handler(timer, expired)
        })
    }

    /// An engine with a handler of its own for each shard, so that handlers need no locks.
    ///
    /// `factory` is called once per shard, in order, before this returns.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_per_shard<T, F, H>(self, mut factory: F) -> Result<Timer<T>, BuildError>
    where
        T: Send + 'static,
        F: FnMut(usize) -> H,
        H: FnMut(Expired<T>) + Send + 'static,
    {
        self.build_per_shard_with_timer(|shard| {
            let mut handler = factory(shard);
            move |_timer: &Timer<T>, expired| handler(expired)
        })
    }

    /// As [`build_per_shard`](Self::build_per_shard), with handlers that are given the timer; see
    /// [`build_with_timer`](Self::build_with_timer).
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_per_shard_with_timer<T, F, H>(self, mut factory: F) -> Result<Timer<T>, BuildError>
    where
        T: Send + 'static,
        F: FnMut(usize) -> H,
        H: FnMut(&Timer<T>, Expired<T>) + Send + 'static,
    {
        self.build_handlers(|shard| {
            let mut handler = factory(shard);
            Box::new(move |engine, expired| {
                Timer::lend(engine, |timer| handler(timer, expired));
                Outcome::Done
            })
        })
    }

    /// An engine that hands expired timers to an executor.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_on<T, E>(self, executor: E) -> Result<Timer<T>, BuildError>
    where
        T: Send + 'static,
        E: Executor<T>,
    {
        let executor = Arc::new(executor);
        self.build_handlers(|_| through_executor(Arc::clone(&executor)))
    }

    fn build_handlers<T: Send + 'static>(
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
        let plan = Blueprint {
            workers,
            rate,
            source,
            routing: self.routing,
            budget: self.settings.budget,
            idle: self.idle,
            drive: self.drive,
            hooks: self.hooks,
            thread_name: self.thread_name,
        };
        Ok(Timer::from_ref(TimerRef::first(&plan.build())))
    }
}

impl Timer<Task> {
    /// An engine for closures with every setting at its default.
    ///
    /// # Errors
    ///
    /// None of the defaults is out of range on any known system; the type is that of the builder.
    pub fn new() -> Result<Self, BuildError> {
        Builder::new().build()
    }

    /// A builder with every setting at its default.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("shards", &self.shards)
            .field("settings", &self.settings)
            .field("pinning", &self.pinning)
            .field("idle", &self.idle)
            .field("thread_name", &self.thread_name)
            .field("routing", &self.routing)
            .field("drive", &self.drive)
            .finish_non_exhaustive()
    }
}
