//! A timer on its way out.

use crate::types::Key;

/// A timer that has fired, or that `stop` has returned, on its way out.
pub(crate) struct Fired<T> {
    pub(crate) payload: T,
    pub(crate) key: Key<T>,
    /// The tick at or after which the timer was to fire.
    pub(crate) deadline: u64,
}

/// A timer that is due.
pub(crate) enum Due<T> {
    /// It has fired and is gone.
    Once(Fired<T>),
    /// It repeats: [`Owner::call`](crate::shard::Owner::call) decides about it.
    Every { index: u32, mark: u32 },
}
