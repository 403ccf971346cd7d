//! What the sleeps of one thread share: the timer, and how the task that drives it is woken.

use super::wakeup::Wakeup;
use crate::contain::{self, Contained};
use crate::event_loop::{EventLoopTimer, Remote};
use crate::time::Time;
use crate::types::Key;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What the sleeps of a thread share.
pub(super) struct Shared {
    pub(super) timer: RefCell<EventLoopTimer<Wakeup>>,
    /// Also the clock: it is the user's, and is read while the timer is not borrowed.
    pub(super) remote: Remote<Wakeup>,
    /// The wakers of what has fired, and their memory in between.
    pub(super) fired: Cell<Vec<Waker>>,
    /// Until when the task that drives this sleeps; [`Time::ZERO`] if it does not.
    pub(super) planned: Cell<Time>,
    pub(super) bell: Arc<Bell>,
}

impl Shared {
    pub(super) fn new(timer: EventLoopTimer<Wakeup>, bell: Arc<Bell>) -> Self {
        let remote = timer.remote();
        let planned = Cell::new(Time::ZERO);
        Self { timer: RefCell::new(timer), remote, fired: Cell::default(), planned, bell }
    }

    /// The timer behind a key has another deadline: the task that drives this is to see it in time.
    pub(super) fn heed(&self, key: Key<Wakeup>) {
        let (due, planned) = (self.timer.borrow().deadline(key), self.planned.get());
        if due.is_some_and(|due| due < planned) {
            // Before the wake, which may run that task.
            self.planned.set(Time::ZERO);
            let is_woken = contain::quietly("a waker", || self.bell.ring()).is_some();
            if !is_woken && self.planned.get() == Time::ZERO {
                self.planned.set(planned);
            }
        }
    }
}

/// Ends the sleep of the task that drives a thread's timer.
#[derive(Default)]
pub(super) struct Bell(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    is_rung: bool,
    /// Of the task that has asked last. It stays: a wake may fail, and others ring meanwhile.
    waker: Option<Arc<Contained<Waker>>>,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes who has asked last. Unwinds if the waker does: it has woken nobody.
    pub(super) fn ring(&self) {
        let waker = {
            let mut ring = self.lock();
            ring.is_rung = true;
            ring.waker.clone()
        };
        if let Some(waker) = waker.as_ref().and_then(|waker| waker.get()) {
            waker.wake_by_ref();
        }
    }

    /// Whether it has rung since the last time that somebody asked; it wakes who asks.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut ring = self.lock();
        let known = ring.waker.as_ref().and_then(|waker| waker.get());
        if !known.is_some_and(|waker| waker.will_wake(cx.waker())) {
            drop(ring);
            // Of the user's, as is what goes.
            let waker = Arc::new(Contained::new("a waker", cx.waker().clone()));
            let before = self.lock().waker.replace(waker);
            drop(before);
            ring = self.lock();
        }
        if std::mem::take(&mut ring.is_rung) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Wakes, whatever the waker does: there are others.
pub(super) fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        contain::quietly("a waker", || waker.wake());
    }
}
