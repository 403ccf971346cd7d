//! Durations counted by their length. One writer (the shard's owner), any readers.
//!
//! `Recorder` is the live half. One thread, the shard's owner, calls `record`; any thread may call `snapshot` at any
//! time. As there is one writer, a count goes up by a plain load and store, not by a read-modify-write.
//! `DurationHistogram` is the snapshot: plain data for statistics.
//!
//! Buckets are log-linear: each power of two of nanoseconds is cut into eight equal parts, so a bucket's edges lie at
//! most 12.5 % apart, from 1 ns up to 73 minutes. One more bucket takes all that is longer. The whole recorder is about
//! 2.6 KiB, and one `record` touches two or three lines of it.
//!
//! A library would serve as well: crate `histogram` 1.6 counts in the same time (3.0 ns, this one 2.8, with the sum and
//! the maximum kept beside it; eb150df4, AMD EPYC, 2026-11-24). It would bring `thiserror` and `syn` into every build.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::bounded;
use std::time::Duration;

/// Each octave has `2^SUB_BITS` buckets.
const SUB_BITS: u32 = 3;
const SUBS: usize = 1 << SUB_BITS;
/// `2^RANGE_BITS` nanoseconds (73 minutes) and more share the last bucket. Under loom
/// every atomic costs, so the range shrinks.
const RANGE_BITS: u32 = bounded(42, SUB_BITS);
/// Below `SUBS` nanoseconds one bucket per nanosecond, then `SUBS` per octave, then the last
/// bucket.
const BUCKETS: usize = SUBS + (RANGE_BITS - SUB_BITS) as usize * SUBS + 1;
const LAST: usize = BUCKETS - 1;
// The range holds an hour, the longest tick.
const _: () = assert!(cfg!(tickwheel_loom) || 1_u64 << RANGE_BITS > 3_600_000_000_000);

/// Returns the largest value that `bucket` holds.
const fn upper_ns(bucket: usize) -> u64 {
    if bucket < SUBS {
        return bucket as u64;
    }
    if bucket >= LAST {
        return u64::MAX;
    }
    let shift = (bucket / SUBS - 1) as u32;
    let leading = (SUBS + bucket % SUBS) as u64;
    ((leading + 1) << shift) - 1
}

/// A duration to be recorded, perhaps several times, and the bucket that holds it.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    ns: u64,
    bucket: usize,
}

impl Sample {
    /// Finds the bucket of a duration of `ns` nanoseconds.
    #[inline]
    pub(crate) const fn of(ns: u64) -> Self {
        let bucket = if ns < SUBS as u64 {
            ns as usize
        } else {
            let octave = u64::BITS - 1 - ns.leading_zeros();
            let bucket = (octave - SUB_BITS) as usize * SUBS + (ns >> (octave - SUB_BITS)) as usize;
            if bucket < LAST { bucket } else { LAST }
        };
        Self { ns, bucket }
    }
}

/// The live histogram of one shard: one writer, any number of readers.
pub(crate) struct Recorder {
    counts: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self {
            counts,
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl Recorder {
    /// Counts a duration. Only the shard's owner may call this: a second writer
    /// would lose counts (though nothing worse).
    #[inline]
    pub(crate) fn record(&self, Sample { ns, bucket }: Sample) {
        // ORDERING: Relaxed. Only this thread writes the maximum; readers are ordered by the bucket
        // below.
        if ns > self.max_ns.load(Ordering::Relaxed) {
            // ORDERING: Relaxed, as above.
            self.max_ns.store(ns, Ordering::Relaxed);
        }
        // ORDERING: Relaxed. Only this thread writes the sum, and its readers want no more than a
        // recent value.
        let sum = self.sum_ns.load(Ordering::Relaxed).saturating_add(ns);
        // ORDERING: Relaxed, as above.
        self.sum_ns.store(sum, Ordering::Relaxed);
        let count = &self.counts[bucket];
        // ORDERING: Relaxed. Only this thread writes the count.
        let counted = count.load(Ordering::Relaxed) + 1;
        // ORDERING: Release pairs with the Acquire in `snapshot` [P15]: who sees this count sees the
        // maximum and the sum that include it, so a percentile is never capped below a value it
        // counts.
        count.store(counted, Ordering::Release);
    }

    /// Returns a copy of the counts as they are now. Any thread; O(buckets), about 320 loads.
    pub(crate) fn snapshot(&self) -> DurationHistogram {
        // ORDERING: Acquire pairs with the Release in `record` [P15], so the maximum and the sum read below cover every
        // count read here.
        let counts: [u64; BUCKETS] =
            std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Acquire));
        DurationHistogram {
            count: counts.iter().sum(),
            counts,
            // ORDERING: Relaxed; the Acquire loads above order it.
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
            // ORDERING: Relaxed; the Acquire loads above order it.
            max_ns: self.max_ns.load(Ordering::Relaxed),
        }
    }
}

/// Durations, counted by their length: how late timers fired, how long handlers ran.
///
/// Lateness is the time from a timer's deadline to the start of its handler, by the clock as it was read last: up to
/// some three hundred calls before in an engine, before the poll in a loop. See
/// [`Expired::lateness`](crate::Expired::lateness). Values are grouped in buckets whose edges lie at most 12.5 % apart,
/// from 1 ns up to 73 minutes; longer ones share a bucket. Percentiles are upper edges: never below what was counted,
/// and never above the largest value seen.
///
/// A snapshot is plain data of about 2.6 KiB; no call allocates. Taken from a live engine it only grows:
/// [`since`](Self::since) is what came between two of them.
///
/// An interval's values:
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// let before = timer.stats().lateness;
/// // ... a minute passes ...
/// let after = timer.stats().lateness;
/// let minute = after.since(&before);
/// println!(
///     "p99 {:?}, mean {:?}, worst {:?}",
///     minute.percentile(99.0),
///     minute.mean(),
///     minute.max()
/// );
///
/// let mut both = before.clone();
/// both.merge(&minute);
/// assert_eq!(both.count(), after.count());
/// assert_eq!(both.buckets().map(|(_longest, count)| count).sum::<u64>(), both.count());
/// # Ok(()) }
/// ```
///
/// [`count`](Self::count), [`sum`](Self::sum) and [`buckets`](Self::buckets) are what a Prometheus histogram consists
/// of; `MetricsReporter` of `tickwheel-util` reports them.
#[derive(Clone, PartialEq, Eq)]
pub struct DurationHistogram {
    counts: [u64; BUCKETS],
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
            sum_ns: 0,
            max_ns: 0,
        }
    }
}

impl DurationHistogram {
    /// Returns how many values are counted. O(1).
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the largest value, exact (of a [difference](Self::since), the upper edge of its bucket); zero where
    /// nothing is counted. O(1).
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// Returns all values together, up to 584 years. O(1).
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns the mean, rounded down to a nanosecond; zero where nothing is counted. Too small where the
    /// [sum](Self::sum) has reached its end. O(1).
    #[must_use]
    pub fn mean(&self) -> Duration {
        let mean = self.sum_ns.checked_div(self.count).unwrap_or(0);
        // A snapshot taken while the owner records may hold a sum that is ahead of the count.
        Duration::from_nanos(mean.min(self.max_ns))
    }

    /// Returns the duration that `percent` per cent of the values did not exceed.
    ///
    /// `percent` is clamped to 0..=100 (0 asks for the smallest value, NaN counts as 100). The
    /// answer is the upper edge of a bucket, at most 12.5 % above the true value and never below
    /// it; zero where nothing is counted. O(buckets).
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        let percent = if percent.is_nan() {
            100.0
        } else {
            percent.clamp(0.0, 100.0)
        };
        let rank = (percent / 100.0 * self.count as f64).ceil() as u64;
        let rank = rank.clamp(1, self.count.max(1));
        let mut seen = 0;
        let mut covers = |&(_, count): &(Duration, u64)| {
            seen = count.saturating_add(seen);
            seen >= rank
        };
        self.buckets()
            .find(&mut covers)
            .map_or(Duration::ZERO, |(upper, _)| upper)
    }

    /// Returns what was counted after `earlier`, a snapshot of the same source. O(buckets).
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut counts = self.counts;
        for (mine, theirs) in counts.iter_mut().zip(&earlier.counts) {
            *mine = mine.saturating_sub(*theirs);
        }
        let max = counts
            .iter()
            .rposition(|count| *count > 0)
            .map_or(0, upper_ns);
        Self {
            count: counts
                .iter()
                .fold(0, |sum, count| count.saturating_add(sum)),
            counts,
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            max_ns: max.min(self.max_ns),
        }
    }

    /// Adds the counts of `other` to this histogram; none grows beyond [`u64::MAX`]. O(buckets).
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the buckets that hold anything, in rising order: the bucket's upper bound (inclusive; the
    /// largest value seen where that is less) and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let upper = |bucket| Duration::from_nanos(upper_ns(bucket).min(self.max_ns));
        let filled = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        filled.map(move |(bucket, count)| (upper(bucket), *count))
    }
}

debug_fields!([] DurationHistogram, "DurationHistogram", it, count: it.count, mean: it.mean(), p50: it.percentile(50.0),
    p99: it.percentile(99.0), p99_9: it.percentile(99.9), max: it.max());

#[cfg(test)]
mod tests;
