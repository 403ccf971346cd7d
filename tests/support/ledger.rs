//! Exactly once: how often each timer began and how it ended, and how many payloads there are, kept apart
//! from the counters of what is under test.
//!
//! Plain std atomics, so that loom does not branch on them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The ends of a timer, and its beginning: each has a part of a line's word to itself, so that one addition
/// counts it.
const BEGUN: u64 = 1;
const FIRED: u64 = 1 << 12;
const CANCELLED: u64 = 1 << 24;
const RETURNED: u64 = 1 << 36;
const REFUSED: u64 = 1 << 48;

/// The totals of a ledger that has been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) returned: u64,
    pub(crate) refused: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ledger {
    lines: Box<[AtomicU64]>,
    alive: AtomicU64,
}

impl Ledger {
    /// For timers with the numbers `0..timers`, none of which has begun.
    pub(crate) fn new(timers: u64) -> Arc<Self> {
        Self::with(timers, 0)
    }

    /// For timers with the numbers `0..timers`, each of which begins.
    pub(crate) fn all_begun(timers: u64) -> Arc<Self> {
        Self::with(timers, BEGUN)
    }

    /// For counting payloads only.
    pub(crate) fn of_payloads() -> Arc<Self> {
        Self::with(0, 0)
    }

    fn with(timers: u64, line: u64) -> Arc<Self> {
        let lines = (0..timers).map(|_| AtomicU64::new(line)).collect();
        Arc::new(Self {
            lines,
            alive: AtomicU64::new(0),
        })
    }

    fn note(&self, id: u64, what: u64) {
        self.lines[id as usize].fetch_add(what, Ordering::Relaxed);
    }

    /// Timer `id` is about to be scheduled, with this payload.
    pub(crate) fn begin(self: &Arc<Self>, id: u64) -> Payload {
        self.note(id, BEGUN);
        self.payload(id)
    }

    pub(crate) fn fired(&self, id: u64) {
        self.note(id, FIRED);
    }

    pub(crate) fn cancelled(&self, id: u64) {
        self.note(id, CANCELLED);
    }

    pub(crate) fn returned(&self, id: u64) {
        self.note(id, RETURNED);
    }

    pub(crate) fn refused(&self, id: u64) {
        self.note(id, REFUSED);
    }

    /// What was accepted and has not ended went with its engine, which hands nothing back when it is dropped.
    pub(crate) fn return_the_rest(&self) {
        for line in &self.lines {
            // Nobody else writes any more: the engine is gone.
            if line.load(Ordering::Relaxed) == BEGUN {
                line.fetch_add(RETURNED, Ordering::Relaxed);
            }
        }
    }

    /// How timer `id` ended; `None` if it never began. Panics unless it began and ended once, or not at all.
    #[track_caller]
    pub(crate) fn end_of(&self, id: u64) -> Option<Ends> {
        let mut end = Ends::default();
        let line = self.lines[id as usize].load(Ordering::Relaxed);
        match line.wrapping_sub(BEGUN) {
            FIRED => end.fired = 1,
            CANCELLED => end.cancelled = 1,
            RETURNED => end.returned = 1,
            REFUSED => end.refused = 1,
            0 => panic!("timer {id} was lost"),
            _ if line == 0 => return None,
            _ => panic!("timer {id} began or ended more than once: {line:#x}"),
        }
        Some(end)
    }

    /// Every timer that has begun has ended exactly once.
    #[track_caller]
    pub(crate) fn check(&self) -> Ends {
        let mut all = Ends::default();
        for id in 0..self.lines.len() as u64 {
            if let Some(end) = self.end_of(id) {
                all.fired += end.fired;
                all.cancelled += end.cancelled;
                all.returned += end.returned;
                all.refused += end.refused;
            }
        }
        all
    }

    /// One more payload.
    pub(crate) fn payload(self: &Arc<Self>, id: u64) -> Payload {
        self.alive.fetch_add(1, Ordering::Relaxed);
        Payload {
            id,
            whole: Box::new(id),
            ledger: Arc::clone(self),
        }
    }

    /// Payloads that have not been dropped.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed) as usize
    }

    /// Waits for threads that drop payloads in their own time, as workers do whose engine is gone.
    pub(crate) fn wait_until_all_dropped(&self) {
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while self.alive() > 0 && std::time::Instant::now() < patience {
            std::thread::yield_now();
        }
        self.assert_all_dropped();
    }

    #[track_caller]
    pub(crate) fn assert_all_dropped(&self) {
        assert_eq!(self.alive(), 0, "payloads are left");
    }
}

/// A payload that knows whether it was dropped, and whether it is whole.
pub(crate) struct Payload {
    id: u64,
    whole: Box<u64>,
    ledger: Arc<Ledger>,
}

impl Payload {
    pub(crate) fn id(&self) -> u64 {
        assert_eq!(
            self.id, *self.whole,
            "a payload that was not written completely"
        );
        self.id
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        self.ledger.payload(self.id())
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let before = self.ledger.alive.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "payload {} is dropped a second time", self.id);
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({})", self.id)
    }
}
