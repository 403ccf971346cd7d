//! A clock turned by hand that panics while it is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tickwheel::{Clock, ManualClock, Time};

/// Its clones are the same clock. It stands at zero until somebody turns it.
#[derive(Clone, Default)]
pub(crate) struct Breakable {
    pub(crate) time: ManualClock,
    broken: Arc<AtomicBool>,
}

impl Breakable {
    pub(crate) fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }
}

impl Clock for Breakable {
    fn now(&self) -> Time {
        assert!(!self.is_broken(), "the clock");
        self.time.now()
    }
}
