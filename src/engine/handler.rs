//! Handles a timer that has fired: handlers, executors, wakers, and what a panic comes to.
//!
//! A turn gathers wakers in a *wake batch* and calls them together. A waker's first step is an atomic instruction on
//! its task, which lies anywhere: a cache miss each. So the task is prefetched when the timer fires, and woken some
//! timers later. Also, a runtime's thread that the first wake calls finds more than one task when it comes. The order
//! stays: other payloads are handled after the wakers before them. A waker that panics or blocks does to later ones
//! what a handler does.

use super::events;
use super::hooks::{self, PanicReport, SlowHandler};
use super::inner::{Handler, Inner, ShardWorker};
use super::task::TimerTask;
use crate::contain::{self, Contained};
use crate::shard::counters::Counters;
use crate::sync::prefetch::prefetch;
use crate::time::{Time, saturating_ns};
use crate::types::{Expired, RawKey};
use std::any::{Any, TypeId};
use std::sync::Arc;
use std::task::Waker;

/// Takes expired timers off the workers' hands: a thread pool, a channel, an event loop.
///
/// ```
/// use std::sync::mpsc::{Sender, channel};
/// use std::time::Duration;
/// use tickwheel::{Builder, Executor, Expired};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// /// Hands timers over to the thread of a pool that they belong to.
/// struct Pool(Vec<Sender<Expired<usize>>>);
///
/// impl Executor<usize> for Pool {
///     fn execute(&self, expired: Expired<usize>) -> Result<(), Expired<usize>> {
///         self.0[expired.payload % self.0.len()].send(expired).map_err(|refused| refused.0)
///     }
///
///     fn rejected(&self, expired: Expired<usize>) {
///         eprintln!("the thread of connection {} has ended", expired.payload);
///     }
/// }
///
/// let (threads, queues): (_, Vec<_>) = (0..4).map(|_| channel()).unzip();
/// let timer = Builder::new().shards(1).build_on(Pool(threads))?;
/// timer.schedule_key(Duration::ZERO, 6)?;
/// assert_eq!(queues[2].recv()?.payload, 6);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot take expired timers of `{T}` off the workers' hands",
    label = "does not implement `Executor<{T}>`",
    note = "to handle timers with a closure, use `Builder::build_with` in place of `Builder::build_on`"
)]
pub trait Executor<T>: Send + Sync + 'static {
    /// Accepts an expired timer, or gives it back if it cannot (a full queue, a shutdown).
    ///
    /// Called on the shard's worker: it must not block for long.
    ///
    /// # Errors
    ///
    /// The expired timer itself, if the executor does not take it.
    fn execute(&self, expired: Expired<T>) -> Result<(), Expired<T>>;

    /// Takes a timer that [`execute`](Self::execute) gave back, on the worker, so that its payload
    /// is never lost: run it here, store it, schedule it again.
    fn rejected(&self, expired: Expired<T>);
}

/// A shared executor is an executor: several engines can hand over to one.
impl<T, E: Executor<T> + ?Sized> Executor<T> for Arc<E> {
    fn execute(&self, expired: Expired<T>) -> Result<(), Expired<T>> {
        (**self).execute(expired)
    }

    fn rejected(&self, expired: Expired<T>) {
        (**self).rejected(expired);
    }
}

/// Makes an executor made of two closures: one that takes expired timers or gives them back, one that gets what was
/// given back.
///
/// ```
/// use std::sync::mpsc::sync_channel;
/// use tickwheel::{Builder, Expired, executor_fn};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (queue, expired) = sync_channel::<Expired<u64>>(1024);
/// let executor = executor_fn(
///     move |expired| queue.try_send(expired).map_err(|refused| match refused {
///         std::sync::mpsc::TrySendError::Full(it) => it,
///         std::sync::mpsc::TrySendError::Disconnected(it) => it,
///     }),
///     |expired| eprintln!("no room for {}", expired.payload),
/// );
/// let timer = Builder::new().shards(1).build_on(executor)?;
/// timer.schedule(std::time::Duration::ZERO, 17u64)?;
/// assert_eq!(expired.recv()?.payload, 17);
/// # Ok(()) }
/// ```
pub fn executor_fn<T, F, R>(execute: F, rejected: R) -> impl Executor<T>
where
    F: Fn(Expired<T>) -> Result<(), Expired<T>> + Send + Sync + 'static,
    R: Fn(Expired<T>) + Send + Sync + 'static,
{
    Closures { execute, rejected: Contained::new("an executor", rejected) }
}

/// See [`executor_fn`].
struct Closures<F, R> {
    execute: F,
    /// Its destructor may run because that of the other one panics.
    rejected: Contained<R>,
}

impl<T, F, R> Executor<T> for Closures<F, R>
where
    F: Fn(Expired<T>) -> Result<(), Expired<T>> + Send + Sync + 'static,
    R: Fn(Expired<T>) + Send + Sync + 'static,
{
    fn execute(&self, expired: Expired<T>) -> Result<(), Expired<T>> {
        (self.execute)(expired)
    }

    fn rejected(&self, expired: Expired<T>) {
        if let Some(rejected) = self.rejected.get() {
            rejected(expired);
        }
    }
}

/// Returns a handler that hands over to an executor.
pub(super) fn through_executor<T: 'static, E: Executor<T>>(executor: Arc<E>) -> Handler<T> {
    Box::new(move |engine, expired| {
        let shard = expired.shard;
        if let Err(expired) = executor.execute(expired) {
            executor.rejected(expired);
            engine.handles[shard].counters().refused_by_executor.bump();
            events::executor_refused(shard);
        }
    })
}

/// Wakers that are called together at most. Beyond that their tasks would push each other out of the cache, and a
/// waker that blocks would delay more of them.
const WAKE_BATCH: usize = 256;

/// Returns a function over tasks as one over payloads, if the payloads are tasks, which may be wakers.
pub(super) fn if_tasks<F: Copy + 'static, G: Copy + 'static>(over_tasks: F) -> Option<G> {
    (&over_tasks as &dyn Any).downcast_ref().copied()
}

/// Returns an empty wake batch, with room where payloads may be wakers.
pub(super) fn wake_batch<T: 'static>() -> Vec<(Waker, RawKey)> {
    let are_tasks = TypeId::of::<T>() == TypeId::of::<TimerTask>();
    Vec::with_capacity(if are_tasks { WAKE_BATCH } else { 0 })
}

impl<T> Inner<T> {
    /// Wakes the future whose timer `stop` returned: it must not wait for the caller, who has the payload.
    pub(super) fn wake_returned(&self, payload: &T) {
        if let Some(waker) = self.waker_of.and_then(|waker_of| waker_of(payload)) {
            contain::catch_and_log("a waker", || waker.wake_by_ref());
        }
    }
}

impl<T> ShardWorker<T> {
    /// Runs the handler for a timer that has fired at `now`; for a waker, later in this turn, unless a hook wants to
    /// know how long each takes.
    #[inline]
    pub(super) fn handle_in_turn(&mut self, inner: &Inner<T>, expired: Expired<T>, now: Time) {
        let Some(take_waker) = inner.take_waker.filter(|_| inner.hooks.slow.is_none()) else {
            // Here the wake batch is always empty.
            return self.handle(inner, expired, now);
        };
        let Expired { payload, key, deadline, lateness, shard } = expired;
        match take_waker(payload) {
            Ok(waker) => {
                // Its data is where the task probably lies that it wakes.
                prefetch(waker.data());
                if self.wake_batch.len() == WAKE_BATCH {
                    self.handle_wake_batch(inner);
                }
                self.wake_batch.push((waker, key.to_raw()));
            }
            Err(payload) => {
                self.handle_wake_batch(inner);
                self.handle(inner, Expired { payload, key, deadline, lateness, shard }, now);
            }
        }
    }

    /// Calls the wakers of the wake batch.
    #[inline]
    pub(super) fn handle_wake_batch(&mut self, inner: &Inner<T>) {
        for (waker, key) in self.wake_batch.drain(..) {
            let called = contain::call(|| (self.wake)(waker));
            if let Err(message) = called {
                panicked(
                    inner,
                    self.owner.handle().counters(),
                    PanicReport { shard: self.shard, key, message },
                );
            }
        }
    }

    /// Wakes the wake batch of a turn that was cut short by a panic.
    pub(super) fn drop_wake_batch(&mut self) {
        // A task that is dropped wakes.
        for (waker, _) in self.wake_batch.drain(..) {
            contain::catch_and_log("a waker", || waker.wake());
        }
    }

    /// Runs the handler for one timer, at `now` if a hook wants to know how long it takes; a panic stays there.
    #[inline]
    pub(super) fn handle(&mut self, inner: &Inner<T>, expired: Expired<T>, now: Time) {
        let (counters, shard, key) =
            (self.owner.handle().counters(), self.shard, expired.key.to_raw());
        let Some(handler) = self.handler.get_mut() else { return };
        // A handler that panics half-way may leave its own state inconsistent; that is its owner's to judge,
        // as it is with a thread that panics. The engine's state is not touched by handlers.
        let outcome = contain::call(|| handler(inner, expired));
        let watched = inner.hooks.slow.as_ref().map(|(threshold, hook)| {
            let took = inner.now() - now;
            counters.handler_time.record(saturating_ns(took));
            (took, *threshold, hook)
        });
        if let Err(message) = outcome {
            panicked(inner, counters, PanicReport { shard, key, message });
        }
        if let Some((took, _, hook)) = watched.filter(|(took, threshold, _)| took >= threshold) {
            let slow = SlowHandler { shard, key, took };
            events::handler_was_slow(&slow);
            hooks::tell("the hook for slow handlers", Some(hook), &slow);
        }
    }
}

/// Counts a panic of a handler or a waker, and tells it.
#[cold]
fn panicked<T>(inner: &Inner<T>, counters: &Counters, report: PanicReport) {
    counters.panics.bump();
    events::handler_panicked(&report);
    hooks::tell("the panic hook", inner.hooks.panic.as_ref(), &report);
}

#[cfg(all(test, feature = "futures", not(tickwheel_loom)))]
mod tests;
