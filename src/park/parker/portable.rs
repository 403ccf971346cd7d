//! The sleep of systems without a futex of their own here: the thread parks.
//!
//! `std` parks to the nanosecond on Unix systems. Windows rounds to milliseconds, so there the thread parks for the
//! whole milliseconds, and the rest passes in short slices with a look at the token after each.
//!
//! Of several threads that call `unpark` at once `std` lets one make the system call, and the others rely on it: a thread
//! that stops there delays what they wanted the owner for (`docs/LIMITS.md` lists it).

#![cfg_attr(
    all(test, target_os = "linux"),
    allow(dead_code, reason = "on Linux only the tests use it")
)]

use super::{LONGEST, ParkEnd};
use crate::sync::process::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// One slice of the remainder below a millisecond: the longest that a wake may go unnoticed there.
const SLICE: Duration = Duration::from_micros(50);

#[derive(Default)]
struct Shared {
    /// A wake has come that no sleep has taken yet.
    called: AtomicBool,
    /// The thread to unpark; known from its first sleep on.
    owner: OnceLock<Thread>,
}

/// The owner's end; see the module.
pub(crate) struct Parker {
    shared: Arc<Shared>,
}

/// The other end; see the module.
#[derive(Clone, Default)]
pub(crate) struct Unparker {
    shared: Arc<Shared>,
}

impl Unparker {
    /// Ends the owner's current sleep, or its next one. If the owner has slept before, `note` is called first. At most one
    /// system call; never blocks.
    pub(crate) fn wake(&self, note: impl FnOnce()) {
        // ORDERING: Release pairs with the Acquire in `take_call`: the owner sees what led to the wake. [P40]
        self.shared.called.store(true, Ordering::Release);
        // ORDERING: SeqCst fence, pairs with the one in `sleep`: either this call finds the owner's thread, or the
        // owner finds the call. [F40]
        fence(Ordering::SeqCst);
        if let Some(owner) = self.shared.owner.get() {
            note();
            owner.unpark();
        }
    }
}

impl Parker {
    /// Returns the owner's end. There must be one for each `waker`.
    pub(crate) fn of(waker: &Unparker) -> Self {
        Self {
            shared: Arc::clone(&waker.shared),
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
        if self.shared.owner.get().is_none() {
            self.shared.owner.get_or_init(std::thread::current);
            // ORDERING: SeqCst fence, pairs with the one in `wake`. [F40]
            fence(Ordering::SeqCst);
        }
        let Some(timeout) = timeout else {
            // A handler may have taken an unpark that was meant for us, but not the call behind it.
            while !self.take_call() {
                std::thread::park();
            }
            return ParkEnd::Woken;
        };
        let (start, timeout) = (Instant::now(), timeout.min(LONGEST));
        loop {
            if self.take_call() {
                return ParkEnd::Woken;
            }
            let rest = timeout.saturating_sub(start.elapsed());
            if rest.is_zero() {
                return ParkEnd::Timeout;
            }
            let whole = Duration::from_millis(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
            match (cfg!(unix), whole.is_zero()) {
                // To the nanosecond.
                (true, _) => std::thread::park_timeout(rest),
                (false, false) => std::thread::park_timeout(whole),
                (false, true) => std::thread::sleep(rest.min(SLICE)),
            }
        }
    }

    fn take_call(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `wake`. [P40]
        self.shared.called.swap(false, Ordering::Acquire)
    }
}
