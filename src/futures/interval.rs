//! `Interval`: one tick per period.

use super::error::SleepError;
use super::sleep::{Sleep, shared};
use crate::engine::{Timer, WakeTimer};
use crate::time::{Period, Time, When};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// One tick per period: `interval.tick().await`.
///
/// Made by [`interval()`], [`interval_at`] and [`Timer::interval`]. It does not drift: each deadline is counted from
/// the one before, not from the time at which a task asked for it. [`Period`] says what happens to ticks that were
/// missed because no task did ([`MissedTicks`](crate::MissedTicks)); with a fixed delay the pause begins when the next
/// tick is asked for.
///
/// ```
/// use std::task::{Context, Waker};
/// use std::time::Duration;
/// use tickwheel::{Interval, MissedTicks, Period, SleepError};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// async fn three(mut beat: Interval) -> Result<(), SleepError> {
///     for _ in 0..3 {
///         println!("due at {}", beat.tick().await?);
///     }
///     Ok(())
/// }
///
/// // By hand:
/// let mut beat = tickwheel::interval(Period::fixed_rate(Duration::from_secs(60), MissedTicks::Skip)?);
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(beat.poll_tick(&mut cx).is_ready()); // the first one at once
/// assert!(beat.poll_tick(&mut cx).is_pending());
/// beat.reset(Duration::from_secs(5)); // the next one earlier
/// assert_eq!(beat.period().length(), Duration::from_secs(60));
/// # drop(three(beat));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    period: Period,
    /// The last tick's deadline, if the next one is counted from when it is asked for.
    resting: Option<Time>,
}

/// Ticks once per period on the process's shared engine, the first time at once; see [`Interval`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{MissedTicks, Period};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut heartbeat = tickwheel::interval(Period::fixed_rate(Duration::from_secs(5), MissedTicks::Skip)?);
/// let beat = async move {
///     heartbeat.tick().await?; // at once
///     heartbeat.tick().await   // five seconds later
/// };
/// # drop(beat);
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// Like [`sleep()`](crate::sleep).
pub fn interval(period: Period) -> Interval {
    Interval::new(shared(), Duration::ZERO.into(), period)
}

/// Ticks once per period on the process's shared engine, the first time at `first`; see [`Interval`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use tickwheel::{MissedTicks, Period, interval_at};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let minute = Duration::from_secs(60);
/// let period = Period::fixed_rate(minute, MissedTicks::Skip)?;
/// let beat = interval_at(Instant::now() + minute, period); // not at once
/// # drop(beat);
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// Like [`sleep()`](crate::sleep).
pub fn interval_at(first: Instant, period: Period) -> Interval {
    Interval::new(shared(), first.into(), period)
}

impl Timer {
    /// Ticks once per period, the first time at `first`; see [`Interval`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{MissedTicks, Period, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let minute = Duration::from_secs(60);
    /// let beat = timer.interval(minute, Period::fixed_rate(minute, MissedTicks::Skip)?);
    /// # drop(beat);
    /// # Ok(()) }
    /// ```
    pub fn interval(&self, first: impl Into<When>, period: Period) -> Interval {
        Interval::new(WakeTimer::of(self), first.into(), period)
    }
}

impl Interval {
    fn new(wake_timer: WakeTimer, first: When, period: Period) -> Self {
        Self { sleep: Sleep::new(wake_timer, first), period, resting: None }
    }

    /// Returns the next tick: its deadline, on the engine's clock, once that has passed.
    ///
    /// A call that is dropped before it is ready misses no tick.
    ///
    /// # Errors
    ///
    /// As a [`Sleep`]; the next call tries again.
    pub async fn tick(&mut self) -> Result<Time, SleepError> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Like [`tick`](Self::tick), for futures written by hand.
    ///
    /// # Errors
    ///
    /// Like [`tick`](Self::tick).
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<Time, SleepError>> {
        if let Some(last) = self.resting {
            // Reads the clock, which is the user's: if that panics, the next call begins here again.
            self.sleep.reset_after(self.period, last);
            self.resting = None;
        }
        match self.sleep.poll_sleep(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {}
        }
        let due = self.sleep.deadline();
        if self.period.is_fixed_delay() {
            self.resting = Some(due);
        } else {
            self.sleep.reset_after(self.period, due);
        }
        Poll::Ready(Ok(due))
    }

    /// Goes on with a tick after a while or at a point in time, and counts the later ones from there.
    pub fn reset(&mut self, when: impl Into<When>) {
        self.sleep.reset(when);
        self.resting = None;
    }

    /// Returns the period of the interval.
    #[must_use]
    pub const fn period(&self) -> Period {
        self.period
    }
}
