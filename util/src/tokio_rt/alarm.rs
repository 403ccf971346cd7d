//! What wakes when a time is over: a timer of tokio's.

use super::let_others_take_the_latest;
use crate::driving::Alarm;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Goes off by a timer of tokio's.
pub(super) struct TokioAlarm {
    /// Missing while it is not set.
    sleep: Option<Pin<Box<Sleep>>>,
    /// The runtime, if it has several threads.
    several: Option<Id>,
    /// Wakes the turning task early there.
    early: Option<Arc<Early>>,
}

impl Alarm for TokioAlarm {
    /// # Panics
    ///
    /// If the runtime was built without `enable_time`.
    fn new() -> Self {
        let runtime = Handle::current();
        // Without a timer this panics. The alarm has none before it is set: tokio would wake for its time as well.
        drop(sleep(Duration::ZERO));
        let has_several = runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
        Self {
            sleep: None,
            several: has_several.then(|| runtime.id()),
            early: None,
        }
    }

    fn set(&mut self, pause: Duration) {
        // Time that stands moves by whole milliseconds, one more than asked for unless it is asked for a little less.
        // If it does not stand, the alarm may go off too early, and is set once more.
        #[cfg(feature = "test-util")]
        let pause = match u64::try_from(pause.as_nanos().div_ceil(1_000_000)) {
            Ok(millis) => Duration::from_millis(millis.saturating_sub(1)) + Duration::from_nanos(1),
            Err(_) => pause,
        };
        let now = Instant::now();
        let until = now.checked_add(pause);
        let until = until.unwrap_or(now + Duration::from_secs(1 << 30));
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(until),
            unset => *unset = Some(Box::pin(sleep_until(until))),
        }
    }

    fn unset(&mut self) {
        // Time that stands would jump to its deadline.
        self.sleep = None;
    }

    fn waker(&mut self, task: &Waker) -> Waker {
        let Some(runtime) = self.several else {
            return task.clone();
        };
        let is_for_task = |early: &&Arc<Early>| early.task.will_wake(task);
        let early = match self.early.as_ref().filter(is_for_task) {
            Some(early) => Arc::clone(early),
            None => {
                let task = task.clone();
                Arc::clone(self.early.insert(Arc::new(Early { task, runtime })))
            }
        };
        Waker::from(early)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// Wakes the turning task of a runtime that has several threads, and lets any of them begin with it.
///
/// The thread of a task that sets a timer would keep the turning task to itself, however long that task goes on.
struct Early {
    task: Waker,
    runtime: Id,
}

impl Wake for Early {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.task.wake_by_ref();
        match Handle::try_current() {
            Ok(runtime) if runtime.id() == self.runtime => let_others_take_the_latest(&runtime),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    /// Its timer would end a wait of the runtime for nothing.
    #[test]
    fn an_alarm_that_was_not_set_does_not_go_off() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        runtime.block_on(async {
            let mut alarm = TokioAlarm::new();
            let gone_off = poll_fn(|cx| alarm.poll(cx));
            let waited = tokio::time::timeout(Duration::from_millis(5), gone_off).await;
            assert!(waited.is_err());
        });
    }
}
