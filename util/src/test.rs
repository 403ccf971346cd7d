//! A test clock for code that sleeps: virtual time that jumps to the next deadline whenever everything waits.
//!
//! While a test runs in [`run`] or [`paused`], the free functions of its thread ([`sleep`](tickwheel::sleep()),
//! [`timeout`](tickwheel::timeout), [`interval`](tickwheel::interval)) and what this crate builds on them use an engine
//! of the test's own. Its time stands while a task is ready to run. Tests on other threads do not notice.
//!
//! ```
//! use std::time::Duration;
//! use tickwheel_util::test;
//!
//! test::run(async {
//!     let start = test::now();
//!     tickwheel::sleep(Duration::from_secs(3600)).await; // takes no time
//!     assert_eq!(test::now() - start, Duration::from_secs(3600));
//! });
//! ```
//!
//! * Deadlines are exact to the tick of 1 ms; the slack that long delays have otherwise is left out.
//! * An [`Instant`](std::time::Instant) counts by its distance from the machine's present.
//! * A `Timer` of your own, and other threads (workers of a runtime, `spawn_blocking`), keep the machine's time. Nor
//!   does virtual time wait for them, or for sockets, while a timer is pending.

use crate::notify::Notify;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tickwheel::{
    Builder, Clock, Drive, DrivenShard, ManualClock, Pinning, Time, Timer, TimerTask,
    replace_shared,
};

/// Runs a future to its end on this thread, in virtual time.
///
/// Time jumps only when the future waits, with everything in it. Without a pending timer it waits for a wake from
/// another thread.
///
/// # Panics
///
/// If the future does.
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
/// It cannot see whether other tasks are ready. So it lets the executor go round before time jumps: 64 times after the
/// latest timer was armed, cancelled or fired. A longer chain of tasks that wake each other may find time ahead. A free
/// sleep that a task still awaits when this ends panics, as after a stop of the shared engine.
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
    /// Pending timers when they were last counted.
    pending: usize,
    shard: DrivenShard<TimerTask>,
    /// Remembers that the future was woken, and wakes its task.
    woken: Arc<Notify>,
    /// How often the executor goes round before time jumps.
    settle: usize,
    rounds: usize,
    /// The engine of an outer test clock.
    outer: Option<Timer>,
    /// The engine belongs to the thread.
    here: PhantomData<*const ()>,
}

impl TestClock {
    fn enter(settle: usize) -> Self {
        let clock = ManualClock::new();
        let builder = Builder::new()
            .shards(1)
            .pinning(Pinning::Off)
            .drive(Drive::Manual);
        let timer = builder
            .clock(Virtual(clock.clone()))
            .build()
            .expect("these settings are fine");
        let shard = timer.drive_shard(0).expect("no other task drives it");
        let shard = shard.wake_by(|waker| {
            WOKEN.set(true);
            waker.wake();
        });
        let outer = replace_shared(Some(timer.clone()));
        // The future is due for its first poll.
        let woken = Arc::<Notify>::default();
        woken.is_set.store(true, Ordering::SeqCst);
        let (pending, rounds, here) = (0, settle, PhantomData);
        Self {
            clock,
            timer,
            pending,
            shard,
            woken,
            settle,
            rounds,
            outer,
            here,
        }
    }

    fn poll<F: Future>(&mut self, future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.woken.poll(cx).is_ready() {
            let waker = Waker::from(Arc::clone(&self.woken));
            let polled = future.poll(&mut Context::from_waker(&waker));
            self.rounds = self.settle;
            // Woken meanwhile: so is the task.
            if polled.is_ready() || self.woken.is_set.load(Ordering::SeqCst) {
                return polled;
            }
        }
        let before = std::mem::replace(&mut self.pending, self.timer.pending());
        if self.pending != before {
            // A task was at work.
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

impl Drop for TestClock {
    fn drop(&mut self) {
        replace_shared(self.outer.take());
    }
}
