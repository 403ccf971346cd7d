//! A timer as it is handed out at its end: fired, or returned unfired.

use super::Key;
use crate::time::Time;
use core::time::Duration;

/// A timer that has fired, as its handler sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Expired<T> {
    /// What was scheduled.
    pub payload: T,
    /// The timer's name; stale by now.
    pub key: Key<T>,
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
#[non_exhaustive]
pub struct Unfired<T> {
    /// What was scheduled.
    pub payload: T,
    /// The timer's name; stale by now.
    pub key: Key<T>,
    /// When it would have been due.
    pub deadline: Time,
}

impl<T> Expired<T> {
    /// The payload by itself, and everything else: for a queue that takes and gives back payloads only.
    ///
    /// ```
    /// use std::sync::mpsc::{SyncSender, TrySendError};
    /// use tickwheel::Expired;
    ///
    /// fn hand_over(queue: &SyncSender<u64>, expired: Expired<u64>) -> Result<(), Expired<u64>> {
    ///     let (payload, rest) = expired.split();
    ///     queue.try_send(payload).map_err(|refused| match refused {
    ///         TrySendError::Full(payload) | TrySendError::Disconnected(payload) => {
    ///             rest.with_payload(payload)
    ///         }
    ///     })
    /// }
    /// ```
    pub fn split(self) -> (T, Expired<()>) {
        let Self { payload, key, deadline, lateness, shard } = self;
        let key = Key::from_raw(key.to_raw());
        (payload, Expired { payload: (), key, deadline, lateness, shard })
    }

    /// The same timer with another payload; this one is dropped.
    pub fn with_payload<U>(self, payload: U) -> Expired<U> {
        let Expired { key, deadline, lateness, shard, .. } = self.split().1;
        Expired { payload, key: Key::from_raw(key.to_raw()), deadline, lateness, shard }
    }
}
