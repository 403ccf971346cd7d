//! `Interval`: one tick per period.

use super::error::SleepError;
use super::sleep::{Sleep, shared};
use crate::engine::{Timer, WakeTimer};
use crate::time::{Grid, MissedTicks, Period, Time, When};
use std::convert::Infallible;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// One tick per period: `interval.tick().await`.
///
/// Made by [`interval()`], [`interval_at`] and [`Timer::interval`]. It does not drift: each deadline is counted from
/// the one before, not from the time at which a task asked for it. Ticks that were missed because no task asked are
/// left out; [`missed_ticks`](Self::missed_ticks) changes that. With a [`Period`] of a fixed delay the pause begins
/// when the next tick is asked for. An engine that is shut down by [`FireAll`](crate::Shutdown::FireAll) says the next
/// tick before its time.
///
/// ```
/// use std::task::{Context, Waker};
/// use std::time::Duration;
/// use tickwheel::Interval;
///
/// async fn three(mut beat: Interval) {
///     for _ in 0..3 {
///         println!("due at {}", beat.tick().await);
///     }
/// }
///
/// // By hand:
/// let mut beat = tickwheel::interval(Duration::from_secs(60));
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(beat.poll_tick(&mut cx).is_ready()); // the first one at once
/// assert!(beat.poll_tick(&mut cx).is_pending());
/// beat.reset_after(Duration::from_secs(5)); // the next one earlier
/// assert_eq!(beat.period().length(), Duration::from_secs(60));
/// # drop(three(beat));
/// ```
#[derive(Debug)]
pub struct Interval<E = Infallible> {
    /// Until the next tick, or a little longer.
    sleep: Sleep<E>,
    period: Period,
    /// The next tick's deadline; the last one's while `resting`.
    due: Time,
    /// The next tick is counted from when it is asked for.
    resting: bool,
    slack: Grid,
}

/// Ticks once per period on the process's shared engine, the first time at once; see [`Interval`].
///
/// A [`Duration`] is a period of a fixed rate that leaves missed ticks out. Ticks have no slack, unless
/// [`with_slack`](Interval::with_slack) gives it to them.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{MissedTicks, interval};
///
/// let beat = async {
///     let mut heartbeat = interval(Duration::from_secs(5)).missed_ticks(MissedTicks::Delay);
///     heartbeat.tick().await; // at once
///     heartbeat.tick().await; // five seconds later
/// };
/// # drop(beat);
/// ```
///
/// # Panics
///
/// Like [`sleep()`](crate::sleep).
pub fn interval(period: impl Into<Period>) -> Interval {
    interval_at(Duration::ZERO, period)
}

/// Ticks once per period on the process's shared engine, the first time at `first`; see [`Interval`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::interval_at;
///
/// let minute = Duration::from_secs(60);
/// let beat = interval_at(minute, minute); // not at once
/// # drop(beat);
/// ```
///
/// # Panics
///
/// Like [`sleep()`](crate::sleep).
pub fn interval_at(first: impl Into<When>, period: impl Into<Period>) -> Interval {
    let (wake_timer, start) = shared();
    Interval::new(wake_timer, first.into().counted_from(start), period.into())
}

impl Timer {
    /// Ticks once per period, the first time at once; see [`Interval`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Period, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// let minute = Duration::from_secs(60);
    /// let beat = timer.interval(minute);
    /// let pause = timer.interval_at(minute, Period::fixed_delay(minute)); // not at once
    /// # drop((beat, pause));
    /// # Ok(()) }
    /// ```
    pub fn interval(&self, period: impl Into<Period>) -> Interval<SleepError> {
        self.interval_at(Duration::ZERO, period)
    }

    /// Ticks once per period, the first time at `first`; see [`Interval`].
    pub fn interval_at(
        &self,
        first: impl Into<When>,
        period: impl Into<Period>,
    ) -> Interval<SleepError> {
        Interval::new(WakeTimer::of(self), first.into(), period.into())
    }
}

impl Interval {
    /// Returns the next tick: its deadline, on the engine's clock, once that has passed.
    ///
    /// A call that is dropped before it is ready misses no tick.
    ///
    /// # Panics
    ///
    /// Like a [`Sleep`].
    pub async fn tick(&mut self) -> Time {
        poll_fn(|cx| self.poll_tick(cx))
            .await
            .unwrap_or_else(|error| error.raise())
    }
}

impl Interval<SleepError> {
    /// Returns the next tick: its deadline, on the engine's clock, once that has passed.
    ///
    /// A call that is dropped before it is ready misses no tick.
    ///
    /// # Errors
    ///
    /// Like a [`Sleep`]; the next call tries again.
    pub async fn tick(&mut self) -> Result<Time, SleepError> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }
}

impl<E> Interval<E> {
    fn new(wake_timer: WakeTimer, first: When, period: Period) -> Self {
        let sleep = Sleep::new(wake_timer, first);
        Self {
            due: sleep.deadline(),
            sleep,
            period,
            resting: false,
            slack: Grid::EXACT,
        }
    }

    /// Lets each tick after the first come late by as much as `slack`, so that those of many intervals share their
    /// wake-ups: see [`When::with_slack`]. It does not add up. A thousandth of a period of seconds is what timeouts
    /// have.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let ping =
    ///     tickwheel::interval(Duration::from_secs(10)).with_slack(Duration::from_millis(10));
    /// # drop(ping);
    /// ```
    #[must_use]
    pub const fn with_slack(mut self, slack: Duration) -> Self {
        self.slack = Grid::within(slack);
        self
    }

    /// Sets what happens to ticks that were missed, and makes the period one of a fixed rate.
    #[must_use]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Self {
        self.period = Period::fixed_rate(self.period.length(), missed);
        self
    }

    /// Like [`tick`](Interval::tick), for futures written by hand.
    ///
    /// # Errors
    ///
    /// Like [`Sleep::poll_sleep`].
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
    fn proceed(&mut self) {
        let now = self.sleep.now();
        let next = self.period.next(self.due, now);
        self.sleep.reset(When::from(next).on_grid(self.slack));
        self.due = next;
    }

    /// Goes on with a tick one period from now, and counts the later ones from there.
    pub fn reset(&mut self) {
        self.reset_after(self.period.length());
    }

    /// Goes on with a tick now, and counts the later ones from there.
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
    pub const fn period(&self) -> Period {
        self.period
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::{Builder, Drive, ManualClock, Pinning};
    use std::sync::OnceLock;
    use std::task::Waker;

    #[test]
    fn the_slack_of_ticks_does_not_add_up() {
        let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
        let builder = Builder::new()
            .shards(1)
            .pinning(Pinning::Off)
            .drive(Drive::Manual);
        // Never dropped, as the shared one, and reachable for the sanitizer that looks for leaks.
        static ENGINE: OnceLock<Timer> = OnceLock::new();
        let timer = ENGINE.get_or_init(|| builder.clock(clock.clone()).build().unwrap());
        let shared = WakeTimer::of_static(timer);
        let interval: Interval = Interval::new(shared, Duration::ZERO.into(), minute.into());
        let mut interval = interval.with_slack(Duration::from_millis(10));
        let mut cx = Context::from_waker(Waker::noop());
        let (mut polled, mut late) = (0, Duration::ZERO);
        for n in 0..1000 {
            while interval.poll_tick(&mut cx) != Poll::Ready(Ok(Time::ZERO + n * minute)) {
                polled += 1;
                assert!(polled < 10_000, "tick {n} at {}", clock.now());
                clock.set(interval.sleep.deadline());
                timer.turn().unwrap();
                late = late.max(clock.now() - interval.due);
                // The grid, and the tick.
                clock.advance(Duration::from_millis(1));
                timer.turn().unwrap();
            }
        }
        assert!(
            (5..9).contains(&late.as_millis()),
            "{late:?}: the grid of 8.4 ms is used"
        );
    }
}
