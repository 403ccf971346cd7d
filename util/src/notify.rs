//! A wake that is remembered until its task asks for it.

use atomic_waker::AtomicWaker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

/// See the module.
#[derive(Default)]
pub(crate) struct Notify {
    pub(crate) is_set: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        // ORDERING: before the task is woken, which then finds it; pairs with the swap of poll.
        self.is_set.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}

impl Notify {
    /// Returns whether it was woken since the last poll; the next wake wakes the task that polls.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Before the check, so that a wake in between is either seen or wakes.
        self.task.register(cx.waker());
        // ORDERING: after the registration; pairs with the store of wake.
        if self.is_set.swap(false, Ordering::SeqCst) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
