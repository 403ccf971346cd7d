//! The exact bound on pending timers (`max_pending`), shared by all shards of an engine.
//!
//! Only an engine that has a bound pays for it: one contended word per schedule, cancel and fire.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::types::ScheduleErrorKind;
use crossbeam_utils::CachePadded;

/// Counts permits taken; never more than `max`.
#[derive(Debug)]
pub(crate) struct Limit {
    taken: CachePadded<AtomicUsize>,
    pub(crate) max: usize,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Self {
        Self { taken: CachePadded::new(AtomicUsize::new(0)), max }
    }

    /// Takes a permit, unless all are taken. A compare-and-swap loop rather than add-and-undo, so
    /// that a refused caller never makes another one fail.
    pub(crate) fn acquire(&self) -> Result<(), ScheduleErrorKind> {
        // ORDERING: Relaxed throughout: the word is a counter; exactness comes from its modification order.
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            if taken >= self.max {
                let max_pending = self.max;
                return Err(ScheduleErrorKind::TooManyPending { pending: taken, max_pending });
            }
            match self.taken.compare_exchange_weak(
                taken,
                taken + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => taken = now,
            }
        }
    }

    /// Gives a permit back.
    pub(crate) fn release(&self) {
        // ORDERING: Relaxed: as above. A later `acquire` by the same thread sees it (coherence).
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
