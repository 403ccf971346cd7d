//! `LocalSleeps`: makes the sleeps of one thread, and fires them.

use super::shared::{Bell, Shared, wake};
use super::sleep::LocalSleep;
use super::wakeup::Wakeup;
use crate::event_loop::{EventLoopTimer, Remote};
use crate::time::{Time, When};
use crate::types::Settings;
use crate::types::{BuildError, Polled};
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The sleeps of one thread: an [`EventLoopTimer`] inside of a runtime of one thread, one for each such thread.
///
/// For servers with one runtime per core, whose tasks stay where they are: tokio's `LocalSet`, a `LocalExecutor`,
/// monoio, a runtime on `io_uring`. Arming a sleep and cancelling it send no message, and the task is woken by its own
/// thread. They take no lock either, but that an arming which is earlier than all others wakes the task that drives
/// this, whose waker lies behind a lock for a few instructions; so does a remote then. Neither this nor its sleeps can
/// leave the thread; other threads wake by a [`remote`](Self::remote), for which the runtime's wakers must work on
/// other threads (monoio's do with its feature `sync`).
///
/// Somebody has to fire what is due: a task of the runtime with [`drive`](Self::drive), which needs one timer of the
/// runtime for all sleeps together, or a loop of your own with [`fire`](Self::fire) and
/// [`poll_timeout`](Self::poll_timeout).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Settings, LocalSleeps};
///
/// # use std::task::{Context, Poll, Waker};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sleeps = LocalSleeps::new(Settings::new())?;
/// let mut task = Box::pin(async {
///     sleeps.sleep(Duration::from_millis(5)).await?;
///     Ok::<_, tickwheel::SleepError>("5 ms later")
/// });
/// // A loop of two lines: a runtime's polls the tasks that were woken, and its sockets.
/// let answer = loop {
///     if let Poll::Ready(answer) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
///         break answer?;
///     }
///     std::thread::sleep(sleeps.poll_timeout().unwrap_or_default());
///     sleeps.fire();
/// };
/// assert_eq!(answer, "5 ms later");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LocalSleeps {
    shared: Rc<Shared>,
}

impl LocalSleeps {
    /// Sleeps for the calling thread, with the settings of an [`EventLoopTimer`]; a [`remote`](Self::remote) wakes the
    /// task that [`drive`](Self::drive)s them.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn new(builder: Settings) -> Result<Self, BuildError> {
        let bell: Arc<Bell> = Arc::default();
        let timer = builder.build_with_waker({
            let bell = Arc::clone(&bell);
            move || bell.ring()
        })?;
        Ok(Self { shared: Rc::new(Shared::new(timer, bell)) })
    }

    /// Sleeps for a while, or until a point in time ([`When`]); see [`LocalSleep`].
    pub fn sleep(&self, when: impl Into<When>) -> LocalSleep {
        LocalSleep::new(Rc::clone(&self.shared), when.into())
    }

    /// A handle for other threads: what it schedules is a waker ([`Wakeup`]), which this thread wakes.
    ///
    /// ```
    /// use std::task::Waker;
    /// use std::time::Duration;
    /// use tickwheel::{Settings, LocalSleeps};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sleeps = LocalSleeps::new(Settings::new())?;
    /// let start = sleeps.now();
    /// let (remote, waker) = (sleeps.remote(), Waker::noop().clone().into());
    /// let other = std::thread::spawn(move || remote.schedule(Duration::ZERO, waker).map(drop));
    /// other.join().expect("it does not panic")?;
    /// assert_eq!((sleeps.pending(), sleeps.fire().fired), (1, 1));
    /// assert!(sleeps.now() >= start);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remote(&self) -> Remote<Wakeup> {
        self.shared.remote.clone()
    }

    /// The time by the timer's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.remote.now()
    }

    /// Sleeps that are armed. O(threads).
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.remote.pending()
    }

    /// Wakes the tasks whose sleeps are over, within the builder's budget; see [`EventLoopTimer::poll`].
    ///
    /// For a loop of your own: after its sockets, before its tasks. A waker that panics is logged, and the others are
    /// woken.
    pub fn fire(&self) -> Polled {
        let shared = &*self.shared;
        let now = self.now();
        let mut fired = shared.fired.take();
        let polled = shared.timer.borrow_mut().poll(now, |due| fired.push(due.payload.into()));
        wake(fired.drain(..));
        shared.fired.set(fired);
        polled
    }

    /// How long the loop may sleep, `None` for ever; see [`EventLoopTimer::poll_timeout`].
    ///
    /// For a loop of your own: when no task is ready any more, right before it blocks.
    #[must_use = "the sleep has been announced: block for this long, then fire"]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let now = self.now();
        self.shared.timer.borrow_mut().poll_timeout(now)
    }

    /// Fires what is due, as a task of the thread's runtime, until it is dropped; `sleep` is the runtime's own.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tickwheel::{Settings, LocalSleeps};
    ///
    /// # fn spawn_local<F>(_: F) {}
    /// # async fn runtimes_sleep(_: Duration) {}
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sleeps = LocalSleeps::new(Settings::new())?;
    /// // For example tokio::task::spawn_local and tokio::time::sleep.
    /// spawn_local({
    ///     let sleeps = sleeps.clone();
    ///     async move { sleeps.drive(runtimes_sleep).await }
    /// });
    /// # Ok(()) }
    /// ```
    pub async fn drive<S: Future>(&self, mut sleep: impl FnMut(Duration) -> S) -> Infallible {
        let shared = &*self.shared;
        loop {
            shared.planned.set(Time::ZERO);
            if self.fire().more {
                let_others_run().await;
                continue;
            }
            let now = self.now();
            let timeout = shared.timer.borrow_mut().poll_timeout(now);
            // Before the runtime's sleep is made: that is the user's function, which may arm one of these.
            shared.planned.set(timeout.map_or(Time::MAX, |timeout| now.saturating_add(timeout)));
            match timeout {
                None => poll_fn(|cx| shared.bell.poll(cx)).await,
                Some(Duration::ZERO) => let_others_run().await,
                Some(timeout) => {
                    let mut nap = pin!(sleep(timeout));
                    poll_fn(|cx| match shared.bell.poll(cx) {
                        Poll::Ready(()) => Poll::Ready(()),
                        Poll::Pending => nap.as_mut().poll(cx).map(drop),
                    })
                    .await;
                }
            }
        }
    }
}

/// Comes back when the other tasks that are ready have had their turn.
async fn let_others_run() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// For a loop of your own: remotes wake it as the timer's builder was told, for example through its `mio` poll.
impl From<EventLoopTimer<Wakeup>> for LocalSleeps {
    fn from(timer: EventLoopTimer<Wakeup>) -> Self {
        Self { shared: Rc::new(Shared::new(timer, Arc::default())) }
    }
}

impl fmt::Debug for LocalSleeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSleeps").field("pending", &self.pending()).finish_non_exhaustive()
    }
}
