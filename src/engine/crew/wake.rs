//! How the thread or the task is woken that turns a shard.

use crate::contain;
use crate::park::parker::Unparker;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::lock::RwLock;
use crate::sync::process;
use crate::time::{MonotonicClock, Time};
use std::sync::TryLockError;
use std::task::Waker;
use std::time::Duration;

/// Wakes a shard's worker, and the task of its `DrivenShard`.
#[derive(Default)]
pub(crate) struct TurnWaker {
    /// For the parker of the worker's thread.
    pub(super) worker: Unparker,
    /// When the worker was woken last, in nanoseconds of the machine's clock. Not for models: a figure.
    woken_at: process::AtomicU64,
    task: TaskWaker,
}

impl TurnWaker {
    /// Wakes the worker, if it sleeps, and notes when; calls no code of the user's. A shard that a task turns may have no
    /// worker: then it costs neither a look at the clock nor a call of the system.
    pub(super) fn wake_worker(&self) {
        self.worker.wake(|| {
            let now = MonotonicClock::new().now();
            // ORDERING: Relaxed, also the load: a figure.
            self.woken_at
                .store(now.as_nanos(), process::Ordering::Relaxed);
        });
    }

    /// Returns how long ago the worker was woken, if that was after `slept_from`, when its sleep began.
    pub(super) fn woken_ago(&self, slept_from: Time) -> Option<Duration> {
        // ORDERING: Relaxed: as in `wake_worker`.
        let woken_at = Time::from_nanos(self.woken_at.load(process::Ordering::Relaxed));
        if woken_at <= slept_from {
            return None;
        }
        Some(
            MonotonicClock::new()
                .now()
                .saturating_duration_since(woken_at),
        )
    }

    /// Wakes the worker and the task; returns whether that did not panic.
    pub(crate) fn wake(&self) -> bool {
        self.wake_worker();
        self.task.wake()
    }

    /// Lets `waker` be called from now on, also for a wake that was under way.
    pub(super) fn set_task(&self, waker: &Waker) {
        self.task.set(waker);
    }

    /// Forgets the task's waker.
    pub(super) fn forget_task(&self) {
        self.task.forget();
    }
}

/// The waker of the task that turns a driven shard.
///
/// No thread waits here, and no wake relies on another thread's, which may have stopped before its call: each clones
/// the waker and calls its own clone. The lock is only ever tried.
#[derive(Default)]
pub(crate) struct TaskWaker {
    waker: RwLock<Option<Waker>>,
    /// A wake has found that the waker was being replaced.
    missed: AtomicBool,
}

impl TaskWaker {
    /// Returns a clone of the waker; `None` while it is being replaced, an error if its `Clone` panicked.
    fn get(&self) -> Option<Result<Option<Waker>, ()>> {
        let waker = match self.waker.try_read() {
            Ok(waker) => waker,
            Err(TryLockError::Poisoned(waker)) => waker.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(contain::catch_and_log(WHAT, || waker.clone()).ok_or(()))
    }

    /// Wakes the task; returns whether its waker did not panic.
    pub(crate) fn wake(&self) -> bool {
        let found = self.get().or_else(|| {
            // ORDERING: AcqRel, pairs with the one in `set`: either that sees the flag and wakes, or this sees that the
            // waker has been replaced. [P41]
            self.missed.swap(true, Ordering::AcqRel);
            self.get()
        });
        match found {
            Some(Ok(Some(waker))) => contain::catch_and_log(WHAT, || waker.wake()).is_some(),
            Some(Err(())) => false,
            // Without a task there is none to wake, and who replaces the waker sees the flag.
            Some(Ok(None)) | None => true,
        }
    }

    pub(crate) fn set(&self, waker: &Waker) {
        if let Ok(present) = self.waker.try_read() {
            if present.as_ref().is_some_and(|it| it.will_wake(waker)) {
                return;
            }
        }
        // Of the user's, and before anything is done.
        let mut other = Some(waker.clone());
        let replaced = self.replace(&mut other);
        // ORDERING: AcqRel, as in `wake`. [P41]
        let missed = self.missed.swap(false, Ordering::AcqRel);
        if missed || !replaced {
            // A wake is under way, and may have got hold of the waker before.
            contain::catch_and_log(WHAT, || waker.wake_by_ref());
        }
        contain::drop_quietly(WHAT, other);
    }

    fn forget(&self) {
        let mut none = None;
        // Where a wake holds the waker it stays until the next one takes its place.
        self.replace(&mut none);
        contain::drop_quietly(WHAT, none);
    }

    /// Exchanges the wakers, unless a wake is looking at the present one; returns whether it has.
    fn replace(&self, other: &mut Option<Waker>) -> bool {
        match self.waker.try_write() {
            Ok(mut present) => std::mem::swap(&mut *present, other),
            Err(TryLockError::Poisoned(present)) => {
                std::mem::swap(&mut *present.into_inner(), other);
            }
            Err(TryLockError::WouldBlock) => return false,
        }
        true
    }
}

const WHAT: &str = "the waker of a driven shard";

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::park::parker::{ParkEnd, Parker};
    use std::sync::Arc;
    use std::task::Wake;

    /// A driven shard of an engine that has not started is woken for each timer that is earlier than all others.
    #[test]
    fn a_wake_where_no_worker_sleeps_reads_no_clock_and_calls_no_kernel() {
        let waker = TurnWaker::default();
        for _ in 0..3 {
            assert!(waker.wake());
        }
        assert_eq!(waker.woken_ago(Time::ZERO), None, "the stamp of a wake");
        let mut parker = Parker::of(&waker.worker);
        assert_eq!(parker.sleep(None), ParkEnd::Woken, "the next sleep");
    }

    /// While a wake looks at the present waker.
    #[test]
    fn a_waker_that_panics_is_contained_where_it_takes_no_place() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("a waker");
            }
        }
        let task = TaskWaker::default();
        let looking = task.waker.read().unwrap();
        task.set(&Waker::from(Arc::new(Panics)));
        assert!(looking.is_none());
    }
}
