//! The owner's counters. One writer (the owner), any readers; on lines of their own.

use super::handle::Counter;
use super::histogram::Recorder;
use crossbeam_utils::CachePadded;

/// All counters of a shard.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) fired: CachePadded<Counter>,
    /// Timers that `stop` returned.
    pub(crate) returned: Counter,
    /// Entries in the wheel, as of the last turn.
    pub(crate) entries: Counter,
    /// Bytes held by the wheel, as of the last turn.
    pub(crate) wheel_bytes: Counter,
    /// Zombies removed by sweeps.
    pub(crate) swept: Counter,
    /// Zombies dropped because they came due.
    pub(crate) dropped: Counter,
    /// Messages that were dead when they were drained: they never reached the wheel.
    pub(crate) cancelled_in_inbox: Counter,
    pub(crate) turns: Counter,
    /// Turns that ended with work left.
    pub(crate) cut_short: Counter,
    /// Messages taken out of the inbox.
    pub(crate) drained: Counter,
    /// The earliest tick at which there is something to do, as of the last turn, inverted: zero is never.
    pub(crate) next: Counter,
    pub(crate) parks: Counter,
    /// Parks that a producer ended.
    pub(crate) wakes: Counter,
    pub(crate) panics: Counter,
    pub(crate) refused_by_executor: Counter,
    /// How the worker is pinned, packed by the engine.
    pub(crate) pinning: Counter,
    pub(crate) lateness: Recorder,
    /// How long handlers ran, where the engine measures it.
    pub(crate) handler_time: Recorder,
}
