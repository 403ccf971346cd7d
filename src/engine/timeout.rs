//! `Timeout`: the owned handle of one timer.

use super::hold::HandleRef;
use crate::state::Phase;
use crate::sync::slot;
use crate::time::{Time, When};
use crate::types::{Cancel, Key, Reschedule};
use std::fmt;

/// The owned handle of one timer: cancel it, move it, ask how it ended.
///
/// A `Timeout` keeps its timer's record, so its answers stay right for as long as it exists, and it keeps the engine's
/// memory, not its workers. If the engine's last [`Timer`](crate::Timer) is gone, that memory, hooks included, is freed
/// when another engine is built or ends after the last `Timeout` was dropped. It is two words large and cannot be
/// cloned; [`key`](Self::key) gives a plain copy of its name. Making and dropping one writes nothing that other threads
/// write.
///
/// Dropping a `Timeout` leaves the timer armed; [`cancel_on_drop`](Self::cancel_on_drop) makes a guard that does not.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{TimeoutState, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (timer, minute) = (Timer::new()?, Duration::from_secs(60));
/// let deadline = timer.run_after(minute, || println!("too slow"))?;
/// assert!(deadline.is_pending() && timer.is_pending(deadline.key()));
/// assert!(deadline.reschedule(2 * minute).moved());
/// assert!(deadline.deadline() > timer.now() + minute);
/// assert!(deadline.cancel().won());
/// assert!(deadline.is_cancelled() && !deadline.is_expired());
/// assert_eq!(deadline.state(), TimeoutState::Cancelled);
///
/// let key = timer.run_after(minute, || println!("a minute later"))?.detach(); // stays armed
/// let guard = timer.run_after(minute, || println!("too slow"))?.cancel_on_drop();
/// drop(guard);
/// assert!(timer.is_pending(key) && timer.pending() == 1);
/// # Ok(()) }
/// ```
pub struct Timeout<T> {
    inner: HandleRef<T>,
}

// Two registers take it.
const _: () = assert!(size_of::<Timeout<[u8; 100]>>() <= 16);
const _: () = assert!(size_of::<Option<Timeout<u8>>>() <= 16);

/// Where the timer of a [`Timeout`] stands.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Timeout, TimeoutState, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// fn told<T>(timeout: &Timeout<T>) -> &'static str {
///     match timeout.state() {
///         TimeoutState::Pending => "in time so far",
///         TimeoutState::Fired => "too late",
///         TimeoutState::Cancelled => "done in time",
///         _ => "given up",
///     }
/// }
///
/// let timer = Timer::new()?;
/// let timeout = timer.run_after(Duration::from_secs(5), || ())?;
/// assert_eq!(told(&timeout), "in time so far");
/// timer.stop()?;
/// assert_eq!(told(&timeout), "given up");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimeoutState {
    /// It will fire, be cancelled, or be returned.
    Pending,
    /// It has fired; its handler may still be running.
    Fired,
    /// It was cancelled.
    Cancelled,
    /// It was returned by `stop`, or dropped with the engine.
    Returned,
}

impl<T> Timeout<T> {
    pub(super) fn new(inner: HandleRef<T>) -> Self {
        Self { inner }
    }

    /// Cancels the timer and hands its payload back, if it is still pending. One compare-and-swap.
    pub fn cancel(&self) -> Cancel<T> {
        let (handle, index) = self.inner.place();
        slot::with(|slot| Cancel::from_payload(handle.producer(slot).cancel_held(index)))
    }

    /// Moves the timer to fire after a delay or at a point in time instead; see
    /// [`Timer::reschedule`](crate::Timer::reschedule).
    pub fn reschedule(&self, when: impl Into<When>) -> Reschedule {
        self.inner.reschedule(self.key(), self.inner.tick(when))
    }

    /// Where the timer stands. One read, so that two questions cannot get answers of different moments.
    #[must_use]
    pub fn state(&self) -> TimeoutState {
        let (handle, index) = self.inner.place();
        match handle.held_state(index).phase() {
            Phase::Pending | Phase::Waiting | Phase::Preparing | Phase::Running => {
                TimeoutState::Pending
            }
            Phase::Fired => TimeoutState::Fired,
            Phase::Cancelled => TimeoutState::Cancelled,
            // The node is held, so it is this timer's, and it has been armed: it is never idle.
            Phase::Returned | Phase::Idle => TimeoutState::Returned,
        }
    }

    /// Whether the timer has not ended.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state() == TimeoutState::Pending
    }

    /// Whether the timer was cancelled, or returned by `stop`.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.state(), TimeoutState::Cancelled | TimeoutState::Returned)
    }

    /// Whether the timer has fired (its handler may still be running).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.state() == TimeoutState::Fired
    }

    /// When the timer is or was due: the time asked for, rounded up to a tick.
    #[must_use]
    pub fn deadline(&self) -> Time {
        let (handle, index) = self.inner.place();
        self.inner.rate.start_of(handle.deadline(index))
    }

    /// The timer's name.
    #[must_use]
    pub fn key(&self) -> Key<T> {
        let (handle, index) = self.inner.place();
        handle.held_key(index)
    }

    /// Gives up the handle and keeps the name; the timer stays armed.
    #[must_use = "to let the timer run without a name, drop the Timeout"]
    pub fn detach(self) -> Key<T> {
        self.key()
    }
}

impl<T> fmt::Debug for Timeout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("key", &self.key()).field("state", &self.state()).finish()
    }
}
