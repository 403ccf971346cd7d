//! A wake that is remembered until its task asks for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// See the module. No function of a waker is called under the lock.
#[derive(Default)]
pub(crate) struct Notify(Mutex<NotifyState>);

#[derive(Default)]
struct NotifyState {
    is_set: bool,
    /// What the next wake wakes.
    task: Option<Waker>,
}

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        let mut state = self.lock();
        state.is_set = true;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Notify {
    /// Makes one that was woken already.
    #[cfg(feature = "test-util")]
    pub(crate) fn woken() -> Self {
        Self(Mutex::new(NotifyState {
            is_set: true,
            task: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, NotifyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it was woken since the last poll.
    #[cfg(feature = "test-util")]
    pub(crate) fn is_set(&self) -> bool {
        self.lock().is_set
    }

    /// Returns whether it was woken since the last poll; the next wake wakes the task that polls.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_known = self
            .lock()
            .task
            .as_ref()
            .is_some_and(|task| task.will_wake(cx.waker()));
        if !is_known {
            let task = cx.waker().clone();
            let before = self.lock().task.replace(task);
            crate::quietly(|| drop(before));
        }
        // Afterwards, so that a wake in between is either seen or wakes.
        if std::mem::take(&mut self.lock().is_set) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_that_was_woken_is_woken_again_once_it_has_polled() {
        let (notify, wakes) = (Arc::new(Notify::default()), Arc::<Wakes>::default());
        let task = Waker::from(Arc::clone(&wakes));
        for woken in 1..4 {
            assert!(notify.poll(&mut Context::from_waker(&task)).is_pending());
            (0..3).for_each(|_| Arc::clone(&notify).wake());
            assert_eq!(wakes.0.load(Ordering::SeqCst), woken);
            assert!(
                notify
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_ready()
            );
        }
    }
}
