//! Counts to be compared: what the producers counted, and what the engine's statistics say.

use tickwheel::Stats;

/// What the producers counted, all writers together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Timers the engine accepted, by the shard named in the key.
    pub(crate) accepted: Vec<u64>,
    /// Cancels won.
    pub(crate) cancelled: u64,
    /// Timers refused because too many were pending.
    pub(crate) refused_full: u64,
    /// Timers refused because the engine had stopped.
    pub(crate) refused_stopped: u64,
    /// Reschedules that moved their timer.
    pub(crate) rescheduled: u64,
}

impl Totals {
    /// Timers accepted on all shards.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.iter().sum()
    }

    /// Counts a timer accepted on `shard`.
    #[inline]
    pub(crate) fn accept(&mut self, shard: usize) {
        if shard >= self.accepted.len() {
            self.accepted.resize(shard + 1, 0);
        }
        self.accepted[shard] += 1;
    }

    /// Adds another producer's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        for (shard, count) in other.accepted.iter().enumerate() {
            if shard >= self.accepted.len() {
                self.accepted.resize(shard + 1, 0);
            }
            self.accepted[shard] += count;
        }
        self.cancelled += other.cancelled;
        self.refused_full += other.refused_full;
        self.refused_stopped += other.refused_stopped;
        self.rescheduled += other.rescheduled;
    }
}

/// The engine's own statistics after `stop`, to be held against the ledger.
#[derive(Clone, Debug, Default)]
pub(crate) struct EngineCounts {
    pub(crate) scheduled: Vec<u64>,
    pub(crate) fired: Vec<u64>,
    pub(crate) cancelled: u64,
    pub(crate) returned: u64,
    pub(crate) rescheduled: u64,
    pub(crate) rejected: u64,
    pub(crate) panics: u64,
    pub(crate) pending: u64,
}

impl From<&Stats> for EngineCounts {
    fn from(stats: &Stats) -> Self {
        Self {
            scheduled: stats.shards.iter().map(|shard| shard.scheduled).collect(),
            fired: stats.shards.iter().map(|shard| shard.fired).collect(),
            cancelled: stats.cancelled(),
            returned: stats.returned(),
            rescheduled: stats.shards.iter().map(|shard| shard.rescheduled).sum(),
            rejected: stats.rejected,
            panics: stats.panics(),
            pending: stats.pending,
        }
    }
}
