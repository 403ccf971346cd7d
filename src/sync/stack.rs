//! A lock-free stack of numbers, after Treiber (1986).
//!
//! Each number names a member that lies elsewhere and stays there. The member has a link, which names the one below it.
//! The head carries a tag that grows with every change. So a step that was overtaken fails, even if the same member is
//! on top again, and a link that was read stale has no effect.

use super::atomic::{AtomicU32, AtomicU64, Ordering};

/// See the module. The top's number below (0 for none), the tag above.
#[derive(Default)]
pub(crate) struct Stack(AtomicU64);

/// Returns the head that follows `old`, with this top.
const fn next_head(old: u64, top: u32) -> u64 {
    let tag = (old >> 32).wrapping_add(1);
    tag << 32 | top as u64
}

impl Stack {
    /// Puts a member other than 0 on top, which the caller has and gives up.
    pub(crate) fn push(&self, member: u32, link: &AtomicU32) {
        // ORDERING: Relaxed to guess; the compare-and-swap decides.
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // ORDERING: Relaxed: published by the exchange below.
            link.store(head as u32, Ordering::Relaxed);
            // ORDERING: Release hands the member, and what was done to it, to the thread that pops it [P5].
            match self.0.compare_exchange_weak(
                head,
                next_head(head, member),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the top off, for the caller alone, and puts what `below` says of it in its place; `None` if there is no top,
    /// or nothing is said of it. `below` may meet a member that another thread has taken.
    pub(crate) fn pop(&self, below: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        // ORDERING: Acquire pairs with `push` [P5].
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let top = head as u32;
            if top == 0 {
                return None;
            }
            let rest = below(top)?;
            // ORDERING: Relaxed on success: the tag says that the head is the one which was acquired. Acquire on
            // failure, as above [P5]. A pop publishes nothing, and passes on what pushes have published: all changes of
            // the head are read-modify-writes.
            match self.0.compare_exchange_weak(
                head,
                next_head(head, rest),
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(top),
                Err(now) => head = now,
            }
        }
    }
}
