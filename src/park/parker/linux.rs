//! The sleep on Linux: a futex on the token, and a timer slack of 1 ns.
//!
//! One system call per sleep, and one per wake that meets it; none for a wake that meets no sleep, which the next sleep
//! takes. A waker relies on no other thread's call: one that has written the token may stop before it. The kernel lets
//! sleeps of ordinary threads overrun by their *timer slack*, 50 us unless it is set; a worker's is 1 ns, and threads
//! that its handlers start inherit that.

use super::{LONGEST, ParkEnd};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::system;
use std::sync::Arc;
use std::time::Duration;

/// The owner is awake and no wake was requested.
const IDLE: u32 = 0;
/// A bit: a wake has come that no sleep has taken yet.
const CALLED: u32 = 1;
/// A bit: the owner sleeps, or is about to.
const ASLEEP: u32 = 2;

/// The owner's end; see the module.
pub(crate) struct Parker {
    token: Arc<AtomicU32>,
    /// The slack belongs to the thread, so it is set by the first sleep.
    precise: bool,
}

/// The other end; see the module.
#[derive(Clone)]
pub(crate) struct Unparker {
    token: Arc<AtomicU32>,
}

impl Default for Unparker {
    fn default() -> Self {
        Self {
            token: Arc::new(AtomicU32::new(IDLE)),
        }
    }
}

impl Unparker {
    /// Ends the owner's current sleep, or its next one. If it sleeps, `note` is called first, and then the system once.
    /// Never blocks.
    #[inline]
    pub(crate) fn wake(&self, note: impl FnOnce()) {
        // ORDERING: Release pairs with the Acquire in `sleep`: the owner sees what led to the wake. [P40]
        if self.token.fetch_or(CALLED, Ordering::Release) & ASLEEP != 0 {
            note();
            system::wake(&self.token);
        }
    }

    /// Stops in the middle of a wake.
    #[cfg(all(test, not(tickwheel_loom)))]
    pub(super) fn stop_before_the_call(&self) {
        // ORDERING: Release: as in `wake`. [P40]
        self.token.fetch_or(CALLED, Ordering::Release);
    }

    /// Returns whether the owner sleeps, or is about to.
    #[cfg(all(test, not(tickwheel_loom)))]
    pub(super) fn is_owner_asleep(&self) -> bool {
        // ORDERING: Relaxed: a hint.
        self.token.load(Ordering::Relaxed) == ASLEEP
    }
}

impl Parker {
    /// Returns the owner's end. There must be one for each `waker`.
    pub(crate) fn of(waker: &Unparker) -> Self {
        Self {
            token: Arc::clone(&waker.token),
            precise: false,
        }
    }

    /// Sleeps until `timeout` has passed (for ever where it is `None`) or a wake ends it.
    ///
    /// May end early, for example on a signal: the caller looks at the clock again. A zero timeout returns at
    /// once without a system call and leaves a pending wake for the next sleep.
    pub(crate) fn sleep(&mut self, timeout: Option<Duration>) -> ParkEnd {
        if timeout == Some(Duration::ZERO) {
            return ParkEnd::Timeout;
        }
        if !std::mem::replace(&mut self.precise, true) {
            system::set_least_timer_slack();
        }
        // ORDERING: Relaxed, both: what a call was made for is acquired below.
        if self
            .token
            .compare_exchange(IDLE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            // Woken, timed out, interrupted, or called before the kernel looked: the token tells.
            system::wait(
                &self.token,
                ASLEEP,
                timeout.map(|timeout| timeout.min(LONGEST)),
            );
        }
        // ORDERING: Acquire pairs with the Release in `wake`. [P40]
        if self.token.swap(IDLE, Ordering::Acquire) & CALLED != 0 {
            ParkEnd::Woken
        } else {
            ParkEnd::Timeout
        }
    }
}
