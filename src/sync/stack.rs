//! Lock-free stacks of the slots of a table, by number.
//!
//! The head carries a tag that grows with every change, so a pop that was overtaken fails even if the same slot is on
//! top again. Slots are never freed before the table, so a reader of a stale link reads a link.

use super::atomic::{AtomicU32, AtomicU64, Ordering};
use super::segments::{Segments, Zeroable};

/// A slot that can lie in a stack, in one at a time.
pub(crate) trait Linked: Zeroable {
    /// Returns the number of the slot below this one, plus one; 0 for none.
    fn link(&self) -> &AtomicU32;
}

/// See the module. The top's number plus one below (0 for none), a tag against reuse above.
#[derive(Default)]
pub(crate) struct Stack(AtomicU64);

impl Stack {
    /// Puts a slot on top, which the caller has and gives up.
    pub(crate) fn push<T: Linked>(&self, slots: &Segments<T>, number: u32) {
        let link = slots.get_or_alloc(number).link();
        // ORDERING: Relaxed to guess; the compare-and-swap decides.
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // ORDERING: Relaxed: published by the exchange below.
            link.store(head as u32, Ordering::Relaxed);
            // ORDERING: Release hands the slot's contents to the thread that pops it [P5].
            match self.0.compare_exchange_weak(
                head,
                Self::head(head, number + 1),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the slot on top, for the caller alone.
    pub(crate) fn pop<T: Linked>(&self, slots: &Segments<T>) -> Option<u32> {
        // ORDERING: Acquire pairs with `push` [P5].
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let top = (head as u32).checked_sub(1)?;
            // ORDERING: Relaxed: if the value is stale, so is the tag, and the exchange fails.
            let below = slots.get(top)?.link().load(Ordering::Relaxed);
            // ORDERING: Relaxed on success: the tag says that the head is the one which was acquired. Acquire on
            // failure, as above [P5]. A pop publishes nothing, and passes on what pushes have published: all changes of
            // the head are read-modify-writes.
            match self.0.compare_exchange_weak(
                head,
                Self::head(head, below),
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(top),
                Err(now) => head = now,
            }
        }
    }

    /// Returns the head that follows another one, with this top.
    pub(crate) const fn head(old: u64, top: u32) -> u64 {
        let tag = (old >> 32).wrapping_add(1);
        tag << 32 | top as u64
    }
}
