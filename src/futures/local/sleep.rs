//! `LocalSleep`: a future of one thread.

use super::shared::Shared;
use super::wakeup::Wakeup;
use crate::contain;
use crate::engine::Identity;
use crate::futures::error::SleepError;
use crate::futures::sleep::Stage;
use crate::time::{Deadline, Time, When};
use crate::types::Key;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A future of one thread that is ready at a point in time, and never before.
///
/// Made by [`LocalSleeps::sleep`](crate::LocalSleeps::sleep). As a [`Sleep`](crate::Sleep) it is armed at the first
/// poll, counts from when it was made, stays ready, can be [`reset`](Self::reset), and its end cancels the timer. It
/// keeps its thread's timer.
///
/// ```
/// use std::task::{Context, Waker};
/// use std::time::Duration;
/// use tickwheel::{Settings, LocalSleeps};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sleeps = LocalSleeps::new(Settings::new())?;
/// let mut idle = sleeps.sleep(Duration::from_secs(30));
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(idle.poll_sleep(&mut cx).is_pending() && !idle.is_elapsed());
/// idle.reset(Duration::from_secs(60)); // data came
/// assert!(idle.deadline() > sleeps.now() + Duration::from_secs(50));
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// The output is an error if the timer is not accepted, because `max_pending` are armed. The next poll tries again.
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct LocalSleep {
    shared: Rc<Shared>,
    deadline: Time,
    stage: Stage,
    armed: Option<Armed>,
}

/// A timer that has been armed and not let go of.
#[derive(Clone, Copy)]
struct Armed {
    key: Key<Wakeup>,
    tick: u64,
    /// Whom it wakes.
    waker: Identity,
}

impl LocalSleep {
    pub(super) fn new(shared: Rc<Shared>, when: When) -> Self {
        let deadline = shared.remote.time(when);
        Self { shared, deadline, stage: Stage::new(when), armed: None }
    }

    /// When it is ready, on the timer's clock.
    #[must_use]
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Whether its time has come, as far as it knows: a sleep that was never polled does not ask.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.stage == Stage::Elapsed || self.armed.is_some_and(|armed| !self.is_pending(armed.key))
    }

    fn is_pending(&self, key: Key<Wakeup>) -> bool {
        self.shared.timer.borrow().is_pending(key)
    }

    /// Sleeps on, or anew, for a while from now or until a point in time. The future need not be polled for it, unless
    /// its time had come before: then its waker has been woken, and the future wakes again only if it is polled.
    pub fn reset(&mut self, when: impl Into<When>) {
        let (when, remote) = (when.into(), &self.shared.remote);
        let Some(armed) = &mut self.armed else {
            self.deadline = remote.time(when);
            self.stage = Stage::new(when);
            return;
        };
        let Deadline { nominal, tick } = remote.deadline_now(when);
        self.deadline = nominal;
        armed.tick = tick;
        let key = armed.key;
        if self.shared.timer.borrow_mut().reschedule_tick(key, tick).moved() {
            self.shared.heed(key);
        } else {
            self.armed = None;
            self.stage = Stage::new(when);
        }
    }

    /// As [`poll`](Future::poll), for a sleep that lies in something else.
    pub fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        match self.stage {
            Stage::Elapsed => return Poll::Ready(Ok(())),
            Stage::Unarmed { look: true } if self.deadline.has_passed(self.shared.remote.now()) => {
                return self.elapsed();
            }
            Stage::Unarmed { .. } => {}
            Stage::Armed => match self.armed {
                Some(armed) if self.is_pending(armed.key) => {
                    if armed.waker == Identity::of(cx.waker()) {
                        return Poll::Pending;
                    }
                }
                _ => return self.elapsed(),
            },
        }
        self.arm(cx.waker())
    }

    fn elapsed(&mut self) -> Poll<Result<(), SleepError>> {
        self.armed = None;
        self.stage = Stage::Elapsed;
        Poll::Ready(Ok(()))
    }

    /// Arms the timer, in the place of one that wakes another task.
    fn arm(&mut self, waker: &Waker) -> Poll<Result<(), SleepError>> {
        // Of the user's, and before anything is done.
        let waker = waker.clone();
        let identity = Identity::of(&waker);
        let before = self.armed.map(|armed| armed.tick);
        self.disarm();
        let mut timer = self.shared.timer.borrow_mut();
        let tick = before.unwrap_or_else(|| timer.tick_of(self.deadline));
        let armed = timer.schedule_tick(tick, Wakeup::from(waker));
        drop(timer);
        match armed {
            Ok(key) => {
                self.armed = Some(Armed { key, tick, waker: identity });
                self.stage = Stage::Armed;
                self.shared.heed(key);
                Poll::Pending
            }
            Err(error) => {
                self.stage = Stage::Unarmed { look: true };
                let kind = error.kind().clone();
                contain::drop_quietly("a waker", error.into_payload());
                Poll::Ready(Err(SleepError::new(kind)))
            }
        }
    }

    fn disarm(&mut self) {
        let Some(Armed { key, .. }) = self.armed.take() else { return };
        let waker = self.shared.timer.borrow_mut().cancel(key).payload();
        contain::drop_quietly("a waker", waker);
    }
}

impl Future for LocalSleep {
    type Output = Result<(), SleepError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_sleep(cx)
    }
}

impl Drop for LocalSleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for LocalSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
