//! `TimerHandle`: the owned handle of one timer, and `TimerGuard`, which cancels it.

use super::inner::{EngineRef, Inner, Place};
use crate::contain;
use crate::node::table::Armed;
use crate::shard::{Producer, ShardHandle};
use crate::state::Phase;
use crate::time::{Time, When};
use crate::types::{Cancel, Key, Reschedule};
use std::ops::Deref;

/// The owned handle of one timer: cancel it, move it, ask how it ended.
///
/// [`Timer::schedule_handle`](crate::Timer::schedule_handle) and
/// [`run_after_handle`](crate::Timer::run_after_handle) return one. Where a name is enough, take a [`Key`].
///
/// A `TimerHandle` keeps its timer's record, so its answers stay right for as long as it exists. It keeps the engine's
/// memory, not its workers. If the engine's last [`Timer`](crate::Timer) is gone, that memory, hooks included, is freed
/// when another engine is built or ends after the last `TimerHandle` was dropped. It is two words large and cannot be
/// cloned; [`key`](Self::key) gives a plain copy of its name. Making and dropping one writes nothing that other threads
/// write.
///
/// Dropping a `TimerHandle` leaves the timer armed. [`cancel_on_drop`](Self::cancel_on_drop) makes a guard that
/// cancels it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Timer, TimerState};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (timer, minute) = (Timer::new()?, Duration::from_secs(60));
/// let deadline = timer.run_after_handle(minute, || println!("too slow"))?;
/// assert!(deadline.is_pending() && timer.is_pending(deadline.key()));
/// assert!(deadline.reschedule(2 * minute).is_moved());
/// assert!(deadline.deadline() > timer.now() + minute);
/// assert!(deadline.cancel().is_won());
/// assert!(deadline.is_cancelled() && !deadline.is_fired());
/// assert_eq!(deadline.state(), TimerState::Cancelled);
///
/// let key = timer.run_after_handle(minute, || println!("a minute later"))?.detach();
/// let guard = timer.run_after_handle(minute, || println!("too slow"))?.cancel_on_drop();
/// drop(guard);
/// assert!(timer.is_pending(key) && timer.pending() == 1);
/// # Ok(()) }
/// ```
pub struct TimerHandle<T> {
    engine: EngineRef<T>,
    /// The timer's generation stands in the node.
    place: Place,
}

// Two registers take it.
const _: () = assert!(size_of::<TimerHandle<[u8; 100]>>() <= 16);
const _: () = assert!(size_of::<Option<TimerHandle<u8>>>() <= 16);

/// Where the timer of a [`TimerHandle`] stands.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{TimerHandle, TimerState, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// fn told<T>(timeout: &TimerHandle<T>) -> &'static str {
///     match timeout.state() {
///         TimerState::Pending => "in time so far",
///         TimerState::Fired => "too late",
///         TimerState::Cancelled => "done in time",
///         _ => "given up",
///     }
/// }
///
/// let timer = Timer::new()?;
/// let timeout = timer.run_after_handle(Duration::from_secs(5), || ())?;
/// assert_eq!(told(&timeout), "in time so far");
/// timer.stop()?;
/// assert_eq!(told(&timeout), "given up");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimerState {
    /// It will fire, be cancelled, or be returned.
    Pending,
    /// It has fired; its handler may still be running.
    Fired,
    /// It was cancelled.
    Cancelled,
    /// It was returned by `stop`, or dropped with the engine.
    Returned,
}

impl<T> TimerHandle<T> {
    /// Creates the handle of a timer that was scheduled as held, which has counted it.
    #[inline]
    pub(super) fn new(engine: &Inner<T>, shard: &ShardHandle<T>, armed: Armed) -> Self {
        Self {
            engine: EngineRef::new(engine),
            place: Place::new(shard.id, armed.index),
        }
    }

    /// Runs `f` with the calling thread's producer of the shard and the index of the node; there is such a shard.
    #[inline]
    fn on_shard<R>(&self, absent: R, f: impl FnOnce(Producer<'_, T>, u32) -> R) -> R {
        let place = self.place;
        self.engine
            .on_shard(place.shard(), absent, move |it| f(it, place.index()))
    }

    /// Returns the shard, and the index of the node in it.
    #[inline]
    fn place(&self) -> (&ShardHandle<T>, u32) {
        (&self.engine.handles[self.place.shard()], self.place.index())
    }

    /// Returns a guard that cancels the timer when it goes out of scope.
    pub fn cancel_on_drop(self) -> TimerGuard<T> {
        TimerGuard { handle: Some(self) }
    }

    /// Cancels the timer and hands its payload back, if it is still pending. One compare-and-swap.
    pub fn cancel(&self) -> Cancel<T> {
        self.on_shard(Cancel::Gone, |producer, index| producer.cancel_held(index))
    }

    /// Moves the timer to fire after a delay or at a point in time instead; see
    /// [`Timer::reschedule`](crate::Timer::reschedule).
    pub fn reschedule(&self, when: impl Into<When>) -> Reschedule {
        self.engine.reschedule(self.key(), self.engine.tick(when))
    }

    /// Returns where the timer stands. One read, so that two questions cannot get answers of different moments.
    #[must_use]
    pub fn state(&self) -> TimerState {
        let (handle, index) = self.place();
        match handle.table.held_state(index).phase() {
            Phase::Pending | Phase::Waiting => TimerState::Pending,
            Phase::Fired => TimerState::Fired,
            Phase::Cancelled => TimerState::Cancelled,
            // The node is held, so it is this timer's, and it has been armed: it is never idle.
            Phase::Returned | Phase::Idle => TimerState::Returned,
        }
    }

    /// Returns whether the timer has not ended.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state() == TimerState::Pending
    }

    /// Returns whether the timer was cancelled, or returned by `stop`.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.state(), TimerState::Cancelled | TimerState::Returned)
    }

    /// Returns whether the timer has fired (its handler may still be running).
    #[must_use]
    pub fn is_fired(&self) -> bool {
        self.state() == TimerState::Fired
    }

    /// Returns when the timer is or was due: the time asked for, rounded up to a tick.
    #[must_use]
    pub fn deadline(&self) -> Time {
        let (handle, index) = self.place();
        self.engine.rate.start_of(handle.table.deadline(index))
    }

    /// Returns the timer's name.
    #[must_use]
    pub fn key(&self) -> Key<T> {
        let (handle, index) = self.place();
        handle.held_key(index)
    }

    /// Gives up the handle and keeps the name; the timer stays armed.
    #[must_use = "to let the timer run without a name, drop the TimerHandle"]
    pub fn detach(self) -> Key<T> {
        self.key()
    }
}

impl<T> Drop for TimerHandle<T> {
    #[inline]
    fn drop(&mut self) {
        // The last use of the engine.
        self.on_shard((), |producer, index| producer.release(index));
    }
}

debug_fields!([T] TimerHandle<T>, "TimerHandle", it, key: it.key(), state: it.state());

/// A panic in a handler, a payload's destructor or beside a call leaves every timer as it should be, so code that
/// catches a panic may go on using its timer.
impl<T> core::panic::UnwindSafe for TimerHandle<T> {}
impl<T> core::panic::RefUnwindSafe for TimerHandle<T> {}

/// A [`TimerHandle`] that cancels its timer when it is dropped, and drops the payload then. If the payload's destructor
/// panics, that is logged.
///
/// For timers that must not outlive what they watch: a guard in a request's state ends with the request, on every way
/// out of it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// {
///     let too_slow = || println!("too slow");
///     let _guard =
///         timer.run_after_handle(Duration::from_secs(5), too_slow)?.cancel_on_drop();
///     // ... what must be done within five seconds ...
/// }
/// assert_eq!(timer.pending(), 0);
///
/// let guard = timer
///     .run_after_handle(Duration::from_secs(5), || println!("too slow"))?
///     .cancel_on_drop();
/// drop(guard.into_handle()); // a handle, which cancels nothing
/// assert_eq!(timer.pending(), 1);
/// # Ok(()) }
/// ```
#[must_use = "a guard that is dropped at once cancels its timer at once"]
pub struct TimerGuard<T> {
    /// Taken only by what consumes the guard.
    handle: Option<TimerHandle<T>>,
}

impl<T> TimerGuard<T> {
    /// Gives up the guard and keeps the handle: the timer stays armed.
    pub fn into_handle(mut self) -> TimerHandle<T> {
        self.handle
            .take()
            .expect("only a guard that is consumed has no handle")
    }
}

impl<T> Deref for TimerGuard<T> {
    type Target = TimerHandle<T>;

    fn deref(&self) -> &TimerHandle<T> {
        self.handle
            .as_ref()
            .expect("only a guard that is consumed has no handle")
    }
}

impl<T> Drop for TimerGuard<T> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            // Perhaps because of a panic, on top of which the payload's own would end the process.
            contain::drop_payload(handle.cancel().into_payload());
        }
    }
}

debug_fields!([T] TimerGuard<T>, "TimerGuard", it, handle: **it);
