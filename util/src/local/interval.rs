//! `LocalInterval`: one tick per period, on one thread.

use super::LocalSleep;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::{MissedTicks, Period, SleepError, Time, When};

/// One tick per period, by the timer of its thread: `interval.tick().await`; see [`tickwheel::Interval`], which it
/// behaves like.
///
/// Made by [`interval`](super::LocalSleeps::interval) and [`interval_at`](super::LocalSleeps::interval_at).
/// It does not drift: each deadline is counted from the one before. Ticks that were missed are left out; [`missed_ticks`](Self::missed_ticks) changes that. With the
/// feature `stream` an `IntervalStream` makes a stream of it.
///
/// ```
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
/// use tickwheel::{ManualClock, Settings};
/// use tickwheel_util::local::LocalSleeps;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let sleeps = LocalSleeps::new(Settings::new().clock(clock.clone()))?;
/// let mut beat = sleeps.interval(Duration::from_secs(5));
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(beat.poll_tick(&mut cx).is_ready()); // the first one at once
/// assert!(beat.poll_tick(&mut cx).is_pending());
/// clock.advance(Duration::from_secs(5));
/// sleeps.fire();
/// assert_eq!(beat.poll_tick(&mut cx), Poll::Ready(Ok(clock.now())));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LocalInterval {
    sleep: LocalSleep,
    period: Period,
    /// The next tick's deadline; the last one's while `resting`.
    due: Time,
    /// The next tick is counted from when it is asked for.
    resting: bool,
}

impl LocalInterval {
    /// Ticks for the first time when `sleep` is over.
    #[inline]
    pub(super) fn new(sleep: LocalSleep, period: Period) -> Self {
        Self {
            due: sleep.deadline(),
            sleep,
            period,
            resting: false,
        }
    }

    /// Returns the next tick: its deadline, on the timer's clock, once that has passed. A call that is dropped before
    /// it is ready misses no tick.
    ///
    /// # Errors
    ///
    /// If `max_pending` timers are armed; the next call tries again.
    #[inline]
    pub async fn tick(&mut self) -> Result<Time, SleepError> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Like [`tick`](Self::tick), for futures written by hand.
    ///
    /// # Errors
    ///
    /// Like [`tick`](Self::tick).
    #[inline]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<Time, SleepError>> {
        if self.resting {
            // Reads the clock, which is the user's: if that panics, the next call begins here again.
            self.proceed();
            self.resting = false;
        }
        ready!(self.sleep.poll_sleep(cx))?;
        let due = self.due;
        if self.period.is_fixed_delay() {
            self.resting = true;
        } else {
            self.proceed();
        }
        Poll::Ready(Ok(due))
    }

    /// Sleeps until the tick after `due`, which is handled now.
    #[inline]
    fn proceed(&mut self) {
        let next = self.period.next(self.due, self.sleep.now());
        self.sleep.reset(next);
        self.due = next;
    }

    /// Sets what happens to ticks that were missed, and makes the period one of a fixed rate.
    #[must_use]
    #[inline]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Self {
        self.period = Period::fixed_rate(self.period.length(), missed);
        self
    }

    /// Goes on with a tick one period from now, and counts the later ones from there.
    #[inline]
    pub fn reset(&mut self) {
        self.reset_after(self.period.length());
    }

    /// Goes on with a tick now, and counts the later ones from there.
    #[inline]
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Goes on with a tick after a while or at a point in time, and counts the later ones from there.
    pub fn reset_after(&mut self, when: impl Into<When>) {
        self.sleep.reset(when);
        self.due = self.sleep.deadline();
        self.resting = false;
    }

    /// Returns the period of the interval.
    #[must_use]
    #[inline]
    pub const fn period(&self) -> Period {
        self.period
    }
}
