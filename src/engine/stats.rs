//! What the engine counts.

use super::inner::Inner;
use crate::shard::ShardHandle;
use crate::shard::lateness::LatenessHistogram;
use crate::sync::atomic::Ordering;

/// A snapshot of an engine's counters; see [`Timer::stats`](crate::Timer::stats).
///
/// The counters of different shards are read one after the other, so sums are exact only when nothing is
/// going on.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// One entry per shard.
    pub shards: Vec<ShardStats>,
    /// Timers that were refused: engine stopped, limit reached, workers not startable.
    pub rejected: u64,
    /// Timers pending.
    pub pending: u64,
}

/// The counters of one shard.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ShardStats {
    /// The shard's number.
    pub shard: usize,
    /// The core that its worker is pinned to; `None` if it is not.
    pub pinned: Option<usize>,
    /// Timers accepted.
    pub scheduled: u64,
    /// Timers fired.
    pub fired: u64,
    /// Timers cancelled.
    pub cancelled: u64,
    /// Timers returned by `stop`.
    pub returned: u64,
    /// Timers pending.
    pub pending: u64,
    /// Deadlines moved.
    pub rescheduled: u64,
    /// Handlers that panicked.
    pub panics: u64,
    /// Expired timers that the executor gave back.
    pub refused_by_executor: u64,
    /// Turns made.
    pub turns: u64,
    /// Times the worker went to sleep.
    pub parks: u64,
    /// Sleeps that a producer ended early.
    pub wakes: u64,
    /// Entries in the wheel after the last turn, zombies included.
    pub entries: u64,
    /// Bytes that nodes, magazines and wheel have allocated, used or not.
    pub held_bytes: u64,
    /// Entries in the wheel beyond the pending timers: zombies that lie there now (a lower bound while
    /// pending timers lie in the inbox).
    pub zombies: u64,
    /// Zombies that sweeps have removed.
    pub swept: u64,
    /// Zombies that were dropped when they came due.
    pub dropped: u64,
    /// Cancelled timers that never reached the wheel.
    pub cancelled_in_inbox: u64,
    /// How late timers fired.
    pub lateness: LatenessHistogram,
}

impl Stats {
    pub(super) fn of<T>(inner: &Inner<T>) -> Self {
        let shards: Vec<_> =
            inner.handles.iter().enumerate().map(|(n, handle)| ShardStats::of(n, handle)).collect();
        Self {
            pending: shards.iter().map(|shard| shard.pending).sum(),
            // ORDERING: Relaxed: a statistic.
            rejected: inner.rejected.load(Ordering::Relaxed),
            shards,
        }
    }

    fn sum(&self, of: impl Fn(&ShardStats) -> u64) -> u64 {
        self.shards.iter().map(of).sum()
    }

    /// Timers accepted, all shards.
    #[must_use]
    pub fn scheduled(&self) -> u64 {
        self.sum(|shard| shard.scheduled)
    }

    /// Timers fired, all shards.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.sum(|shard| shard.fired)
    }

    /// Timers cancelled, all shards.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.sum(|shard| shard.cancelled)
    }

    /// Timers returned by `stop`, all shards.
    #[must_use]
    pub fn returned(&self) -> u64 {
        self.sum(|shard| shard.returned)
    }

    /// Handlers that panicked, all shards.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.sum(|shard| shard.panics)
    }

    /// Sleeps that a producer ended early, all shards.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.sum(|shard| shard.wakes)
    }

    /// Sleeps, all shards.
    #[must_use]
    pub fn parks(&self) -> u64 {
        self.sum(|shard| shard.parks)
    }

    /// How late timers fired, all shards together.
    #[must_use]
    pub fn lateness(&self) -> LatenessHistogram {
        let mut all = LatenessHistogram::default();
        for shard in &self.shards {
            all.merge(&shard.lateness);
        }
        all
    }
}

impl ShardStats {
    fn of<T>(shard: usize, handle: &ShardHandle<T>) -> Self {
        let counters = handle.counters();
        let entries = counters.entries.get();
        let sums = handle.sums();
        let pending = sums.pending();
        Self {
            shard,
            pinned: counters
                .pinned
                .get()
                .checked_sub(1)
                .and_then(|core| usize::try_from(core).ok()),
            scheduled: sums.scheduled,
            fired: sums.fired,
            cancelled: sums.cancelled,
            returned: sums.returned,
            pending,
            rescheduled: handle.moved(),
            panics: counters.panics.get(),
            refused_by_executor: counters.refused_by_executor.get(),
            turns: counters.turns.get(),
            parks: counters.parks.get(),
            wakes: counters.wakes.get(),
            entries,
            held_bytes: handle.held_bytes(),
            zombies: entries.saturating_sub(pending),
            swept: counters.swept.get(),
            dropped: counters.dropped.get(),
            cancelled_in_inbox: counters.cancelled_in_inbox.get(),
            lateness: counters.lateness.snapshot(),
        }
    }
}
