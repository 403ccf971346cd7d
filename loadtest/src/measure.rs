//! What every run measures with: histograms, nanoseconds, live counts. Ground: knows no other room.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

/// An empty histogram of nanoseconds up to an hour, within 1 %, about 35 KiB.
///
/// # Panics
///
/// Never: the bounds are constants.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("the bounds are valid constants")
}

/// The duration in nanoseconds, saturating.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A count that its one writer publishes for the progress line; on a line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LiveCount(AtomicU64);

impl LiveCount {
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        // ORDERING: Relaxed; a figure for people, it publishes nothing else.
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // ORDERING: Relaxed, for the reason given in `set`.
        self.0.load(Ordering::Relaxed)
    }
}
