//! The names and shapes of `tokio::time`, over tickwheel's engines: `use tickwheel_util::time` in place of
//! `use tokio::time` is all that a program changes, where the types do not go to other crates.
//!
//! | item | what differs from tokio |
//! |---|---|
//! | [`sleep`], [`sleep_until`], [`Sleep`] | `Unpin`; any runtime, any thread |
//! | [`timeout`], [`timeout_at`], [`Timeout`] | a `timeout` that is over before its first poll says so in the next one |
//! | [`interval`], [`interval_at`], [`Interval`], [`MissedTickBehavior`] | nothing |
//! | [`Instant`] | nothing |
//! | [`error::Elapsed`] | its text; also converts into an `io::Error` of the kind `TimedOut`, as tokio's does; `error::Error`, which no call returns, is missing |
//! | `pause`, `advance`, `resume` (feature `test-util`) | a jump is exact to the millisecond from the pause on |
//! | [`DelayQueue`] of `tokio-util` | a key is never used again; [`peek`](DelayQueue::peek) may name another item than the next |
//!
//! tokio's own tests of time run on this module, but for the seven of 106 that
//! [a table](https://github.com/tickwheel/tickwheel/blob/main/docs/TOKIO.md) names with the reason.
//!
//! # Granularity, sharing, contention
//!
//! * No timer is early. In a runtime of tokio a timer of tokio's wakes the engine, so a timer is as late as tokio's own:
//!   by up to 2 ms, with a tick of 1/16 ms. Timers that come due in the same millisecond share a wake-up. On the
//!   process's engine, ticks have 1 ms.
//! * Timeouts of a second or more have a slack of a thousandth, at most 10 ms, so that they share more wake-ups; sleeps
//!   and ticks have none.
//! * Making, arming and dropping a sleep takes no lock, except for a thread's first one in another runtime than before.
//!
//! [What it costs](https://github.com/tickwheel/tickwheel/blob/main/docs/PERFORMANCE.md#in-short) beside tokio's, in
//! figures.
//!
//! # Whose timers
//!
//! With the feature `tokio`, in a runtime of tokio: those of the runtime that polls, wherever the future was made. The
//! first sleep that waits there gives the runtime an engine of one shard, which the runtime turns, so that a timer that
//! fires costs no switch between threads; the engine goes with the runtime. What is polled outside of all runtimes, or
//! outlives its own, goes on by the process's engine; but requests and bodies of the layers of this crate end with the
//! runtime, as if their time were over. Where a test may hold time still, in a runtime of one thread with the feature
//! `test-util`, the time is that of the runtime in which the future was made. The module `tokio_rt` says what a runtime
//! needs, when timers wait, and which threads keep the engine's memory. Elsewhere, on smol for example, which cannot be
//! asked for "the" executor: the process's, which has workers.
//!
//! # Tasks that never wait
//!
//! With the feature `tokio` a loop over what is ready at once yields to other tasks now and then, by the budget that
//! tokio gives to each task, as with `tokio::time`. On other runtimes it does not, as their own timers do not.
//!
//! # Panics
//!
//! Like [`tickwheel::sleep()`]; and [`interval`] of zero, as in tokio.
//!
//! ```
//! use tickwheel_util::time::{self, Duration, Instant};
//!
//! # smol::block_on(async {
//! let start = Instant::now();
//! time::sleep(Duration::from_millis(2)).await;
//! let late = time::timeout(Duration::from_millis(2), std::future::pending::<()>()).await;
//! assert!(late.is_err() && start.elapsed() >= Duration::from_millis(4));
//! # });
//! ```

pub mod delay_queue;
mod instant;
#[cfg(feature = "test-util")]
mod pause;
#[cfg(feature = "test-util")]
pub(crate) mod scale;
mod timeout;

pub use delay_queue::DelayQueue;
pub use instant::Instant;
#[cfg(feature = "test-util")]
pub use pause::advance;
#[cfg(all(feature = "test-util", feature = "tokio"))]
pub use pause::{pause, resume};
pub use std::time::Duration;
pub use timeout::Timeout;

use crate::engine::{RuntimeSleep, spend_budget};
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tickwheel::{Time, When};

/// Errors, as in tokio.
pub mod error {
    pub use tickwheel::Elapsed;
}

/// Later than this, an interval has missed its tick; tokio has the same bound.
const MISSED: Duration = Duration::from_millis(5);

/// Waits until `duration` has passed. It has no slack: it ends in the tick after its time.
///
/// A sleep of zero waits for about a millisecond, as tokio's does: a loop that only sleeps for zero leaves the processor
/// to others. Where a test may hold time still it is ready at once, and yields by the task's budget. A [`timeout`] of
/// zero is over at its first poll.
///
/// A deadline beyond the end of time never comes, on a clock that stands as on the machine's: time ends 584 years after
/// its origin.
#[inline]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep {
        sleep: RuntimeSleep::of_delay(duration),
    }
}

/// Returns the point `duration` after another one, and when a timer for it is due, by `when`.
///
/// Beyond all instants that is never, on every clock, and the point is one that no program lives to see.
fn after(
    start: Instant,
    duration: Duration,
    when: impl FnOnce(Instant) -> When,
) -> (Instant, When) {
    match start.checked_add(duration) {
        Some(point) => (point, when(point)),
        None => (start.far_add(duration), Time::MAX.into()),
    }
}

/// Waits until `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        sleep: RuntimeSleep::new(deadline),
    }
}

/// The future of [`sleep`] and [`sleep_until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct Sleep {
    sleep: RuntimeSleep,
}

impl Sleep {
    /// Returns when it is ready; if that lies before the process's first use of a timer, the time of that use.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.sleep.instant_of(self.sleep.deadline())
    }

    /// Returns whether its time has come, as far as its last poll knows.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.sleep.is_elapsed()
    }

    /// Sleeps until another deadline instead. A task that waits for it need not poll it again.
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let when = self.sleep.when(deadline);
        self.sleep.reset(when);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.sleep.poll(cx));
        spend_budget(cx)
    }
}

/// Gives a future so long.
///
/// A limit of a second or more may be late by a thousandth of itself, 10 ms at most, so that timeouts share their
/// wake-ups; [`timeout_at`] is not.
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), duration.into())
}

/// Gives a future until `deadline`.
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), deadline.into())
}

/// Ticks at once, and then once per `period`, without slack unless [`set_slack`](Interval::set_slack) gives it.
///
/// # Panics
///
/// If `period` is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Ticks at `start`, and then once per `period`.
///
/// # Panics
///
/// If `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero.");
    Interval {
        sleep: sleep_until(start),
        due: start,
        period,
        behavior: MissedTickBehavior::default(),
        slack: Duration::ZERO,
    }
}

/// Says how an [`Interval`] goes on when a tick was missed, that is, polled later than its slack and 5 ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissedTickBehavior {
    /// Ticks without a pause until it has caught up.
    #[default]
    Burst,
    /// Goes on one period from now.
    Delay,
    /// Goes on at the next multiple of the period.
    Skip,
}

/// The ticks of [`interval`] and [`interval_at`].
#[derive(Debug)]
pub struct Interval {
    /// Until the next tick, or a little longer.
    sleep: Sleep,
    /// The next tick's deadline.
    due: Instant,
    period: Duration,
    behavior: MissedTickBehavior,
    slack: Duration,
}

impl Interval {
    /// Waits for the next tick, and returns when it was due. Dropping the future loses no tick.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick; ready with the time at which it was due.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let due = self.due;
        let now = Instant::now();
        let late = now - due;
        // Its owner allows it to be as late as its slack.
        let missed = late > MISSED.saturating_add(self.slack);
        let (start, pause) = match self.behavior {
            MissedTickBehavior::Delay if missed => (now, self.period),
            MissedTickBehavior::Skip if missed => {
                let over = late.as_nanos() % self.period.as_nanos();
                // What has passed since `due` has fewer nanoseconds than a `u64`.
                (now, self.period - Duration::from_nanos(over as u64))
            }
            _ => (due, self.period),
        };
        let (next, when) = after(start, pause, |point| self.sleep.sleep.when(point));
        self.due = next;
        self.sleep.sleep.reset(when.with_slack(self.slack));
        Poll::Ready(due)
    }

    /// Ticks one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Ticks at once.
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Ticks after `after`.
    pub fn reset_after(&mut self, after: Duration) {
        let sleep = &self.sleep.sleep;
        let (deadline, when) = self::after(Instant::now(), after, |point| sleep.when(point));
        self.due = deadline;
        self.sleep.sleep.reset(when);
    }

    /// Ticks at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.due = deadline;
        Pin::new(&mut self.sleep).reset(deadline);
    }

    /// Returns how it goes on when a tick was missed.
    #[must_use]
    pub const fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets how it goes on when a tick was missed.
    pub const fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }

    /// Lets each tick from the next but one on come late by as much as `slack`, so that those of many intervals share
    /// their wake-ups. It does not add up. A tick that is set by a `reset` has none. tokio has no slack; a thousandth
    /// of a period of seconds halves what ticks cost.
    ///
    /// ```
    /// use tickwheel_util::time::{Duration, interval};
    ///
    /// let mut ping = interval(Duration::from_secs(10));
    /// ping.set_slack(Duration::from_millis(10));
    /// ```
    pub const fn set_slack(&mut self, slack: Duration) {
        self.slack = slack;
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }
}
