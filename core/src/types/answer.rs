//! The answers to cancel and reschedule.

/// The answer to a cancellation: whether this call ended the timer, and the payload if it did.
///
/// Exactly one of cancel, fire and stop ends a timer. `Gone` means that another one did, or that the
/// key is stale. A periodic timer that is cancelled in the moment before a call is ended by that call: `AfterCall`.
///
/// Dropping the answer drops the payload.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Cancel, LocalTimer, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// let key = timer.schedule(Time::ZERO, Duration::from_secs(5), "request 17")?;
/// match timer.cancel(key) {
///     Cancel::Won(request) => println!("{request} was answered in time"),
///     Cancel::AfterCall => println!("it repeats, and is called for the last time"),
///     Cancel::Gone => println!("too late"),
/// }
/// // Or by a question. A second cancel finds it gone.
/// assert!(!timer.cancel(key).is_won());
/// assert_eq!(timer.cancel(key).into_payload(), None);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancel<T> {
    /// The timer will not fire; its payload is yours. A call of a periodic timer may be under way.
    Won(T),
    /// The timer is periodic, and its thread is cloning the payload for a call that is about to begin. It is the last one,
    /// and its handler gets the payload itself.
    ///
    /// Only timers of a `Timer` or a `Remote` answer so.
    AfterCall,
    /// The timer had ended already.
    Gone,
}

impl<T> Cancel<T> {
    /// Returns whether this call cancelled the timer.
    #[must_use]
    pub fn is_won(&self) -> bool {
        matches!(self, Self::Won(_))
    }

    /// Returns the payload, if this call cancelled the timer.
    pub fn into_payload(self) -> Option<T> {
        match self {
            Self::Won(payload) => Some(payload),
            Self::AfterCall | Self::Gone => None,
        }
    }
}

/// The answer to a reschedule.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, Reschedule, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// let idle = timer.schedule(Time::ZERO, Duration::from_secs(30), "connection 17")?;
/// let now = Time::ZERO + Duration::from_secs(10); // data came
/// assert!(timer.reschedule(now, idle, Duration::from_secs(30)).is_moved());
/// timer.cancel(idle);
/// assert_eq!(timer.reschedule(now, idle, Duration::from_secs(30)), Reschedule::Gone);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reschedule {
    /// The timer has the new deadline and will not fire before it.
    ///
    /// Of several concurrent moves of one timer any one may be the last; each reports `Moved`. Pulled in by another
    /// thread than its shard's owner while memory is refused, it may fire as late as it would have before.
    Moved,
    /// The timer had ended already; or its deadline has come and its shard's owner is about to fire it, which only a
    /// cancel may still forestall. So it may be pending for a moment yet.
    Gone,
}

impl Reschedule {
    #[doc(hidden)]
    pub fn from_moved(moved: bool) -> Self {
        if moved { Self::Moved } else { Self::Gone }
    }

    /// Returns whether the timer has the new deadline.
    #[must_use]
    pub fn is_moved(self) -> bool {
        self == Self::Moved
    }
}
