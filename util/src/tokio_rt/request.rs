//! [`TurnRequest`]: asks for a turn before the alarm's time.

// The models of the main crate build this file as their own.
#[cfg(tickwheel_loom)]
use crate::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(tickwheel_loom))]
use std::sync::atomic::{AtomicBool, Ordering};

/// A request that a turn sees although it sets the alarm meanwhile.
///
/// Two words: this one, and the alarm's time in the kernel. The requester writes this one first and the time last; the
/// turn writes the time first and reads this one last. Whichever time stays, either it is the requester's, or the turn
/// has seen the request. `loom-tests/models/turn_request.rs` explores it.
#[derive(Default)]
pub(super) struct TurnRequest {
    requested: AtomicBool,
}

impl TurnRequest {
    /// Makes a request; `set_off` has the alarm go off at once.
    pub(super) fn make<R>(&self, set_off: impl FnOnce() -> R) -> R {
        // ORDERING: SeqCst, before the alarm is set off: a turn that sets it later finds this.
        self.requested.store(true, Ordering::SeqCst);
        set_off()
    }

    /// Takes the request, if there is one. To be asked after the alarm is set.
    pub(super) fn take(&self) -> bool {
        // ORDERING: SeqCst: after the alarm was set, which a request before may have set as well.
        self.requested.swap(false, Ordering::SeqCst)
    }
}
