//! The error of a batch of timers.

use super::error::ScheduleErrorKind;
use super::exclusive::Exclusive;
use super::key::Key;
use crate::time::{TickRate, Time};
use alloc::vec::Vec;
use core::error::Error as StdError;
use core::fmt;

/// Why not all timers of a batch were accepted: the reason, the keys of those that were, and the rest with its
/// payloads.
///
/// The accepted ones are armed and fire; cancel them to get all or nothing. What was refused was not counted
/// and never fires; each payload comes with its deadline, so that it can be handed in again as it is. If memory runs
/// out while the timers are collected, before the first is armed, those that were not asked for stay in the iterator:
/// hand in `&mut` one to keep it.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, Expired, ScheduleErrorKind};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let small = Builder::new().max_pending(2).build_with(|_: Expired<&str>| ())?;
/// let large = Builder::new().build_with(|_: Expired<&str>| ())?;
/// let minute = Duration::from_secs(60);
///
/// let error = small.schedule_batch([(minute, "a"), (minute, "b"), (minute, "c")]).unwrap_err();
/// assert!(matches!(error.kind(), ScheduleErrorKind::TooManyPending { .. }));
/// assert_eq!(error.accepted().len(), 2);
/// let keys = large.schedule_batch(error.into_refused())?;
/// assert_eq!(large.cancel(keys[0]).into_payload(), Some("c"));
///
/// let (kind, accepted, refused) = small.schedule_batch([(minute, "d")]).unwrap_err().into_parts();
/// println!("{kind}: {} accepted, {} refused", accepted.len(), refused.len());
/// # Ok(()) }
/// ```
pub struct BatchError<T> {
    kind: ScheduleErrorKind,
    accepted: Vec<Key<T>>,
    refused: Exclusive<Vec<(Time, T)>>,
}

impl<T> BatchError<T> {
    pub(crate) const fn new(
        kind: ScheduleErrorKind,
        accepted: Vec<Key<T>>,
        refused: Vec<(Time, T)>,
    ) -> Self {
        Self {
            kind,
            accepted,
            refused: Exclusive::new(refused),
        }
    }

    /// Creates an error from the ticks of the refused timers.
    pub(crate) fn of_ticks(
        kind: ScheduleErrorKind,
        accepted: Vec<Key<T>>,
        refused: Vec<(u64, T)>,
        rate: &TickRate,
    ) -> Self {
        let with_time = |(tick, payload)| (rate.start_of(tick), payload);
        Self::new(kind, accepted, refused.into_iter().map(with_time).collect())
    }

    /// Creates the error of a batch of which no timer was accepted, because there is no memory.
    #[cold]
    pub(crate) fn no_memory(refused: Vec<(u64, T)>, rate: &TickRate) -> Self {
        Self::of_ticks(ScheduleErrorKind::OutOfMemory, Vec::new(), refused, rate)
    }

    /// Returns why the first of the refused timers was refused; the rest was not tried, or refused for the same reason.
    #[must_use]
    pub const fn kind(&self) -> &ScheduleErrorKind {
        &self.kind
    }

    /// Returns the keys of the timers that were accepted, in the order in which they came.
    #[must_use]
    pub fn accepted(&self) -> &[Key<T>] {
        &self.accepted
    }

    /// Deadlines and payloads of the refused timers, in the order in which they came.
    #[must_use]
    pub fn into_refused(self) -> Vec<(Time, T)> {
        self.refused.into_inner()
    }

    /// Returns the reason, the keys of the accepted timers, and the refused ones.
    #[must_use]
    pub fn into_parts(self) -> (ScheduleErrorKind, Vec<Key<T>>, Vec<(Time, T)>) {
        (self.kind, self.accepted, self.refused.into_inner())
    }
}

// Shows the reason and the number of accepted timers only, so that payloads need not be `Debug`.
debug_fields!([T] BatchError<T>, "BatchError", it, kind: it.kind, accepted: it.accepted.len());

impl<T> fmt::Display for BatchError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} timers of the batch were accepted, then: {}",
            self.accepted.len(),
            self.kind
        )
    }
}

impl<T> StdError for BatchError<T> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.kind.source()
    }
}
