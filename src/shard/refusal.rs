//! Why a timer was not accepted.

use crate::node::segments::MAX_SLOTS;
use crate::types::{ScheduleError, ScheduleErrorKind};

/// Why a timer was not accepted; the payload comes back.
#[derive(Debug)]
pub(crate) enum Refusal<T> {
    Closed(T),
    /// `max_pending` timers are pending.
    AtLimit {
        payload: T,
        pending: usize,
        max: usize,
    },
    /// The node table is full.
    Full(T),
    /// The `Clone` of a periodic timer's payload panicked.
    NotCopied(T),
    /// There is no memory for a node, or for the message to the owner.
    NoMemory(T),
}

impl<T> Refusal<T> {
    /// The reason alone, and the payload.
    #[cold]
    pub(super) fn split(self) -> (Refusal<()>, T) {
        match self {
            Self::Closed(payload) => (Refusal::Closed(()), payload),
            Self::AtLimit { payload, pending, max } => {
                (Refusal::AtLimit { payload: (), pending, max }, payload)
            }
            Self::Full(payload) => (Refusal::Full(()), payload),
            Self::NotCopied(payload) => (Refusal::NotCopied(()), payload),
            Self::NoMemory(payload) => (Refusal::NoMemory(()), payload),
        }
    }

    /// The user's error.
    #[cold]
    pub(crate) fn into_error(self, shard: usize) -> ScheduleError<T> {
        let (kind, payload) = match self {
            Self::Closed(payload) => (ScheduleErrorKind::Stopped, payload),
            Self::AtLimit { payload, pending, max } => {
                (ScheduleErrorKind::TooManyPending { pending, max_pending: max }, payload)
            }
            Self::NotCopied(payload) => (ScheduleErrorKind::PayloadClonePanicked, payload),
            Self::NoMemory(payload) => (ScheduleErrorKind::OutOfMemory, payload),
            Self::Full(payload) => {
                (ScheduleErrorKind::OutOfNodes { shard, limit: MAX_SLOTS }, payload)
            }
        };
        ScheduleError::new(kind, payload)
    }
}
