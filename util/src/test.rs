//! A test clock for code that sleeps: virtual time that jumps to the next deadline whenever everything waits.
//!
//! While a test runs in [`run`] or [`paused`], the functions of [`time`](crate::time), the free functions of tickwheel
//! ([`sleep`](tickwheel::sleep()), [`timeout`](tickwheel::timeout), [`interval`](tickwheel::interval)) and what this
//! crate builds on them use an engine of the test's own on its thread, and [`time::Instant`](crate::time::Instant) its
//! clock. Time stands while a task is ready to run. Tests on other threads do not notice.
//!
//! ```
//! use tickwheel_util::test;
//! use tickwheel_util::time::{Duration, Instant, sleep};
//!
//! test::run(async {
//!     let start = Instant::now();
//!     sleep(Duration::from_secs(3600)).await; // takes no time
//!     assert_eq!(start.elapsed(), Duration::from_secs(3600));
//! });
//! ```
//!
//! * Deadlines are exact to the tick of 1 ms; the slack that long delays have otherwise is left out. Each run of a test
//!   sees the same times, to the nanosecond.
//! * A thread has one test clock at a time.
//! * An [`Instant`] of the standard library keeps the machine's time. As a deadline it counts by its
//!   distance from the machine's present.
//! * A `Timer` of your own, and other threads (workers of a runtime, `spawn_blocking`), keep the machine's time. Nor
//!   does virtual time wait for them, or for sockets, while a timer is pending.

use crate::notify::Notify;
use crate::time::Instant;
use crate::time::scale::Scale;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tickwheel::__internal::{in_test_time, replace_shared, wake_by};
use tickwheel::{Builder, Clock, Drive, DrivenShard, ManualClock, Pinning, Time, Timer, TimerTask};

/// Runs a future to its end on this thread, in virtual time.
///
/// Time jumps only when the future waits, with everything in it. Without a pending timer it waits for a wake from
/// another thread.
///
/// # Panics
///
/// If the future does, or if the calling thread has a test clock.
pub fn run<F: Future>(future: F) -> F::Output {
    struct Thread(std::thread::Thread);
    impl Wake for Thread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(in_virtual_time(future, 0));
    let waker = Waker::from(Arc::new(Thread(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Runs a future in virtual time on an executor of one thread, together with the tasks that it spawns there.
///
/// ```
/// # // The attribute's function runs only in tests.
/// # fn main() { tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(gives_up()) }
/// # /*
/// #[tokio::test]
/// # */
/// async fn gives_up() {
///     tickwheel_util::test::paused(async {
///         let answer = tokio::spawn(tickwheel::sleep(std::time::Duration::from_secs(60)));
///         let limit = std::time::Duration::from_secs(5);
///         assert!(tickwheel::timeout(limit, answer).await.is_err());
///     })
///     .await;
/// }
/// ```
///
/// It cannot see whether other tasks are ready. So it lets the executor go round before time jumps: 64 times in which no
/// timer is armed, moved, cancelled or fired. A longer chain of tasks that wake each other may find time ahead. A free
/// sleep that a task still awaits when this ends panics, as after a stop of the shared engine.
///
/// # Panics
///
/// If the future does, or if the calling thread has a test clock: two tests that take turns on one thread would see
/// each other's time.
pub async fn paused<F: Future>(future: F) -> F::Output {
    in_virtual_time(future, 64).await
}

/// Returns the virtual time of the calling thread; outside of a test clock the machine's.
#[must_use]
pub fn now() -> Time {
    tickwheel::sleep(Duration::ZERO).now()
}

/// Returns the engine of the calling thread's test clock.
pub(crate) fn engine() -> Option<Timer> {
    let timer = replace_shared(None);
    replace_shared(timer.clone());
    timer
}

async fn in_virtual_time<F: Future>(future: F, settle: usize) -> F::Output {
    let mut clock = TestClock::enter(settle);
    // Dropped before the clock: its destructors are in virtual time, too.
    let mut future = pin!(future);
    poll_fn(|cx| clock.poll(future.as_mut(), cx)).await
}

thread_local! {
    /// The latest turn has called a waker.
    static WOKEN: Cell<bool> = const { Cell::new(false) };
    /// The test clock of this thread, and the instant at which it began.
    static CLOCK: RefCell<Option<(ManualClock, Instant)>> = const { RefCell::new(None) };
}

/// Calls `read` with the test clock of the calling thread, if it has one, and the instant at which it began.
fn with_clock<R>(read: impl FnOnce(&ManualClock, Instant) -> R) -> Option<R> {
    // A thread that ends has no thread-locals any more.
    let with = CLOCK.try_with(|clock| {
        clock
            .borrow()
            .as_ref()
            .map(|(clock, start)| read(clock, *start))
    });
    with.ok().flatten()
}

/// Returns the scale of the calling thread's test clock, if it has one.
pub(crate) fn scale() -> Option<Scale> {
    with_clock(|_, start| Scale::new(start, Time::ZERO))
}

/// Returns the present of the calling thread's test clock, if it has one.
pub(crate) fn instant() -> Option<Instant> {
    with_clock(|clock, start| Scale::new(start, Time::ZERO).instant_of(clock.now()))
}

/// Returns whether the calling thread's time may be that of a test.
pub(crate) fn is_virtual() -> bool {
    #[cfg(feature = "tokio")]
    if crate::tokio_rt::pausable::is_current() {
        return true;
    }
    scale().is_some()
}

/// Moves the calling thread's test clock and fires what is due then; false if it has none.
pub(crate) fn advance(duration: Duration) -> bool {
    let Some(clock) = with_clock(|clock, _| clock.clone()) else {
        return false;
    };
    clock.advance(duration);
    if let Some(timer) = engine() {
        // Inside of a turn it is refused; what is due then fires in the next one.
        let _ = timer.turn();
    }
    true
}

/// A clock that does not say that it is moved by hand: so a turn says how long to wait.
struct Virtual(ManualClock);

impl Clock for Virtual {
    fn now(&self) -> Time {
        self.0.now()
    }
}

/// The engine of one future, and the time that its thread sees.
struct TestClock {
    clock: ManualClock,
    timer: Timer,
    /// How many calls had armed, moved or cancelled a timer when they were last counted.
    calls: u64,
    shard: DrivenShard<TimerTask>,
    /// Remembers that the future was woken, and wakes its task.
    woken: Arc<Notify>,
    /// How often the executor goes round before time jumps.
    settle: usize,
    rounds: usize,
    /// What the free functions of the thread used before.
    before: Option<Timer>,
    /// The engine belongs to the thread.
    here: PhantomData<*const ()>,
}

impl TestClock {
    fn enter(settle: usize) -> Self {
        assert!(
            scale().is_none(),
            "this thread has a test clock already: run one test after the other, or each on its thread"
        );
        let clock = ManualClock::new();
        let builder = Builder::new()
            .shards(1)
            .pinning(Pinning::Off)
            .drive(Drive::Manual);
        let builder = builder.clock(Virtual(clock.clone()));
        let timer = in_test_time(builder)
            .build()
            .expect("these settings are fine");
        let shard = timer.drive_shard(0).expect("no other task drives it");
        let shard = wake_by(shard, |waker| {
            WOKEN.set(true);
            waker.wake();
        });
        CLOCK.set(Some((clock.clone(), std::time::Instant::now().into())));
        let before = replace_shared(Some(timer.clone()));
        // The future is due for its first poll.
        let woken = Arc::new(Notify::woken());
        let (calls, rounds, here) = (0, settle, PhantomData);
        Self {
            clock,
            timer,
            calls,
            shard,
            woken,
            settle,
            rounds,
            before,
            here,
        }
    }

    fn poll<F: Future>(&mut self, future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.woken.poll(cx).is_ready() {
            let waker = Waker::from(Arc::clone(&self.woken));
            let polled = future.poll(&mut Context::from_waker(&waker));
            self.rounds = self.settle;
            // Woken meanwhile: so is the task.
            if polled.is_ready() || self.woken.is_set() {
                return polled;
            }
        }
        if self.rounds == 0 && self.has_worked() {
            self.rounds = self.settle;
        }
        if self.rounds > 0 {
            self.rounds -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            WOKEN.set(false);
            let pause = self
                .shard
                .turn(cx.waker())
                .expect("the test's engine is not stopped");
            if WOKEN.get() {
                self.rounds = self.settle;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Some(pause) = pause else {
                // The next timer wakes this.
                self.rounds = self.settle;
                return Poll::Pending;
            };
            self.clock.advance(pause);
        }
    }
}

impl TestClock {
    /// Returns whether a task has armed, moved or cancelled a timer since this was asked last.
    fn has_worked(&mut self) -> bool {
        let stats = self.timer.stats();
        let shard = &stats.shards[0];
        let calls = shard.scheduled + shard.rescheduled + shard.cancelled;
        std::mem::replace(&mut self.calls, calls) != calls
    }
}

impl Drop for TestClock {
    fn drop(&mut self) {
        // A thread that ends has no thread-locals any more.
        let _ = CLOCK.try_with(RefCell::take);
        replace_shared(self.before.take());
    }
}
