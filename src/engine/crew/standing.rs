//! The state of a shard beside its berth's lock: whether a task drives it, which calls of `wait_idle` it has answered,
//! and whether it has ended.
//!
//! A worker keeps this longer than the engine: its last step tells that it keeps nothing else.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::lock::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Default)]
pub(crate) struct Standing {
    /// A `DrivenShard` has the shard, or waits for its worker's turn to be over. Written under the engine's lock, too.
    driven: AtomicBool,
    /// How many calls of `wait_idle` the shard has answered. Written by the thread that turns it.
    answered: AtomicU64,
    /// How far the shard is in its end. A thread has this lock while it changes anything that another one waits for.
    end: Mutex<End>,
    changed: Condvar,
}

/// How far a shard is in its end.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    #[default]
    Ahead,
    /// It refuses timers and fires none. The thread that ends it may be at that yet.
    Ended,
    /// And that thread keeps nothing of the engine any more.
    Gone,
}

impl Standing {
    fn lock(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `f` says so of the shard's end, up to `until`; returns whether `f` says so no more.
    fn wait_while(&self, until: Option<Instant>, f: impl Fn(End) -> bool) -> bool {
        let mut end = self.lock();
        while f(*end) {
            let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
            if rest == Some(Duration::ZERO) {
                return false;
            }
            // A wait that ends early begins again.
            let waited = self
                .changed
                .wait_timeout(end, rest.unwrap_or(Duration::MAX));
            end = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn set(&self, end: End) {
        *self.lock() = end;
        self.changed.notify_all();
    }

    /// Notes that the shard refuses timers, or is about to, and fires none.
    pub(super) fn set_ended(&self) {
        self.set(End::Ended);
    }

    /// Notes that the thread that has ended the shard keeps nothing of the engine any more.
    pub(super) fn set_gone(&self) {
        self.set(End::Gone);
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.lock() >= End::Ended
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.lock() == End::Gone
    }

    /// Waits until the shard is gone, up to `until`; returns whether it is.
    pub(super) fn await_end(&self, until: Option<Instant>) -> bool {
        self.wait_while(until, |end| end != End::Gone)
    }

    /// Returns whether a `DrivenShard` has the shard, or waits for it.
    #[inline]
    pub(super) fn is_driven(&self) -> bool {
        // ORDERING: Relaxed: a claim requests a turn, and a worker asks after a turn; others hold a lock.
        self.driven.load(Ordering::Relaxed)
    }

    pub(super) fn set_driven(&self, driven: bool) {
        let _end = self.lock();
        // ORDERING: Relaxed: as above.
        self.driven.store(driven, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Waits, as the shard's worker, for as long as a `DrivenShard` has it.
    pub(super) fn await_release(&self) {
        self.wait_while(None, |end| self.is_driven() && end == End::Ahead);
    }

    /// Notes, after a turn that leaves nothing to do, that all is handled that was due for the first `calls` calls.
    pub(super) fn answer_idle(&self, calls: u64) {
        // ORDERING: Relaxed: written by the thread that turns the shard, which is this one.
        if self.answered.load(Ordering::Relaxed) == calls {
            return;
        }
        let _end = self.lock();
        // ORDERING: Relaxed: the lock orders it.
        self.answered.store(calls, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Waits until the shard has answered the first `calls` calls, or has ended.
    pub(super) fn await_idle(&self, calls: u64) {
        // ORDERING: Relaxed: the lock orders it.
        let is_awaited = |end| end == End::Ahead && self.answered.load(Ordering::Relaxed) < calls;
        self.wait_while(None, is_awaited);
    }
}
