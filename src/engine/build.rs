//! From a builder's choices to an engine: all of them are checked before anything starts.

use super::builder::Builder;
use super::crew::shard_worker::WAKE_BATCH;
use super::crew::status::EngineStatus;
use super::crew::wake::TurnWaker;
use super::executor::{Executor, through_executor};
use super::inner::{Berth, Calls, EngineOwner, Handler, Inner, ShardWorker};
use super::pinning;
use super::routing::Router;
use super::settings::IdleStrategy;
use super::task::{TimerTask, Wakers};
use super::timer::Timer;
use crate::contain::Contained;
use crate::node::limit::Limit;
use crate::shard::{Owner, ShardHandle};
use crate::sync::atomic::AtomicU64;
use crate::sync::lock::Mutex;
use crate::sync::way;
use crate::time::{MonotonicClock, TickRate, TimeSource};
use crate::types::error::MAX_SHARDS;
use crate::types::{BuildError, Expired};
use crossbeam_utils::CachePadded;
use std::sync::{Arc, Weak};
use std::task::Waker;

impl Builder {
    /// Builds an engine whose timers are closures, run on the workers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Builder;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Builder::new().shards(1).build()?;
    /// timer.run_after(Duration::from_secs(5), || println!("five seconds later"))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build(self) -> Result<Timer<TimerTask>, BuildError> {
        self.build_with(|expired: Expired<TimerTask>| expired.payload.run())
    }

    /// Builds an engine with one handler, shared by all workers.
    ///
    /// # Errors
    ///
    /// Like [`build`](Self::build).
    pub fn build_with<T, H>(self, handler: H) -> Result<Timer<T>, BuildError>
    where
        T: Send + 'static,
        H: Fn(Expired<T>) + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.build_handlers(move |_| {
            let handler = Arc::clone(&handler);
            Box::new(move |_engine, expired| handler(expired))
        })
    }

    /// Builds an engine with a handler of its own for each shard, which is given the timer: to schedule, cancel, move
    /// and ask.
    ///
    /// `factory` is called once per shard, in order, before this returns. Handlers of their own need no locks. The
    /// timer is lent for the call and does not keep the engine alive; a clone of it does, and a
    /// [`WeakTimer`](crate::WeakTimer) does not.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Expired, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Each shard counts in a map of its own.
    /// let timer = Builder::new().build_per_shard(|_shard| {
    ///     let mut seen = HashMap::new();
    ///     move |_: &Timer<&str>, expired: Expired<&str>| {
    ///         *seen.entry(expired.payload).or_insert(0) += 1
    ///     }
    /// })?;
    /// timer.schedule(Duration::from_millis(1), "a")?;
    ///
    /// let (done, tries) = std::sync::mpsc::channel();
    /// let timer = Builder::new().build_per_shard(|_shard| {
    ///     let done = done.clone();
    ///     // Three tries, each after twice the pause.
    ///     move |timer: &Timer<u32>, expired: Expired<u32>| {
    ///         let tried = expired.payload + 1;
    ///         if tried == 3 || timer.schedule(Duration::from_millis(1 << tried), tried).is_err()
    ///         {
    ///             done.send(tried).unwrap();
    ///         }
    ///     }
    /// })?;
    /// timer.schedule(Duration::from_millis(1), 0)?;
    /// assert_eq!(tries.recv()?, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`build`](Self::build).
    pub fn build_per_shard<T, F, H>(self, mut factory: F) -> Result<Timer<T>, BuildError>
    where
        T: Send + 'static,
        F: FnMut(usize) -> H,
        H: FnMut(&Timer<T>, Expired<T>) + Send + 'static,
    {
        self.build_handlers(move |shard| {
            let mut handler = factory(shard);
            Box::new(move |engine, expired| Timer::lend(engine, |timer| handler(timer, expired)))
        })
    }

    /// Builds an engine that hands expired timers to an executor.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Expired, executor_fn};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Off the workers, to the receiving thread.
    /// let (sender, receiver) = channel::<Expired<u64>>();
    /// let send = move |expired| sender.send(expired).map_err(|refused| refused.0);
    /// let timer = Builder::new().shards(1).build_on(executor_fn(send, drop))?;
    /// timer.schedule(Duration::ZERO, 17)?;
    /// assert_eq!(receiver.recv()?.payload, 17);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`build`](Self::build).
    pub fn build_on<T, E>(self, executor: E) -> Result<Timer<T>, BuildError>
    where
        T: Send + 'static,
        E: Executor<T>,
    {
        let executor = Arc::new(executor);
        self.build_handlers(move |_| through_executor(Arc::clone(&executor)))
    }

    /// Checks all settings, then builds. Whether this fails or not, each value that the user gave is dropped by itself.
    fn build_handlers<T: Send + 'static>(
        self,
        factory: impl FnMut(usize) -> Handler<T>,
    ) -> Result<Timer<T>, BuildError> {
        let mut factory = Contained::new("a handler", factory);
        let rate = self.settings.check()?;
        let cores = pinning::Cores::of_this_process();
        let shards = self.shards.unwrap_or_else(|| cores.default_shards());
        if !(1..=MAX_SHARDS).contains(&shards) {
            return Err(BuildError::ShardsOutOfRange { shards });
        }
        let limit = self
            .settings
            .max_pending
            .map(|max| Arc::new(Limit::new(max)));
        pinning::check_pinning(&self.pinning, cores.allowed())?;
        // `std` panics on a NUL in a thread's name.
        if let Some(at) = self.thread_name.find('\0') {
            return Err(BuildError::BadThreadName {
                name: self.thread_name,
                at,
            });
        }
        let cores = pinning::deal(&self.pinning, &cores, shards);
        let group = way::new_group();
        let are_wakers = Wakers::<T>::of_payloads().is_some();
        let wake_batch = if are_wakers { WAKE_BATCH } else { 0 };
        let (mut handles, mut berths) = (Vec::with_capacity(shards), Vec::with_capacity(shards));
        for (shard, core) in cores.into_iter().enumerate() {
            let waker = Arc::new(TurnWaker::default());
            let wakes = Arc::clone(&waker);
            let wake = move || wakes.wake();
            // A shard number is below `MAX_SHARDS`.
            let owner = if self.membarrier {
                Owner::new
            } else {
                Owner::without_membarrier
            };
            let owner = owner(group, shard as u16, limit.clone(), Box::new(wake), &rate);
            #[cfg(feature = "__test-clock")]
            owner.handle.set_test_time(self.in_test_time);
            // It is there until it is dropped.
            let Some(handler) = factory.get_mut().map(|factory| factory(shard)) else {
                continue;
            };
            let handler = Contained::new("a handler", handler);
            handles.push(Arc::clone(&owner.handle));
            let shard = ShardWorker {
                owner,
                handler,
                shard,
                core,
                starvation: pinning::Starvation::of(&self.pinning),
                wake_batch: Vec::with_capacity(wake_batch),
                wake: Waker::wake,
            };
            berths.push(Berth::new(shard, waker));
        }
        Ok(Timer {
            inner: self.engine(rate, group, handles, berths).add_timer(),
        })
    }

    /// Gives the engine its memory, not started, with its shards in their berths.
    fn engine<T: Send + 'static>(
        mut self,
        rate: TickRate,
        group: u64,
        handles: Vec<Arc<ShardHandle<T>>>,
        berths: Vec<Berth<T>>,
    ) -> Arc<EngineOwner<T>> {
        let source = TimeSource::of(self.settings.clock.take());
        if source.is_virtual() {
            // Time does not move by itself: there is nothing to spin for.
            self.idle = IdleStrategy::Park;
        }
        // Its first use in a process needs memory, and a wake reads it.
        let _ = MonotonicClock::new();
        let hook = wake_on_advance(&source, &handles);
        EngineOwner::new(|hold| Inner {
            group,
            rate,
            source,
            router: Router::new(handles.len()),
            status: EngineStatus::new(),
            handles: handles.into_boxed_slice(),
            budget: self.settings.budget,
            slack: self.settings.slack,
            idle: self.idle,
            drive: self.drive,
            hooks: self.hooks,
            thread_name: self.thread_name,
            rejected: CachePadded::new(AtomicU64::new(0)),
            drain_until: AtomicU64::new(u64::MAX),
            idle_calls: AtomicU64::new(0),
            berths: berths.into_boxed_slice(),
            unfired: Mutex::new(Some(Vec::new())),
            _hook: hook,
            timers: CachePadded::default(),
            hold,
            calls: Calls::ALL,
            wakers: Wakers::of_payloads(),
        })
    }
}

/// Makes a virtual clock wake the workers when it has moved. The hook must not keep the shards alive meanwhile.
fn wake_on_advance<T: Send + 'static>(
    source: &TimeSource,
    handles: &[Arc<ShardHandle<T>>],
) -> Option<Arc<dyn Fn() + Send + Sync>> {
    source.is_virtual().then(|| {
        let shards: Vec<Weak<_>> = handles.iter().map(Arc::downgrade).collect();
        let hook: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            shards
                .iter()
                .filter_map(Weak::upgrade)
                .for_each(|handle| handle.unpark());
        });
        source.on_advance(Arc::downgrade(&hook));
        hook
    })
}

impl Timer<TimerTask> {
    /// Creates an engine for closures with every setting at its default.
    ///
    /// # Errors
    ///
    /// None of the defaults is out of range on any known system; the type is that of the builder.
    pub fn new() -> Result<Self, BuildError> {
        Builder::new().build()
    }
}
