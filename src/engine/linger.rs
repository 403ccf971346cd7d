//! When an engine's memory may go although handles were left: counts per thread, and a shelf for what lingers.
//!
//! A [`Timeout`](super::Timeout) needs its engine's memory, and must not count on a word that all threads share. So
//! each thread counts the handles that it has made and those that it has dropped, with plain stores, in its own part of
//! each shard. The sums are looked at only when no `Timer` and no worker is left. From then on no handle is made, and
//! the count of dropped ones only grows: once the sums are equal, every handle has been counted as dropped, which is
//! the last thing a handle does with its engine.
//!
//! ```text
//!   a handle that is dropped                     the last Timer or worker that goes
//!   ------------------------                     ----------------------------------
//!   let go of the node                           put the engine on the shelf: lingering += 1
//!   count it (own word, Release)                 heavy fence
//!   light fence                                  add up the counts (Acquire); equal: free the engine
//!   lingering > 0? then look at the shelf
//! ```
//!
//! Of the two, at least one sees what the other wrote: either the sum has the handle, or the handle sees that an
//! engine lingers, and adds up anew under the shelf's lock. Shelves are immortal, so the look is allowed when the
//! engine is gone. There are a few of them, picked by the engine's number, so that a handle which is kept for ever
//! does not make every other handle's end take the lock.
//!
//! The handles of a lingering engine would each add up all threads. They do not: if `n` handles are missing in a sum,
//! at least `n` more visits will come, so the next sum is due at the `n`-th.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::fence;
use crate::sync::lock::Mutex;
use std::sync::PoisonError;

/// How many `Timer`s share an engine: with the last one it ends, after all that was done through any [P21].
#[derive(Debug, Default)]
pub(crate) struct TimerCount(AtomicUsize);

impl TimerCount {
    /// One more, made from a `Timer` that is counted, or lent by a worker; how many there were before.
    #[inline]
    pub(crate) fn add(&self) -> usize {
        // ORDERING: Relaxed: whoever made the reference has ordered what comes before; nothing is published.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// One more, unless there is none left; whether there was.
    pub(crate) fn add_to_others(&self) -> bool {
        // ORDERING: Relaxed, all: the caller's `Hold` has ordered what comes before; nothing is published.
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

    /// One less; whether it was the last one.
    pub(crate) fn remove(&self) -> bool {
        // ORDERING: AcqRel. Release hands on what was done through this `Timer`; Acquire, of the last one, puts all of
        // it before the engine's end. [P21]
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// An engine without timers and workers, perhaps with handles. Dropping it frees it.
pub(crate) trait Lingering {
    /// Handles made and not counted as dropped. 0 means that no handle touches the engine any more.
    fn handles_left(&self) -> u64;
}

struct Waiting<E> {
    engine: E,
    /// Visits until the handles that are left are counted again; never 0.
    visits_left: u64,
}

/// Engines that wait for the last of their handles. See the module.
pub(crate) struct Shelf<E> {
    /// How many there are; changed under the lock.
    lingering: AtomicUsize,
    engines: Mutex<Vec<Waiting<E>>>,
}

impl<E: Lingering> Shelf<E> {
    #[cfg(not(tickwheel_loom))]
    pub(crate) const fn new() -> Self {
        Self { lingering: AtomicUsize::new(0), engines: Mutex::new(Vec::new()) }
    }

    #[cfg(tickwheel_loom)]
    pub(crate) fn new() -> Self {
        Self { lingering: AtomicUsize::new(0), engines: Mutex::new(Vec::new()) }
    }

    /// Lets go of a handle: `count` does so and counts it, as its last access to the engine.
    #[inline]
    pub(crate) fn leave(&self, count: impl FnOnce()) {
        count();
        // The fence stands between the count and the look. [F4]
        fence::light();
        // ORDERING: Relaxed: the fence says what may be missed; the lock orders the rest.
        if self.lingering.load(Ordering::Relaxed) != 0 {
            self.visit();
        }
    }

    /// Frees the engines on the shelf whose last handle is gone.
    #[cold]
    fn visit(&self) {
        let mut free = Vec::new();
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = 0;
        while let Some(waiting) = engines.get_mut(index) {
            waiting.visits_left -= 1;
            if waiting.visits_left == 0 {
                waiting.visits_left = waiting.engine.handles_left();
            }
            if waiting.visits_left == 0 {
                free.push(engines.swap_remove(index));
            } else {
                index += 1;
            }
        }
        // ORDERING: Relaxed: as in `leave`; too large a number costs its reader a visit.
        self.lingering.store(engines.len(), Ordering::Relaxed);
        drop(engines);
        // Outside the lock: hooks and clocks are the user's, and may drop handles themselves.
        drop(free);
    }

    /// Frees an engine that has neither timers nor workers any more, now or with its last handle.
    pub(crate) fn retire(&self, engine: E) {
        if engine.handles_left() == 0 {
            return;
        }
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed: as in `leave`.
        self.lingering.store(engines.len() + 1, Ordering::Relaxed);
        // The fence stands between the announcement and the sum. [F4]
        fence::heavy();
        let visits_left = engine.handles_left();
        if visits_left > 0 {
            engines.push(Waiting { engine, visits_left });
            return;
        }
        // ORDERING: Relaxed: as in `visit`.
        self.lingering.store(engines.len(), Ordering::Relaxed);
        drop(engines);
        drop(engine);
    }

    /// Engines that wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
