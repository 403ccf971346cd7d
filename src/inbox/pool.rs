//! Blocks at rest between two uses.
//!
//! A block that the epoch has given up serves again. By the allocator it would cost a producer a microsecond now and
//! then: memory that one thread allocates and another frees goes back to the system and returns as fresh pages. The
//! pool is a row of places, each empty or holding one block. A thread that swaps a block out has it alone.
//!
//! The places are used like a stack, by a hint that may be wrong: both ways look at all places from there.
//! Any thread; lock-free; O(1).

use super::block::InboxBlock;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::bounded;
use std::ptr;

/// The blocks of one drain, and a few that wait to be retired, so that they serve until the next. Two under loom.
const PLACES: usize = bounded(136, 2);

/// See the module.
pub(crate) struct Pool {
    /// Where the next block may find a place; those before it may hold one.
    top: AtomicUsize,
    places: [AtomicPtr<InboxBlock>; PLACES],
    /// Blocks that the epoch has and will give up.
    expected: AtomicUsize,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            top: AtomicUsize::new(0),
            places: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            expected: AtomicUsize::new(0),
        }
    }

    /// Notes a block that is handed to the epoch.
    pub(super) fn expect(&self) {
        // ORDERING: Relaxed: a rough count.
        self.expected.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a block that the epoch has given up.
    pub(super) fn arrive(&self) {
        // ORDERING: Relaxed: as in `expect`.
        self.expected.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether the epoch still has blocks.
    pub(super) fn is_expecting(&self) -> bool {
        // ORDERING: Relaxed: as in `expect`.
        self.expected.load(Ordering::Relaxed) > 0
    }

    /// Returns a block that was put, as it was then.
    pub(crate) fn take(&self) -> Option<Box<InboxBlock>> {
        // ORDERING: Relaxed, also in what follows: hints where to try.
        let top = self.top.load(Ordering::Relaxed);
        (1..=PLACES).find_map(|back| {
            let at = (top + PLACES - back) % PLACES;
            let place = &self.places[at];
            if place.load(Ordering::Relaxed).is_null() {
                return None;
            }
            let taken = Self::empty(place)?;
            self.top.store(at, Ordering::Relaxed);
            Some(taken)
        })
    }

    /// Empties a place and returns its block.
    fn empty(place: &AtomicPtr<InboxBlock>) -> Option<Box<InboxBlock>> {
        // ORDERING: Acquire pairs with `put`: the thread that had the block before is done with it. [P17]
        let taken = place.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: places hold what `put` made of boxes, and the swap hands each out once.
        (!taken.is_null()).then(|| unsafe { Box::from_raw(taken) })
    }

    /// Keeps a block for later, or gives it back if there is no place for it.
    pub(crate) fn put(&self, block: Box<InboxBlock>) -> Option<Box<InboxBlock>> {
        let block = Box::into_raw(block);
        let null = ptr::null_mut();
        // ORDERING: Relaxed: a hint, as in `take`.
        let top = self.top.load(Ordering::Relaxed);
        let found = (0..PLACES).any(|step| {
            let at = (top + step) % PLACES;
            let place = &self.places[at];
            // ORDERING: Relaxed load and failure, and the store of the hint: as in `take`. Release pairs with the
            // Acquire there: what was done to the block comes before its next use. [P17]
            let kept = place.load(Ordering::Relaxed).is_null()
                && place
                    .compare_exchange(null, block, Ordering::Release, Ordering::Relaxed)
                    .is_ok();
            if kept {
                self.top.store(at + 1, Ordering::Relaxed);
            }
            kept
        });
        // SAFETY: it came from a box above, and no place holds it.
        (!found).then(|| unsafe { Box::from_raw(block) })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.places.iter().filter_map(Self::empty).for_each(drop);
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_as_many_as_it_has_places_for() {
        let pool = Pool::new();
        assert!(pool.take().is_none());
        let blocks = (0..=PLACES).filter_map(|_| InboxBlock::new(1));
        assert_eq!(blocks.filter_map(|block| pool.put(block)).count(), 1);
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), PLACES);
    }

    #[test]
    fn it_looks_at_all_places_from_any_hint() {
        for hint in 0..=PLACES {
            let pool = Pool::new();
            let blocks = (0..PLACES).filter_map(|_| InboxBlock::new(1));
            assert!(blocks.into_iter().all(|block| pool.put(block).is_none()));
            // ORDERING: Relaxed: one thread.
            pool.top.store(hint, Ordering::Relaxed);
            let taken = std::iter::from_fn(|| {
                let block = pool.take();
                pool.top.store(hint, Ordering::Relaxed);
                block
            });
            assert_eq!(taken.count(), PLACES, "{hint}");
        }
    }
}
