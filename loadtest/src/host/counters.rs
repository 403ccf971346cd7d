//! What the loops count, and its sum.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a loop has counted. Only its own thread writes.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) closed_idle: AtomicU64,
    pub(super) closed_by_peer: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) heartbeats: AtomicU64,
    pub(super) echoed: AtomicU64,
    pub(super) latest_close_ns: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64, more: u64) {
    // ORDERING: Relaxed: a figure for reports; nothing is read because of it.
    counter.fetch_add(more, Ordering::Relaxed);
}

/// What the server has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Stats {
    /// Connections taken over by a loop.
    pub(super) accepted: u64,
    /// Connections closed because nothing moved on them.
    pub(super) closed_idle: u64,
    /// Connections that the peer closed or the network broke.
    pub(super) closed_by_peer: u64,
    /// Connections turned away because a resource was exhausted.
    pub(super) refused: u64,
    /// Heartbeats sent.
    pub(super) heartbeats: u64,
    /// Bytes read, each of which is sent back.
    pub(super) echoed: u64,
    /// How late the latest of the idle connections was closed.
    pub(super) latest_close: Duration,
}

impl Stats {
    /// Connections that are open.
    #[cfg(test)]
    pub(super) fn open(&self) -> u64 {
        self.accepted - self.closed_idle - self.closed_by_peer
    }

    pub(super) fn add(&mut self, counters: &Counters) {
        // ORDERING: Relaxed: see `count`. What ends a connection is read first: `open` is never negative.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.closed_idle += read(&counters.closed_idle);
        self.closed_by_peer += read(&counters.closed_by_peer);
        self.accepted += read(&counters.accepted);
        self.refused += read(&counters.refused);
        self.heartbeats += read(&counters.heartbeats);
        self.echoed += read(&counters.echoed);
        let latest = Duration::from_nanos(read(&counters.latest_close_ns));
        self.latest_close = self.latest_close.max(latest);
    }
}
