//! The owner's counters. One writer (the owner), any readers; on lines of their own.

use super::histogram::Recorder;
use super::thread_state::Counter;
use crossbeam_utils::CachePadded;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) fired: CachePadded<Counter>,
    /// Timers that `stop` returned.
    pub(crate) returned: Counter,
    /// Entries in the wheel, as of the last turn.
    pub(crate) entries: Gauge,
    /// Bytes held by the wheel, as of the last turn.
    pub(crate) wheel_bytes: Gauge,
    /// Zombies removed by sweeps.
    pub(crate) swept: Gauge,
    /// Zombies dropped because they came due.
    pub(crate) dropped: Gauge,
    /// Messages that were dead when they were drained: they never reached the wheel.
    pub(crate) cancelled_in_inbox: Counter,
    pub(crate) turns: Counter,
    /// Turns that ended with work left.
    pub(crate) cut_short: Counter,
    /// Messages taken out of the inbox.
    pub(crate) drained: Counter,
    /// The earliest tick at which there is something to do, as of the last turn, inverted: zero is never.
    pub(crate) next: Gauge,
    pub(crate) parks: Counter,
    /// Parks that a producer ended.
    pub(crate) wakes: Counter,
    pub(crate) panics: Counter,
    pub(crate) refused_by_executor: Counter,
    /// How the worker is pinned, packed by the engine.
    pub(crate) pinning: Gauge,
    pub(crate) lateness: Recorder,
    /// How long handlers ran, where the engine measures it.
    pub(crate) handler_time: Recorder,
}

/// A value with one writer.
#[derive(Debug, Default)]
pub(crate) struct Gauge(crate::sync::atomic::AtomicU64);

impl Gauge {
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        // ORDERING: Relaxed: a report and a hint for the zombie bound; nothing is read through it.
        self.0.store(value, crate::sync::atomic::Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // ORDERING: Relaxed: as above.
        self.0.load(crate::sync::atomic::Ordering::Relaxed)
    }
}
