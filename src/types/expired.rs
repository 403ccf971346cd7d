//! A timer as it is handed out at its end: fired, or returned unfired.

use super::Key;
use crate::time::Time;
use core::time::Duration;

/// A timer that has fired, as its handler sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expired<T> {
    /// What was scheduled.
    pub payload: T,
    /// The timer's name; stale by now.
    pub key: Key,
    /// When it was due: the requested time, rounded up to a tick.
    pub deadline: Time,
    /// How long after `deadline` the handler is called. The clock is read once per turn and once every
    /// 64 timers of a turn.
    pub lateness: Duration,
    /// The shard it fired on.
    pub shard: usize,
}

/// A timer that neither fired nor was cancelled before the engine stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfired<T> {
    /// What was scheduled.
    pub payload: T,
    /// The timer's name; stale by now.
    pub key: Key,
    /// When it would have been due.
    pub deadline: Time,
}
