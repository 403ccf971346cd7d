//! Counters: one writer, any number of readers.

use super::histogram::Recorder;
use crate::sync::atomic::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// A number with one writer and any number of readers.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`, wrapping, and returns the new value. Single writer.
    #[inline]
    pub(crate) fn add(&self, n: u64) -> u64 {
        // ORDERING: Relaxed: only this thread writes.
        let value = self.0.load(Ordering::Relaxed).wrapping_add(n);
        self.set(value);
        value
    }

    /// Sets the value. Single writer.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        // ORDERING: Release pairs with the Acquire in `get`. A reader of an end (fired, cancelled) and then a beginning
        // (scheduled) sees the beginning [P11]. A thread that sees a handle counted as dropped is behind everything
        // that was done through it [P20].
        self.0.store(value, Ordering::Release);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // ORDERING: Acquire pairs with `set` [P11], [P20].
        self.0.load(Ordering::Acquire)
    }
}

/// The owner's counters, on lines of their own.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) fired: CachePadded<Counter>,
    /// Timers that `stop` returned.
    pub(crate) returned: Counter,
    /// Entries in the wheel, as of the last turn.
    pub(crate) entries: Counter,
    /// Bytes held by the wheel and by the owner's own timers, as of the last turn.
    pub(crate) owner_bytes: Counter,
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
    /// The next tick, inverted, so that it begins with never.
    next_tick: Counter,
    pub(crate) parks: Counter,
    /// Parks that a producer ended.
    pub(crate) wakes: Counter,
    pub(crate) panics: Counter,
    pub(crate) refused_by_executor: Counter,
    pub(crate) lateness: Recorder,
    /// How long handlers ran, where the engine measures it.
    pub(crate) handler_time: Recorder,
}

impl Counters {
    /// Returns the next tick at which there is something to do, as of the last turn; `u64::MAX` for never.
    pub(crate) fn next_tick(&self) -> u64 {
        !self.next_tick.get()
    }

    pub(crate) fn set_next_tick(&self, tick: u64) {
        self.next_tick.set(!tick);
    }
}
