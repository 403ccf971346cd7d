//! The engine's statistics.

use super::inner::Inner;
use crate::shard::{DurationHistogram, ShardHandle, ShardStats};
use crate::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// A snapshot of an engine's counters; see [`Timer::stats`](crate::Timer::stats).
///
/// The counters of different shards are read one after the other, so sums are exact only when nothing is
/// going on.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Timer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// timer.cancel(timer.run_after(Duration::from_secs(60), || ())?);
/// timer.run_after(Duration::from_secs(60), || ())?;
/// let stats = timer.stats();
/// assert_eq!((stats.scheduled(), stats.cancelled(), stats.pending), (2, 1, 1));
/// println!("{} fired, {} returned, {} refused", stats.fired(), stats.returned(), stats.rejected);
/// println!("{} panics, {} refused by the executor", stats.panics(), stats.refused_by_executor());
/// println!("{} sleeps, {} of them ended by a producer", stats.parks(), stats.wakes());
/// println!("{} unread, {} turns cut short, {:?} behind", stats.inbox(), stats.cut_short(), stats.lag());
/// println!("lateness p99 {:?}", stats.lateness().percentile(99.0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// One entry per shard.
    pub shards: Vec<ShardStats>,
    /// Timers that were refused, for any [reason](crate::ScheduleErrorKind).
    pub rejected: u64,
    /// Timers pending.
    pub pending: u64,
}

/// Sums a field over all shards. By a function's address: a loop for every field takes the compiler longer.
fn sum(shards: &[ShardStats], field: fn(&ShardStats) -> u64) -> u64 {
    shards.iter().map(field).sum()
}

impl Stats {
    pub(super) fn of<T>(inner: &Inner<T>) -> Self {
        let now = inner.source.now();
        let of = |handle: &Arc<ShardHandle<T>>| {
            let mut stats = ShardStats::of(handle, &inner.rate, now);
            stats.failure = inner.berths[stats.shard].failure().cloned();
            stats
        };
        let shards: Vec<_> = inner.handles.iter().map(of).collect();
        Self {
            pending: sum(&shards, |shard| shard.pending),
            // ORDERING: Relaxed: a statistic.
            rejected: inner.rejected.load(Ordering::Relaxed),
            shards,
        }
    }

    /// Returns the number of timers accepted, all shards.
    #[must_use]
    pub fn scheduled(&self) -> u64 {
        sum(&self.shards, |shard| shard.scheduled)
    }

    /// Returns the number of timers fired, all shards.
    #[must_use]
    pub fn fired(&self) -> u64 {
        sum(&self.shards, |shard| shard.fired)
    }

    /// Returns the number of timers cancelled, all shards.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        sum(&self.shards, |shard| shard.cancelled)
    }

    /// Returns the number of timers returned by `stop`, all shards.
    #[must_use]
    pub fn returned(&self) -> u64 {
        sum(&self.shards, |shard| shard.returned)
    }

    /// Returns the number of handlers that panicked, all shards.
    #[must_use]
    pub fn panics(&self) -> u64 {
        sum(&self.shards, |shard| shard.panics)
    }

    /// Returns the number of sleeps that a producer ended early, all shards.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        sum(&self.shards, |shard| shard.wakes)
    }

    /// Returns the number of sleeps, all shards.
    #[must_use]
    pub fn parks(&self) -> u64 {
        sum(&self.shards, |shard| shard.parks)
    }

    /// Returns the number of turns that ended with work left, because their budget was used up, all shards.
    #[must_use]
    pub fn cut_short(&self) -> u64 {
        sum(&self.shards, |shard| shard.cut_short)
    }

    /// Returns how many expired timers the executor gave back, on all shards.
    #[must_use]
    pub fn refused_by_executor(&self) -> u64 {
        sum(&self.shards, |shard| shard.refused_by_executor)
    }

    /// Returns the number of messages that no owner has looked at, all shards; see [`ShardStats::inbox`]. Those that a
    /// stopped engine has left unread stay in it.
    #[must_use]
    pub fn inbox(&self) -> u64 {
        sum(&self.shards, |shard| shard.inbox)
    }

    /// Returns the largest lag of all shards; see [`ShardStats::lag`].
    #[must_use]
    pub fn lag(&self) -> Duration {
        self.shards
            .iter()
            .map(|shard| shard.lag)
            .max()
            .unwrap_or_default()
    }

    /// Returns how late timers fired, all shards together.
    #[must_use]
    pub fn lateness(&self) -> DurationHistogram {
        let mut all = DurationHistogram::default();
        for shard in &self.shards {
            all.merge(&shard.lateness);
        }
        all
    }
}
