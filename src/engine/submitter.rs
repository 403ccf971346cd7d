//! [`Submitter`]: one thread's own way to an engine.

use super::timer::Timer;
use crate::node::offer::offer;
use crate::shard::Producer;
use crate::sync::slot;
use crate::time::When;
use crate::types::{Cancel, Key, Reschedule, ScheduleError};

/// Schedules as [`Timer`] does, but has looked up what does not change from call to call: the thread's number, its home
/// shard, and its part of that.
///
/// For loops that set many timers and can keep one: a pair of schedule and cancel takes about a quarter fewer
/// instructions. It stays on the thread that made it, and borrows the timer.
///
/// Everything goes to the home shard of the thread, also with [`Routing::Spread`](crate::Routing::Spread), which
/// would deal timers out one by one.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, Expired};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Builder::new().build_with(|_: Expired<u64>| ())?;
/// let submitter = timer.submitter();
/// let keys: Result<Vec<_>, _> =
///     (0..100).map(|id| submitter.schedule(Duration::from_secs(30), id)).collect();
/// for key in keys? {
///     assert!(submitter.reschedule(key, Duration::from_secs(60)).is_moved());
///     assert!(submitter.cancel(key).is_won());
/// }
/// // Many at once: the clock is read once.
/// let now = timer.now();
/// for id in 0..100 {
///     submitter.schedule(now + Duration::from_secs(5), id)?;
/// }
/// assert_eq!(timer.pending(), 100);
/// # Ok(()) }
/// ```
///
/// It cannot leave its thread:
///
/// ```compile_fail
/// # let timer = tickwheel::Timer::new().unwrap();
/// let submitter = timer.submitter();
/// std::thread::scope(|scope| scope.spawn(|| submitter.timer().now()));
/// ```
pub struct Submitter<'a, T> {
    pub(super) timer: &'a Timer<T>,
    pub(super) producer: Producer<'a, T>,
    pub(super) shard: usize,
    /// No other thread gets the thread's number as long as this lives; not `Send`, hence neither is the submitter.
    _slot: slot::Kept,
}

impl<T: Send + 'static> Timer<T> {
    /// Returns a way to this engine for the calling thread alone, which saves it some look-ups.
    #[must_use]
    pub fn submitter(&self) -> Submitter<'_, T> {
        let kept = slot::keep();
        let shard = self.inner.router.route(kept.slot);
        let producer = self.inner.handles[shard].producer(kept.slot);
        Submitter {
            timer: self,
            producer,
            shard,
            _slot: kept,
        }
    }
}

impl<'a, T: Send + 'static> Submitter<'a, T> {
    /// Returns the timer that this belongs to.
    #[must_use]
    pub fn timer(&self) -> &'a Timer<T> {
        self.timer
    }

    /// Schedules `payload` to fire after a delay, or at a point in time ([`When`]); as [`Timer::schedule`].
    ///
    /// # Errors
    ///
    /// Like [`Timer::schedule`].
    #[inline]
    pub fn schedule(&self, when: impl Into<When>, payload: T) -> Result<Key<T>, ScheduleError<T>> {
        let inner = &self.timer.inner;
        let tick = inner.tick(when);
        offer(payload, |payload| {
            if let Err(kind) = inner.ready() {
                return Err(payload.refuse(kind));
            }
            match self.producer.schedule(tick, payload, false) {
                Ok(armed) => Ok(self.producer.shard.key(armed)),
                Err(refusal) => Err(refusal.map(|kind| inner.rejected(kind, self.shard))),
            }
        })
    }

    /// Cancels the timer that `key` names, of any thread, and hands its payload back, if it is still pending.
    #[inline]
    pub fn cancel(&self, key: Key<T>) -> Cancel<T> {
        if key.shard() != self.shard {
            return self.timer.cancel(key);
        }
        self.producer.cancel(key)
    }

    /// Moves the timer that `key` names, of any thread; like [`Timer::reschedule`].
    #[inline]
    pub fn reschedule(&self, key: Key<T>, when: impl Into<When>) -> Reschedule {
        if key.shard() != self.shard {
            return self.timer.reschedule(key, when);
        }
        let tick = self.timer.inner.tick(when);
        Reschedule::from_moved(self.producer.move_to(key, tick))
    }
}

debug_fields!([T] Submitter<'_, T>, "Submitter", it, shard: it.shard);

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<T> core::panic::UnwindSafe for Submitter<'_, T> {}
impl<T> core::panic::RefUnwindSafe for Submitter<'_, T> {}
