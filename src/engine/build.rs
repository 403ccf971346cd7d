//! From a builder's choices to an engine: all of them are checked before anything starts.

use super::builder::Builder;
use super::gather;
use super::handler::{Executor, through_executor};
use super::hold::TimerRef;
use super::inner::{Handler, Outcome, ShardWorker};
use super::pinning;
use super::task::Task;
use super::timer::Timer;
use crate::contain::Contained;
use crate::park::parker::Parker;
use crate::shard::{Limit, Owner};
use crate::types::checks;
use crate::types::{BuildError, Expired};
use crate::wheel::AnyWheel;
use std::sync::Arc;

impl Builder {
    /// An engine whose timers are closures, run on the workers.
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
    /// ```
    /// use std::collections::HashMap;
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Expired};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Each shard counts in a map of its own.
    /// let timer = Builder::new().build_per_shard(|_shard| {
    ///     let mut seen = HashMap::new();
    ///     move |expired: Expired<&str>| *seen.entry(expired.payload).or_insert(0) += 1
    /// })?;
    /// timer.schedule(Duration::from_millis(1), "a")?;
    /// # Ok(()) }
    /// ```
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
        self.build_per_shard_with_timer(move |shard| {
            let mut handler = factory(shard);
            move |_timer: &Timer<T>, expired| handler(expired)
        })
    }

    /// As [`build_per_shard`](Self::build_per_shard), with handlers that are given the timer; see
    /// [`build_with_timer`](Self::build_with_timer).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Expired, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Builder::new().build_per_shard_with_timer(|shard| {
    ///     let mut calls = 0;
    ///     move |timer: &Timer<u32>, expired: Expired<u32>| {
    ///         calls += 1;
    ///         println!("call {calls} on shard {shard}, {} pending", timer.pending());
    ///         drop(expired);
    ///     }
    /// })?;
    /// timer.schedule(Duration::from_millis(1), 17)?;
    /// # Ok(()) }
    /// ```
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
        self.build_handlers(move |shard| {
            let mut handler = factory(shard);
            Box::new(move |engine, expired| {
                Timer::lend(engine, |timer| handler(timer, expired));
                Outcome::Done
            })
        })
    }

    /// An engine that hands expired timers to an executor.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Expired, executor_fn};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Off the workers, to whoever receives.
    /// let (sender, receiver) = channel::<Expired<u64>>();
    /// let send = move |expired| sender.send(expired).map_err(|refused| refused.0);
    /// let timer = Builder::new().shards(1).build_on(executor_fn(send, drop))?;
    /// timer.schedule_key(Duration::ZERO, 17)?;
    /// assert_eq!(receiver.recv()?.payload, 17);
    /// # Ok(()) }
    /// ```
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
        self.build_handlers(move |_| through_executor(Arc::clone(&executor)))
    }

    /// What the user gave is `self`'s and `factory`'s, part by part: whether this fails or not, all of it is dropped by
    /// itself.
    fn build_handlers<T: Send + 'static>(
        self,
        factory: impl FnMut(usize) -> Handler<T>,
    ) -> Result<Timer<T>, BuildError> {
        let mut factory = Contained::new("a handler", factory);
        let rate = self.settings.check()?;
        let cores = pinning::Cores::of_this_process();
        let shards = checks::check_shards(self.shards.unwrap_or_else(|| cores.default_shards()))?;
        // A number of shards is at most 1024 (`check_shards`).
        let limit = self.settings.max_pending.map(|max| Arc::new(Limit::new(max)));
        pinning::check_pinning(&self.pinning, cores.allowed())?;
        checks::check_thread_name(&self.thread_name)?;
        let cores = pinning::deal(&self.pinning, &cores, shards);
        let mut workers = Vec::with_capacity(shards);
        for (shard, core) in cores.into_iter().enumerate() {
            let wheel = AnyWheel::new(self.settings.wheel)?;
            let (parker, unparker) = Parker::new();
            // A shard number is below 1024 (`check_shards`).
            let wake = move || {
                unparker.wake();
                true
            };
            let owner = Owner::new(shard as u16, wheel, limit.clone(), Box::new(wake));
            // It is there until it is dropped.
            let Some(handler) = factory.get_mut().map(|factory| factory(shard)) else { continue };
            let handler = Contained::new("a handler", handler);
            let starvation = pinning::Starvation::of(&self.pinning);
            let gathered = gather::room();
            let clock_failures = 0;
            workers.push(ShardWorker {
                owner,
                parker,
                handler,
                shard,
                core,
                starvation,
                clock_failures,
                idle_seen: 0,
                idle_answered: 0,
                gathered,
            });
        }
        Ok(Timer::from_ref(TimerRef::first(&self.engine(rate, workers))))
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
    ///
    /// ```
    /// use tickwheel::{Pinning, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().pinning(Pinning::Off).build()?;
    /// assert_eq!(timer.pending(), 0);
    /// # Ok(()) }
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }
}
