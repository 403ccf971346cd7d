//! `Builder`: every choice about an engine.

use super::hooks::{Hooks, PanicReport, SlowHandler, WorkerFailure, a_hook};
use super::pinning::Pinning;
use super::settings::{Drive, IdleStrategy};
use crate::settings::Settings;
use crate::time::Clock;
use crate::types::Budget;
use std::sync::Arc;
use std::time::Duration;

/// Builds a [`Timer`](crate::Timer).
///
/// Every setting has a default; every mistake is reported by the `build` methods as a [`BuildError`](crate::BuildError)
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
///     .build_with(|expired: Expired<u64>| {
///         println!("connection {} is idle", expired.payload)
///     })?;
/// timer.schedule(Duration::from_secs(30), 17u64)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Every other setting, in production and in a test:
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Budget, Builder, Drive, IdleStrategy, ManualClock, Pinning};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let production = Builder::new()
///     .pinning(Pinning::Off)
///     .idle(IdleStrategy::SpinThenPark { spin: Duration::from_micros(20) })
///     .thread_name("timeouts")
///     .budget(Budget::new().fire(1024))
///     .slack(Duration::from_millis(1))
///     .on_panic(|report| eprintln!("{report}"))
///     .on_worker_failure(|failure| eprintln!("{failure}"))
///     .on_slow_handler(Duration::from_millis(5), |slow| eprintln!("{slow}"));
///
/// let clock = ManualClock::new();
/// let timer = production.clone().clock(clock.clone()).drive(Drive::Manual).build()?;
/// timer.run_after(Duration::from_secs(3600), || {
///     println!("an hour later, without waiting for it")
/// })?;
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(timer.turn(), Ok(1));
/// # drop(production);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until a `build` method is called"]
pub struct Builder {
    pub(super) settings: Settings,
    pub(super) shards: Option<usize>,
    pub(super) pinning: Pinning,
    pub(super) idle: IdleStrategy,
    pub(super) thread_name: String,
    pub(super) drive: Drive,
    pub(super) membarrier: bool,
    /// See [`in_test_time`].
    #[cfg(feature = "__test-clock")]
    pub(super) in_test_time: bool,
    pub(super) hooks: Hooks,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Creates a builder with all defaults: one shard per available core, 1 ms ticks, no limit on pending timers,
    /// workers pinned and parking, the monotonic clock.
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            shards: None,
            pinning: Pinning::default(),
            idle: IdleStrategy::default(),
            thread_name: "tickwheel".to_owned(),
            drive: Drive::default(),
            membarrier: true,
            #[cfg(feature = "__test-clock")]
            in_test_time: false,
            hooks: Hooks::default(),
        }
    }

    /// Sets the length of a tick, 1 us to 1 h. Default: 1 ms. See [`Settings::tick`].
    pub fn tick(mut self, tick: Duration) -> Self {
        self.settings = self.settings.tick(tick);
        self
    }

    /// Allows at most this many timers to be pending at once, all shards together, exactly. Default: no limit but the
    /// 2^32 - 1 that a shard can hold. See [`Settings::max_pending`] for its price.
    pub fn max_pending(mut self, max_pending: usize) -> Self {
        self.settings = self.settings.max_pending(max_pending);
        self
    }

    /// Sets how much one turn may do before it returns. See [`Budget`] for the defaults.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.settings = self.settings.budget(budget);
        self
    }

    /// Sets how much longer than until the next deadline a worker may sleep, so that timers that are due close together
    /// share a wake-up. Default: none. See [`Settings::slack`].
    pub fn slack(mut self, slack: Duration) -> Self {
        self.settings = self.settings.slack(slack);
        self
    }

    /// Sets the clock. Default: a [`MonotonicClock`](crate::MonotonicClock). With a
    /// [`ManualClock`](crate::ManualClock) time moves by hand.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.settings = self.settings.clock(clock);
        self
    }

    /// Sets the number of shards, 1 to 1024. Default: one per core that the process may use, fewer if a container's
    /// quota is less than that.
    ///
    /// Each thread's timers go to one shard, its home. Homes are dealt out in turn when a thread first schedules, so `n`
    /// threads use `min(n, shards)` shards, with any affinity mask. A worker's home is its own shard. A thread that
    /// begins after others have ended may inherit the home of one of them instead: threads that come one after the
    /// other, such as one for each request, may all use one shard.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets where workers are pinned. Default: worker `i` on the `i`-th available core. A pin that fails is logged and
    /// shown in the statistics, never fatal.
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.pinning = pinning;
        self
    }

    /// Lets each call that schedules a timer execute a fence of its own, some 6 ns.
    ///
    /// Without this, on Linux, a worker executes it for all threads when it must (`membarrier(2)`). A process has to be
    /// registered for that: the first engine waits for it, 15 ms and more if the process has other threads. For
    /// engines that are built inside of a task, on first use; [`global`](crate::global()) is one.
    pub(super) fn without_membarrier(mut self) -> Self {
        self.membarrier = false;
        self
    }

    /// Sets how workers wait when nothing is due. Default: park.
    pub fn idle(mut self, idle: IdleStrategy) -> Self {
        self.idle = idle;
        self
    }

    /// Sets the prefix of the workers' thread names, followed by `-` and the shard. Default: `tickwheel`. Linux shows the
    /// first 15 bytes of the whole.
    pub fn thread_name(mut self, prefix: impl Into<String>) -> Self {
        self.thread_name = prefix.into();
        self
    }

    /// Sets which threads turn the shards. Default: workers.
    pub fn drive(mut self, drive: Drive) -> Self {
        self.drive = drive;
        self
    }

    /// Sets a hook that is called on the worker with every panic of a handler, after it was counted and logged.
    pub fn on_panic(mut self, hook: impl Fn(&PanicReport) + Send + Sync + 'static) -> Self {
        self.hooks.panic = Some(a_hook(Arc::new(hook)));
        self
    }

    /// Sets a hook that is called with every worker that ends before its time, on that worker, when its shard takes
    /// no more timers; those that it had are returned after that. See [`WorkerFailure`].
    pub fn on_worker_failure(
        mut self,
        hook: impl Fn(&WorkerFailure) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.failure = Some(a_hook(Arc::new(hook)));
        self
    }

    /// Sets a hook that each worker calls on its own thread with the number of its shard, after it has been pinned and
    /// before its first turn: for the thread's priority, its memory policy, its thread-locals. On Unix the worker blocks
    /// all signals but those that its own instructions cause; the hook may unblock some, for a profiler.
    ///
    /// The timers of the shard wait for it. A panic in it is logged, and the worker goes on. Threads that the engine
    /// does not start, those of [`Drive::Manual`] and of a [`DrivenShard`](crate::DrivenShard), call no such hook; the
    /// worker that takes a shard over from a dropped `DrivenShard` does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Builder;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let timer = Builder::new()
    ///     .shards(1)
    ///     .on_worker_start(move |shard| {
    ///         tell.send((shard, std::thread::current().id())).unwrap()
    ///     })
    ///     .on_worker_stop(|shard| println!("the worker of shard {shard} ends"))
    ///     .build()?;
    /// let (send, worker) = std::sync::mpsc::channel();
    /// timer
    ///     .run_after(Duration::ZERO, move || send.send(std::thread::current().id()).unwrap())?;
    /// assert_eq!(told.recv()?, (0, worker.recv()?));
    /// # Ok(()) }
    /// ```
    pub fn on_worker_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.worker_start = Some(a_hook(Arc::new(move |shard: &usize| hook(*shard))));
        self
    }

    /// Sets a hook that each worker calls on its own thread with the number of its shard, once that has ended, also by
    /// a panic. A panic in it is logged.
    ///
    /// [`Timer::stop`](crate::Timer::stop) returns after it, except for a worker whose shard a
    /// [`DrivenShard`](crate::DrivenShard) has at the time.
    pub fn on_worker_stop(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.worker_stop = Some(a_hook(Arc::new(move |shard: &usize| hook(*shard))));
        self
    }

    /// Sets a hook that is called on the worker with every handler call that took `threshold` or longer, after it has
    /// returned.
    ///
    /// A slow handler holds up all timers of its shard. With this set, the clock is read before and after each handler
    /// call, about 40 ns, and [`ShardStats::handler_time`](crate::ShardStats::handler_time) counts all of them. The
    /// `Clone` of a periodic timer's payload counts as part of the call that it is made for.
    pub fn on_slow_handler(
        mut self,
        threshold: Duration,
        hook: impl Fn(&SlowHandler) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.slow = Some((threshold, a_hook(Arc::new(hook))));
        self
    }
}

/// Returns the builder of an engine without `membarrier`.
#[cfg(feature = "__internal")]
pub fn without_membarrier(builder: Builder) -> Builder {
    builder.without_membarrier()
}

/// Returns the builder of an engine in a test's time, which jumps to the end of the sleep that a
/// [`DrivenShard`](crate::DrivenShard) announces. A shard sleeps without an end while no timer is pending, and each
/// cancel has it turned.
#[cfg(feature = "__test-clock")]
pub fn in_test_time(mut builder: Builder) -> Builder {
    builder.in_test_time = true;
    builder
}
