//! [`Executor`]: takes expired timers off the workers' hands.

use super::events;
use super::inner::Handler;
use crate::contain::Contained;
use crate::types::Expired;
use std::sync::Arc;

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
/// timer.schedule(Duration::ZERO, 6)?;
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

/// Makes an executor of two closures: one that takes expired timers or gives them back, one that gets what was
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
    Closures {
        execute,
        rejected: Contained::new("an executor", rejected),
    }
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
            // Before `rejected`, which may panic.
            engine.handles[shard].counters.refused_by_executor.add(1);
            events::executor_refused(shard);
            executor.rejected(expired);
        }
    })
}
