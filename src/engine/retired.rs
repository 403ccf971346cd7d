//! Engines without a `Timer` and without a worker, kept until their last handle is gone.
//!
//! A [`TimerHandle`](super::TimerHandle) needs its engine's memory, and must not count on a word that all threads
//! share. So each thread counts the handles that it has made and those that it has dropped, with plain stores, in its
//! own part of each shard. The sums are compared only when the engine has neither a `Timer` nor a worker any more. From
//! then on no handle is made, and the count of dropped ones only grows. Once the sums are equal, every handle has been
//! counted as dropped, which is the last thing a handle does with its engine.
//!
//! A handle that is dropped looks at nothing else. So an engine that is retired before its last handle is dropped is
//! freed later, when another engine is built or retired.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::lock::Mutex;
use std::sync::PoisonError;

/// Counts the `Timer`s of an engine: it ends with the last one, after all that was done through earlier ones. [P21]
#[derive(Default)]
pub(crate) struct TimerCount(AtomicUsize);

impl TimerCount {
    /// Counts one more, made from a counted `Timer` or lent by a worker; returns how many there were before.
    #[inline]
    pub(crate) fn add(&self) -> usize {
        // ORDERING: Relaxed: the maker of the reference has ordered what comes before; nothing is published.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts one more unless none is left; returns whether it did.
    pub(crate) fn add_to_others(&self) -> bool {
        // ORDERING: Relaxed, all: the caller's `EngineOwner` has ordered what comes before; nothing is published.
        let mut timers = self.0.load(Ordering::Relaxed);
        while timers > 0 {
            let (relaxed, more) = (Ordering::Relaxed, timers + 1);
            match self.0.compare_exchange_weak(timers, more, relaxed, relaxed) {
                Ok(_) => return true,
                Err(now) => timers = now,
            }
        }
        false
    }

    /// Counts one less; returns whether it was the last one.
    pub(crate) fn remove(&self) -> bool {
        // ORDERING: AcqRel. Release hands on what was done through this `Timer`; Acquire, of the last one, puts all of
        // it before the engine's end. [P21]
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// An engine without timers and workers, perhaps with handles. Dropping it frees it.
pub(crate) trait Retired {
    /// Returns how many handles were made and are not counted as dropped. At 0 no handle touches the engine any more.
    fn handles_left(&self) -> u64;
}

/// See the module.
pub(crate) struct RetiredEngines(Mutex<Vec<RetiredEngine>>);

/// A retired engine, of any payload.
pub(crate) type RetiredEngine = Box<dyn Retired + Send>;

impl RetiredEngines {
    #[cfg(not(tickwheel_loom))]
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    #[cfg(tickwheel_loom)]
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Takes the engine that has just been retired, if any, and frees all engines whose last handle is gone.
    pub(crate) fn collect(&self, retired: Option<RetiredEngine>) {
        let mut engines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        engines.extend(retired);
        let all = std::mem::take(&mut *engines);
        let (left, unused): (_, Vec<_>) = all.into_iter().partition(|it| it.handles_left() > 0);
        *engines = left;
        drop(engines);
        // Outside the lock: hooks and clocks are user code, and their destructors may retire engines themselves.
        drop(unused);
    }

    /// Returns how many engines wait for their handles.
    #[cfg(all(test, any(not(tickwheel_loom), tickwheel_epoch_stand_in)))]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
