//! A shard's seat: what is asked of it without a lock. Whether a `DrivenShard` has it, which thread turns it now, how
//! that thread or its task is woken, and why it has failed.

use crate::contain;
use crate::park::parker::Unparker;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::lock::RwLock;
use crate::sync::process::AtomicU64;
use crate::sync::thread;
use std::sync::{OnceLock, TryLockError};
use std::task::Waker;

/// See the module.
pub(crate) struct Seat {
    /// A `DrivenShard` has the shard, or waits for it. Written under the lock of the berths.
    driven: AtomicBool,
    task: TaskWaker,
    unparker: Unparker,
    /// The number of the thread that turns or ends the shard, and so may run its handlers; 0 for none.
    turned_by: AtomicU64,
    /// Why the shard has ended before its time.
    failure: OnceLock<String>,
}

impl Seat {
    pub(crate) fn new(unparker: Unparker) -> Self {
        Self {
            driven: AtomicBool::new(false),
            task: TaskWaker::default(),
            unparker,
            turned_by: AtomicU64::new(0),
            failure: OnceLock::new(),
        }
    }

    /// Wakes the shard's worker, if it sleeps; calls no code of the user's.
    pub(super) fn wake_worker(&self) {
        self.unparker.wake();
    }

    /// Wakes the shard's worker or task; returns whether that did not panic.
    pub(crate) fn wake(&self) -> bool {
        self.wake_worker();
        self.task.wake()
    }

    /// Lets `waker` be called from now on, also for a wake that was under way.
    pub(super) fn set_waker(&self, waker: &Waker) {
        self.task.set(waker);
    }

    /// Forgets the waker.
    pub(super) fn forget_waker(&self) {
        self.task.forget();
    }

    /// Returns whether a `DrivenShard` has the shard, or waits for it.
    #[inline]
    pub(super) fn is_driven(&self) -> bool {
        // ORDERING: Relaxed: written before a turn is requested, and a worker reads it after a turn; others hold the
        // lock.
        self.driven.load(Ordering::Relaxed)
    }

    pub(super) fn set_driven(&self, driven: bool) {
        // ORDERING: Relaxed: as above.
        self.driven.store(driven, Ordering::Relaxed);
    }

    /// Notes why the shard ends before its time; the first reason stays.
    pub(super) fn fail(&self, message: String) {
        let _ = self.failure.set(message);
    }

    /// Returns why the shard has ended before its time, if it has.
    pub(crate) fn failure(&self) -> Option<&String> {
        self.failure.get()
    }

    /// Marks the calling thread as the one that turns or ends the shard, until the answer is dropped: after a panic has
    /// been caught, because what it carries is the user's, too.
    pub(super) fn enter(&self) -> Inside<'_> {
        // ORDERING: Relaxed, here and below: a thread asks for its own number only, which it has written itself.
        let before = self.turned_by.swap(thread::number(), Ordering::Relaxed);
        Inside { seat: self, before }
    }

    /// Returns whether the calling thread turns or ends the shard: its handlers and destructors may be what calls.
    pub(crate) fn is_inside(&self) -> bool {
        // ORDERING: Relaxed: as in `enter`.
        self.turned_by.load(Ordering::Relaxed) == thread::number()
    }
}

/// See [`Seat::enter`]. A thread may enter the same seat again inside of that.
pub(super) struct Inside<'a> {
    seat: &'a Seat,
    before: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed: as in `enter`.
        self.seat.turned_by.store(self.before, Ordering::Relaxed);
    }
}

/// The waker of the task that turns a driven shard.
///
/// Nobody waits here, and no wake relies on another thread's, which may have stopped before its call: each clones the
/// waker and calls its own clone. The lock is only ever tried.
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
    use crate::park::parker::Parker;
    use std::sync::Arc;
    use std::task::Wake;

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

    #[test]
    fn a_thread_is_inside_of_as_many_engines_as_it_turns() {
        let seats: Vec<_> = (0..20).map(|_| Seat::new(Parker::new().1)).collect();
        let inside = || seats.iter().filter(|seat| seat.is_inside()).count();
        let mut scopes: Vec<_> = seats.iter().map(Seat::enter).collect();
        assert_eq!(inside(), 20);
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| seats.iter().any(Seat::is_inside));
            assert!(!elsewhere.join().unwrap(), "another thread");
        });
        drop(seats[3].enter());
        assert_eq!(
            inside(),
            20,
            "twice inside of the fourth, and once out of it"
        );
        scopes.remove(7);
        assert_eq!((inside(), seats[7].is_inside()), (19, false));
        drop(scopes);
        assert_eq!(inside(), 0);
    }
}
