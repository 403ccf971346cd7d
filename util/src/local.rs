//! Sleeps, timeouts and intervals of one thread, by an `EventLoopTimer` inside of its runtime: [`LocalSleeps`].
//!
//! ```text
//!   task: polls a LocalSleep --arms--> EventLoopTimer <--schedules-- other threads, by a Remote
//!     ^                                    |
//!     +------------- wakes ------------ fire(), by the loop itself or by the task that drives it
//! ```
//!
//! Everything is on one thread: arming is an entry in the thread's own wheel, and a wake is a push to the runtime's own
//! queue. Only the waker of the task that drives this is shared, because remotes wake that task, too.
// All functions are `#[inline]` so that a program compiles them, and their timer, only if it uses them: here they would
// take nearly half of this crate's build.
//
// Nothing of the user's is called while the timer is borrowed: wakers are collected, and woken afterwards, and there are
// no periodic timers, which would be cloned in a turn (`Wakeup`).

mod interval;
mod timeout;

pub use interval::LocalInterval;
pub use timeout::LocalTimeout;

use crate::notify::Notify;
use crate::quietly;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, RawWakerVTable, Wake, Waker};
use std::time::Duration;
use tickwheel::{
    BuildError, EventLoopTimer, Key, Period, Polled, Remote, Settings, SleepError, Time, When,
};

/// The payload of a timer that [`LocalSleeps`] fires: the waker of a task.
///
/// It goes to a [`Remote`], and comes back from its `cancel`.
///
/// ```
/// use std::task::Waker;
/// use std::time::Duration;
/// use tickwheel::Settings;
/// use tickwheel_util::local::LocalSleeps;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sleeps = LocalSleeps::new(Settings::new())?;
/// let remote = sleeps.remote();
/// let key = remote.schedule(Duration::from_secs(1), Waker::noop().clone().into())?;
/// let waker: Waker = remote.cancel(key).into_payload().expect("it is pending").into();
/// waker.wake();
/// # Ok(()) }
/// ```
///
/// It is not [`Clone`], so none of these timers is periodic: a turn would copy the waker, which is a call into the
/// task's runtime, while it has the thread's timer. A task that is to be woken again schedules anew.
///
/// ```compile_fail,E0277
/// use std::task::Waker;
/// use std::time::Duration;
/// use tickwheel::{Period, Settings};
/// use tickwheel_util::local::LocalSleeps;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sleeps = LocalSleeps::new(Settings::new())?;
/// let second = Duration::from_secs(1);
/// sleeps.remote().schedule_periodic(
///     second,
///     Period::fixed_delay(second),
///     Waker::noop().clone().into(),
/// )?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Wakeup(Waker);

impl From<Waker> for Wakeup {
    #[inline]
    fn from(waker: Waker) -> Self {
        Self(waker)
    }
}

impl From<Wakeup> for Waker {
    #[inline]
    fn from(wakeup: Wakeup) -> Self {
        wakeup.0
    }
}

/// What the sleeps of a thread share.
struct Shared {
    timer: RefCell<EventLoopTimer<Wakeup>>,
    /// Also the clock: it is the user's, and is read while the timer is not borrowed.
    remote: Remote<Wakeup>,
    /// The wakers of what has fired, and their memory in between.
    fired: Cell<Vec<Waker>>,
    /// Until when the task that drives this sleeps; [`Time::ZERO`] if it does not.
    planned: Cell<Time>,
    /// Ends the sleep of the task that drives this.
    wake: Arc<Notify>,
}

impl Shared {
    /// Returns the deadline of a sleep that is set now. That of a zero delay does not lie ahead of the clock, as others
    /// do by a microsecond or two.
    #[inline]
    fn time_of(&self, when: When) -> Time {
        if when == When::from(Duration::ZERO) {
            self.remote.now()
        } else {
            self.remote.time_of(when)
        }
    }

    /// Lets the task that drives this see the new deadline of `key` in time.
    #[inline]
    fn heed(&self, key: Key<Wakeup>) {
        let due = self.timer.borrow().deadline(key);
        if due.is_some_and(|due| due < self.planned.get()) {
            // Before the wake, which may run that task.
            self.planned.set(Time::ZERO);
            quietly(|| Arc::clone(&self.wake).wake());
        }
    }
}

/// The sleeps of one thread: an [`EventLoopTimer`] inside of a runtime of one thread, one for each such thread.
///
/// For servers with one runtime per core, whose tasks stay where they are: tokio's `LocalSet`, a `LocalExecutor`,
/// monoio, a runtime on `io_uring`. Arming a sleep and cancelling it take no lock and send no message, and the task is
/// woken by its own thread. An arming which is earlier than all others wakes the task that drives this; so does a
/// remote then. Neither this nor its sleeps can leave the thread; other threads wake by a [`remote`](Self::remote), for
/// which the runtime's wakers must work on other threads (monoio's do with its feature `sync`).
///
/// Somebody has to fire what is due: a task of the runtime with [`drive`](Self::drive), which needs one timer of the
/// runtime for all sleeps together, or a loop of your own with [`fire`](Self::fire) and
/// [`poll_timeout`](Self::poll_timeout).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::Settings;
/// use tickwheel_util::local::LocalSleeps;
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
///     if let Poll::Ready(answer) =
///         task.as_mut().poll(&mut Context::from_waker(Waker::noop()))
///     {
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
    #[inline]
    pub fn new(builder: Settings) -> Result<Self, BuildError> {
        let wake = Arc::<Notify>::default();
        let waker = Waker::from(Arc::clone(&wake));
        Ok(Self::with(
            EventLoopTimer::with_waker(builder, move || waker.wake_by_ref())?,
            wake,
        ))
    }

    #[inline]
    fn with(timer: EventLoopTimer<Wakeup>, wake: Arc<Notify>) -> Self {
        let remote = timer.remote();
        let (timer, planned) = (RefCell::new(timer), Cell::new(Time::ZERO));
        Self {
            shared: Rc::new(Shared {
                timer,
                remote,
                fired: Cell::default(),
                planned,
                wake,
            }),
        }
    }

    /// Sleeps for a while, or until a point in time ([`When`]); see [`LocalSleep`].
    pub fn sleep(&self, when: impl Into<When>) -> LocalSleep {
        let deadline = self.shared.time_of(when.into());
        LocalSleep {
            shared: Rc::clone(&self.shared),
            deadline,
            stage: SleepStage::Unarmed,
        }
    }

    /// Gives a future so long, or until a point in time ([`When`]), to get ready; see [`LocalTimeout`].
    pub fn timeout<F: IntoFuture>(
        &self,
        limit: impl Into<When>,
        future: F,
    ) -> LocalTimeout<F::IntoFuture> {
        LocalTimeout::new(future.into_future(), self.sleep(limit))
    }

    /// Ticks once per period, the first time at once; see [`LocalInterval`]. A [`Duration`] is a period of a fixed
    /// rate that leaves missed ticks out.
    pub fn interval(&self, period: impl Into<Period>) -> LocalInterval {
        self.interval_at(Duration::ZERO, period)
    }

    /// Ticks once per period, the first time at `first`; see [`LocalInterval`].
    pub fn interval_at(&self, first: impl Into<When>, period: impl Into<Period>) -> LocalInterval {
        LocalInterval::new(self.sleep(first), period.into())
    }

    /// A handle for other threads: what it schedules is a waker ([`Wakeup`]), which this thread wakes.
    ///
    /// ```
    /// use std::task::Waker;
    /// use std::time::Duration;
    /// use tickwheel::Settings;
    /// use tickwheel_util::local::LocalSleeps;
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
    #[inline]
    pub fn remote(&self) -> Remote<Wakeup> {
        self.shared.remote.clone()
    }

    /// The time by the timer's clock.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Time {
        self.shared.remote.now()
    }

    /// Sleeps that are armed. O(threads).
    #[must_use]
    #[inline]
    pub fn pending(&self) -> usize {
        self.shared.remote.pending()
    }

    /// Wakes the tasks whose sleeps are over, within the builder's budget; see [`EventLoopTimer::poll`](EventLoopTimer).
    ///
    /// For a loop of your own: after its sockets, before its tasks. A waker that panics does not keep the others from
    /// being woken.
    #[inline]
    pub fn fire(&self) -> Polled {
        let shared = &*self.shared;
        let now = self.now();
        let mut fired = shared.fired.take();
        let polled = shared
            .timer
            .borrow_mut()
            .poll(now, |due| fired.push(due.payload.0));
        fired.drain(..).for_each(|waker| quietly(|| waker.wake()));
        shared.fired.set(fired);
        polled
    }

    /// How long the loop may sleep, `None` for ever; see [`EventLoopTimer::poll_timeout`](EventLoopTimer).
    ///
    /// For a loop of your own: when no task is ready any more, right before it blocks.
    #[must_use = "the sleep has been announced: block for this long, then fire"]
    #[inline]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let now = self.now();
        self.shared.timer.borrow_mut().poll_timeout(now)
    }

    /// Fires what is due, as a task of the thread's runtime, until it is dropped; `sleep` is the runtime's own.
    ///
    /// One task at a time: an earlier timer wakes only the one that was polled last. Once that is dropped, timers are
    /// late until another one is polled.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tickwheel::Settings;
    /// use tickwheel_util::local::LocalSleeps;
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
            let more = self.fire().more;
            let now = self.now();
            let sleep_for = || shared.timer.borrow_mut().poll_timeout(now);
            let pause = if more {
                Some(Duration::ZERO)
            } else {
                sleep_for()
            };
            // Before the runtime's sleep is made: that is the user's function, which may arm one of these.
            shared
                .planned
                .set(pause.map_or(Time::MAX, |pause| now.saturating_add(pause)));
            let mut pause = pin!(async {
                match pause {
                    None => pending().await,
                    Some(Duration::ZERO) => let_others_run().await,
                    Some(pause) => _ = sleep(pause).await,
                }
            });
            poll_fn(|cx| match shared.wake.poll(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => pause.as_mut().poll(cx),
            })
            .await;
        }
    }
}

/// Comes back when the other tasks that are ready have had their turn.
#[inline]
async fn let_others_run() {
    let mut is_first = true;
    poll_fn(|cx| {
        if !std::mem::take(&mut is_first) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// For a loop of your own: remotes wake it as the timer's builder was told.
impl From<EventLoopTimer<Wakeup>> for LocalSleeps {
    #[inline]
    fn from(timer: EventLoopTimer<Wakeup>) -> Self {
        Self::with(timer, Arc::default())
    }
}

impl fmt::Debug for LocalSleeps {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSleeps")
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

/// A future of one thread that is ready at a point in time, and never before.
///
/// Made by [`LocalSleeps::sleep`](LocalSleeps::sleep). As a [`Sleep`](tickwheel::Sleep) it is armed at the first
/// poll, counts from when it was made, stays ready, can be [`reset`](Self::reset), and its end cancels the timer. It
/// keeps its thread's timer.
///
/// ```
/// use std::task::{Context, Waker};
/// use std::time::Duration;
/// use tickwheel::Settings;
/// use tickwheel_util::local::LocalSleeps;
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
    stage: SleepStage,
}

/// Where a sleep stands.
#[derive(Clone, Copy)]
enum SleepStage {
    Unarmed,
    /// The timer, and the waker that it has.
    Armed(Key<Wakeup>, (*const (), &'static RawWakerVTable)),
    Elapsed,
}

/// Two wakers with the same parts wake the same task, while one of them lives.
#[inline]
fn parts(waker: &Waker) -> (*const (), &'static RawWakerVTable) {
    (waker.data(), waker.vtable())
}

impl LocalSleep {
    /// When it is ready, on the timer's clock.
    #[must_use]
    pub const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Whether its time has come, as far as it knows: a sleep that was never polled does not ask.
    #[must_use]
    #[inline]
    pub fn is_elapsed(&self) -> bool {
        match self.stage {
            SleepStage::Unarmed => false,
            SleepStage::Armed(key, _) => !self.shared.timer.borrow().is_pending(key),
            SleepStage::Elapsed => true,
        }
    }

    /// Sleeps on, or anew, for a while from now or until a point in time. The future need not be polled for it, unless
    /// its time had come before: then its waker has been woken, and the future wakes again only if it is polled.
    pub fn reset(&mut self, when: impl Into<When>) {
        let shared = &*self.shared;
        self.deadline = shared.time_of(when.into());
        if let SleepStage::Armed(key, _) = self.stage {
            let now = shared.remote.now();
            if shared
                .timer
                .borrow_mut()
                .reschedule(now, key, self.deadline)
                .is_moved()
            {
                return shared.heed(key);
            }
        }
        self.stage = SleepStage::Unarmed;
    }

    /// As [`poll`](Future::poll), for a sleep that lies in something else.
    #[inline]
    pub fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        // The clock is asked only if the time may have come.
        let mut start = None;
        let is_over = match self.stage {
            SleepStage::Unarmed => {
                let start = *start.insert(self.start_of_delay());
                self.deadline <= start && self.deadline < Time::MAX && self.deadline <= self.now()
            }
            _ => self.is_elapsed(),
        };
        if is_over {
            self.stage = SleepStage::Elapsed;
            return Poll::Ready(Ok(()));
        }
        if matches!(self.stage, SleepStage::Armed(_, woken) if woken == parts(cx.waker())) {
            return Poll::Pending;
        }
        // The runtime's code, and before anything is done.
        let waker = cx.waker().clone();
        // Those of the clone, which lives until the timer ends; it may have others than the waker that was cloned.
        let woken = parts(&waker);
        self.disarm();
        // In the place of one that wakes another task.
        let shared = &*self.shared;
        let start = start.unwrap_or_else(|| self.start_of_delay());
        let armed = shared
            .timer
            .borrow_mut()
            .schedule(start, self.deadline, Wakeup(waker));
        match armed {
            Ok(key) => {
                self.stage = SleepStage::Armed(key, woken);
                shared.heed(key);
                Poll::Pending
            }
            Err(error) => {
                let kind = error.kind().clone();
                quietly(|| drop(error));
                Poll::Ready(Err(kind.into()))
            }
        }
    }

    #[inline]
    fn now(&self) -> Time {
        self.shared.remote.now()
    }

    /// Returns the time from which a delay counts: not before now, and two microseconds after it at most. It costs a
    /// third of a clock reading.
    #[inline]
    fn start_of_delay(&self) -> Time {
        self.shared.remote.time_of(Duration::ZERO)
    }

    #[inline]
    fn disarm(&mut self) {
        if let SleepStage::Armed(key, _) = std::mem::replace(&mut self.stage, SleepStage::Unarmed) {
            let waker = self.shared.timer.borrow_mut().cancel(key).into_payload();
            quietly(|| drop(waker));
        }
    }
}

impl Future for LocalSleep {
    type Output = Result<(), SleepError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_sleep(cx)
    }
}

impl Drop for LocalSleep {
    #[inline]
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for LocalSleep {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
