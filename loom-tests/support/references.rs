//! The references that other threads of a model have to a shard, counted as `std::sync::Arc` counts them: loom does not
//! see that count.

use super::watched::{AtomicUsize, Ordering};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// Those of this execution, if its model counts them. Loom's threads all run on one thread of the system.
    static OTHERS: RefCell<Option<Rc<AtomicUsize>>> = const { RefCell::new(None) };
}

/// Forgets the last execution.
pub(super) fn begin_execution() {
    OTHERS.set(None);
}

/// Begins to count, at none.
pub(crate) fn begin() {
    OTHERS.set(Some(Rc::new(AtomicUsize::new(0))));
}

/// Another thread is about to get a reference.
pub(crate) fn add() {
    // ORDERING: Relaxed: as `Arc::clone`.
    others().fetch_add(1, Ordering::Relaxed);
}

/// A thread has let its reference go.
pub(crate) fn remove() {
    // ORDERING: Release: as the drop of an `Arc`. [P28]
    others().fetch_sub(1, Ordering::Release);
}

fn others() -> Rc<AtomicUsize> {
    OTHERS.with_borrow(Clone::clone).expect("it has begun")
}

/// `Arc::strong_count`.
pub(crate) fn count<T>(shared: &Arc<T>) -> usize {
    match OTHERS.with_borrow(Clone::clone) {
        // ORDERING: Relaxed: as in `Arc`.
        Some(others) => 1 + others.load(Ordering::Relaxed),
        None => Arc::strong_count(shared),
    }
}
