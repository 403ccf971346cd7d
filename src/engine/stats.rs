//! The state of an engine and its statistics.

use super::crew::status::EnginePhase;
use super::inner::Inner;
use crate::stats::{DurationHistogram, ShardStats};
use crate::sync::atomic::Ordering;
use std::time::Duration;

/// Where an engine stands.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{EngineState, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// assert_eq!(timer.state(), EngineState::Init);
/// timer.run_after(Duration::from_secs(5), || ())?;
/// assert_eq!(timer.state(), EngineState::Started);
/// timer.stop()?;
/// assert_eq!(timer.state(), EngineState::Stopped);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum EngineState {
    /// Built; the workers start with the first timer or with [`Timer::start`](crate::Timer::start).
    Init,
    /// Running.
    Started,
    /// Running, but a shard has ended by a panic, or because there was no thread for it: it refuses timers, and
    /// [`Stats`](crate::Stats) says why.
    Failed,
    /// Being shut down in a mode in which what is pending still fires, see [`Shutdown`](crate::Shutdown); new timers
    /// are refused.
    Draining,
    /// Stopped, which is final: by [`Timer::stop`](crate::Timer::stop) and the modes that return pending timers from
    /// the moment of the call, otherwise when the last shard has ended.
    Stopped,
    /// Started by another process, of which this one is a fork: the workers are not here.
    Forked,
}

impl EngineState {
    pub(super) fn of<T>(inner: &Inner<T>) -> Self {
        let failed = || inner.berths.iter().any(|it| it.failure().is_some());
        match inner.status.phase() {
            EnginePhase::Init if inner.status.is_forked() => Self::Forked,
            EnginePhase::Init => Self::Init,
            EnginePhase::Started if failed() => Self::Failed,
            EnginePhase::Started => Self::Started,
            EnginePhase::Draining | EnginePhase::Firing => Self::Draining,
            EnginePhase::Stopped => Self::Stopped,
        }
    }
}

/// A snapshot of an engine's counters; see [`Timer::stats`](crate::Timer::stats).
///
/// The counters of different shards are read one after the other, so sums are exact only when nothing is
/// going on. The figures have the names of [`ShardStats`], which says more of each; the sums are over all shards.
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
/// assert_eq!((stats.scheduled, stats.cancelled, stats.pending), (2, 1, 1));
/// println!(
///     "{} fired, {} returned, {} refused",
///     stats.fired, stats.returned, stats.rejected
/// );
/// println!(
///     "{} panics, {} refused by the executor",
///     stats.panics, stats.refused_by_executor
/// );
/// println!("{} sleeps, {} of them ended by a producer", stats.parks, stats.wakes);
/// println!(
///     "{} unread, {} turns cut short, {:?} behind",
///     stats.inbox, stats.cut_short, stats.lag
/// );
/// println!("lateness p99 {:?}", stats.lateness.percentile(99.0));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// One entry per shard; empty where there was no memory for it.
    pub shards: Vec<ShardStats>,
    /// Timers that were refused, for any [reason](crate::ScheduleErrorKind).
    pub rejected: u64,
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
    /// Handlers that panicked.
    pub panics: u64,
    /// Expired timers that the executor gave back.
    pub refused_by_executor: u64,
    /// Turns that ended with work left, because their budget was used up.
    pub cut_short: u64,
    /// Times a worker went to sleep.
    pub parks: u64,
    /// Sleeps that a producer ended early.
    pub wakes: u64,
    /// Messages that no owner has looked at. Those that a stopped engine has left unread stay in it.
    pub inbox: u64,
    /// The largest lag of all shards; see [`ShardStats::lag`].
    pub lag: Duration,
    /// How late timers fired.
    pub lateness: DurationHistogram,
}

impl Stats {
    pub(super) fn of<T>(inner: &Inner<T>) -> Self {
        let now = inner.source.now();
        // ORDERING: Relaxed: a statistic.
        let rejected = inner.rejected.load(Ordering::Relaxed);
        let mut all = Self {
            rejected,
            ..Self::default()
        };
        let has_room = all.shards.try_reserve_exact(inner.handles.len()).is_ok();
        for handle in inner.handles.iter() {
            let mut shard = handle.stats(&inner.rate, now);
            let berth = &inner.berths[shard.shard];
            shard.pinning = berth.pinning();
            shard.failure = berth.failure().cloned();
            all.add(&shard);
            if has_room {
                all.shards.push(shard);
            }
        }
        all
    }

    fn add(&mut self, shard: &ShardStats) {
        self.scheduled += shard.scheduled;
        self.fired += shard.fired;
        self.cancelled += shard.cancelled;
        self.returned += shard.returned;
        self.pending += shard.pending;
        self.panics += shard.panics;
        self.refused_by_executor += shard.refused_by_executor;
        self.cut_short += shard.cut_short;
        self.parks += shard.parks;
        self.wakes += shard.wakes;
        self.inbox += shard.inbox;
        self.lag = self.lag.max(shard.lag);
        self.lateness.merge(&shard.lateness);
    }
}
