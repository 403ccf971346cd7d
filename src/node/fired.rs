//! A timer on its way out.

use crate::types::Key;

/// A timer that has fired, or that `stop` has returned, on its way out.
pub(crate) struct Fired<T> {
    pub(crate) payload: T,
    pub(crate) key: Key<T>,
    /// The tick at or after which the timer was to fire.
    pub(crate) deadline: u64,
    /// One call of a periodic timer.
    pub(crate) periodic: bool,
}
