//! How many engines this process has: many of them are usually a mistake.

use crate::contain;
use crate::sync::process::{AtomicBool, AtomicUsize, Ordering};

static ALIVE: AtomicUsize = AtomicUsize::new(0);
/// One warning per process is enough. Not a lock: the logger may build an engine.
static WARNED: AtomicBool = AtomicBool::new(false);
/// As in the reference timers.
const MANY_ENGINES: usize = 64;

/// Counts an engine until it is dropped.
pub(super) struct EngineCount(());

impl EngineCount {
    /// Counts one more, and warns if it is one of many.
    pub(super) fn new() -> Self {
        // ORDERING: Relaxed: a number for a warning.
        let many = ALIVE.fetch_add(1, Ordering::Relaxed) + 1;
        // ORDERING: Relaxed: one thread finds it unset, and tells nothing by it.
        if many > MANY_ENGINES && !WARNED.swap(true, Ordering::Relaxed) {
            contain::warn(format_args!(
                "{many} timer engines are alive in this process; one is enough for a whole program, and for each \
                 runtime that turns its own: share it by cloning the Timer"
            ));
        }
        Self(())
    }
}

impl Drop for EngineCount {
    fn drop(&mut self) {
        // ORDERING: Relaxed: as above.
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}
