//! The exact bound on pending timers (`max_pending`), shared by all shards of an engine: one word of free permits.
//!
//! Each schedule takes a permit and each end of a timer gives one back, so all threads write this one line: the only
//! shared write of these calls. An engine without `max_pending` has no such word and pays nothing.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::types::ScheduleErrorKind;
use crossbeam_utils::CachePadded;

/// Hands out permits; never more than `max`.
pub(crate) struct Limit {
    free: CachePadded<AtomicU64>,
    pub(crate) max: usize,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Self {
        let free = u64::try_from(max).unwrap_or(u64::MAX);
        Self {
            free: CachePadded::new(AtomicU64::new(free)),
            max,
        }
    }

    /// Takes a permit; false if none is free.
    #[inline]
    pub(crate) fn acquire(&self) -> bool {
        // ORDERING: Relaxed: nothing but the permit is handed over. A permit that came back before this call began, in
        // any way that the caller knows of, is seen: the word has one order of changes.
        let one_less = |free: u64| free.checked_sub(1);
        self.free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
    }

    /// Gives a permit back.
    #[inline]
    pub(crate) fn release(&self) {
        // ORDERING: Relaxed: as in `acquire`.
        self.free.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns why there was no permit.
    #[cold]
    pub(crate) fn refusal(&self) -> ScheduleErrorKind {
        ScheduleErrorKind::TooManyPending {
            pending: self.max,
            max_pending: self.max,
        }
    }
}
