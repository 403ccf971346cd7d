//! A shard's berth: there a thread turns the shard, and takes it out once.
//!
//! The thread that holds a berth's lock turns its shard: the worker, a `DrivenShard`'s, or a caller by hand. A worker
//! lets go while it sleeps. The thread that ends the shard takes it out, and ends it without the lock. So a thread that
//! stops in a turn keeps its own shard and no other.

use super::wake::TurnWaker;
use crate::contain;
use crate::engine::inner::{Berth, ShardWorker};
use crate::stats::{Counter, PinState};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sync::thread;
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};

/// The lock of a berth: where the shard lies, if no thread has taken it out.
pub(super) type Place<'a, T> = MutexGuard<'a, Option<ShardWorker<T>>>;

impl<T> Berth<T> {
    pub(in crate::engine) fn new(shard: ShardWorker<T>, waker: Arc<TurnWaker>) -> Self {
        Self {
            shard: Mutex::new(Some(shard)),
            waker,
            standing: Arc::default(),
            has_worker: AtomicBool::new(false),
            turned_by: AtomicU64::new(0),
            failure: OnceLock::new(),
            pinning: Counter::default(),
        }
    }

    /// Waits until no other thread turns the shard, and lets the caller do so, or take it out to end it.
    pub(super) fn lock(&self) -> Place<'_, T> {
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the caller turn the shard, or take it out, unless another thread turns it.
    pub(super) fn try_lock(&self) -> Option<Place<'_, T>> {
        match self.shard.try_lock() {
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(place)) => Some(place.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Turns the shard in its place, and gives that free; `None` if it was taken out. If the turn panics, notes why, and
    /// takes the shard out for the caller to end it.
    pub(super) fn turn<R>(
        &self,
        mut place: Place<'_, T>,
        turn: impl FnOnce(&mut ShardWorker<T>) -> R,
    ) -> Option<Result<R, ShardWorker<T>>> {
        let shard = place.as_mut()?;
        let inside = self.enter();
        let turned = contain::call(|| turn(shard));
        drop(inside);
        match turned {
            Ok(turned) => Some(Ok(turned)),
            Err(message) => {
                self.fail(message.into());
                place.take().map(Err)
            }
        }
    }

    /// Returns whether a worker's thread exists for the shard.
    pub(super) fn has_worker(&self) -> bool {
        // ORDERING: Relaxed: written under the engine's lock before its phase, which the caller has read, or under the
        // caller's.
        self.has_worker.load(Ordering::Relaxed)
    }

    pub(super) fn set_worker(&self, has_worker: bool) {
        // ORDERING: Relaxed: as above.
        self.has_worker.store(has_worker, Ordering::Relaxed);
    }

    /// Notes why the shard ends before its time; the first reason stays.
    pub(super) fn fail(&self, message: Arc<str>) {
        let _ = self.failure.set(message);
    }

    /// Returns why the shard has ended before its time, if it has.
    pub(in crate::engine) fn failure(&self) -> Option<&Arc<str>> {
        self.failure.get()
    }

    /// Notes how the calling thread, the worker, is pinned.
    pub(super) fn set_pinning(&self, pinning: PinState) {
        self.pinning.set(pinning.pack());
    }

    pub(in crate::engine) fn pinning(&self) -> PinState {
        PinState::unpack(self.pinning.get())
    }

    /// Marks the calling thread as the one that turns or ends the shard, until the answer is dropped: after a panic has
    /// been caught, because what it carries is the user's, too.
    pub(super) fn enter(&self) -> Inside<'_> {
        // ORDERING: Relaxed: a thread that has seen what the turn did to a timer sees this, which comes before.
        let before = self.turned_by.swap(thread::number(), Ordering::Relaxed);
        Inside {
            turned_by: &self.turned_by,
            before,
        }
    }

    /// Returns whether a thread turns or ends the shard.
    pub(in crate::engine) fn is_turning(&self) -> bool {
        // ORDERING: Acquire pairs with the drop of `Inside`: what the turn did is seen when it is over. [P47]
        self.turned_by.load(Ordering::Acquire) != 0
    }

    /// Returns whether the calling thread turns or ends the shard: its handlers and destructors may be what calls.
    pub(in crate::engine) fn is_inside(&self) -> bool {
        // ORDERING: Relaxed: a thread asks for its own number only, which it has written itself.
        self.turned_by.load(Ordering::Relaxed) == thread::number()
    }
}

/// See [`Berth::enter`]. A thread may enter the same berth again inside of that.
pub(super) struct Inside<'a> {
    turned_by: &'a AtomicU64,
    before: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // ORDERING: Release pairs with `is_turning`. [P47]
        self.turned_by.store(self.before, Ordering::Release);
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use crate::{Builder, Drive, Timer};

    #[test]
    fn a_thread_is_inside_of_as_many_engines_as_it_turns() {
        let engines: Vec<Timer> = (0..20)
            .map(|_| {
                Builder::new()
                    .shards(1)
                    .drive(Drive::Manual)
                    .build()
                    .unwrap()
            })
            .collect();
        let berths: Vec<_> = engines.iter().map(|it| &it.inner.berths[0]).collect();
        let inside = || berths.iter().filter(|berth| berth.is_inside()).count();
        let mut scopes: Vec<_> = berths.iter().map(|berth| berth.enter()).collect();
        assert_eq!(inside(), 20);
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| engines.iter().any(|it| it.inner.is_inside()));
            assert!(!elsewhere.join().unwrap(), "another thread");
        });
        drop(berths[3].enter());
        assert_eq!(
            inside(),
            20,
            "twice inside of the fourth, and once out of it"
        );
        scopes.remove(7);
        assert_eq!((inside(), berths[7].is_inside()), (19, false));
        drop(scopes);
        assert_eq!(inside(), 0);
    }
}
