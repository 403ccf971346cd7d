//! The numbers of a model's threads in place of `src/sync/slot.rs`: loom's threads all run on one thread of the system, and
//! no number is inherited.

use crate::sync::way::Way;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Runs `f` with the calling thread's slot.
pub(crate) fn with<R>(f: impl FnOnce(u32) -> R) -> R {
    f(super::watched::thread_number() as u32 - 1)
}

thread_local! {
    /// The ways of all threads, of earlier executions as well: their groups do not come again.
    static WAYS: RefCell<BTreeMap<u64, Way>> = const { RefCell::new(BTreeMap::new()) };
}

/// Returns what the calling thread remembers.
pub(crate) fn current() -> Way {
    let thread = super::watched::thread_number();
    WAYS.with_borrow(|ways| ways.get(&thread).copied().unwrap_or(Way::NONE))
}

/// Makes the calling thread remember a way.
pub(crate) fn remember(way: Way) {
    let thread = super::watched::thread_number();
    WAYS.with_borrow_mut(|ways| _ = ways.insert(thread, way));
}
