//! Closures as payloads of an event loop's timer.

use super::remote::Remote;
use super::timer::EventLoopTimer;
use crate::engine::TimerTask;
use crate::time::{Time, When};
use crate::types::{Key, ScheduleError};

impl EventLoopTimer<TimerTask> {
    /// Schedules a closure to fire after a delay from `now`, or at a point in time, rounded up to the next
    /// tick; the loop runs it where it polls.
    ///
    /// As [`schedule`](Self::schedule) with [`TimerTask::new`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{EventLoopTimer, TimerTask, Settings};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer: EventLoopTimer<TimerTask> = Settings::new().build_with_waker(|| ())?;
    /// let now = timer.now();
    /// timer.run_after(now, Duration::ZERO, || println!("in this loop"))?;
    /// assert_eq!(timer.poll(now, |expired| expired.payload.run()).fired, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule). The closure is in the error, as a task.
    pub fn run_after(
        &mut self,
        now: Time,
        when: impl Into<When>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Key<TimerTask>, ScheduleError<TimerTask>> {
        self.schedule(now, when, TimerTask::new(run))
    }
}

impl Remote<TimerTask> {
    /// Schedules a closure to fire after a delay, or at a point in time, rounded up to the next tick; the
    /// loop runs it where it polls.
    ///
    /// As [`schedule`](Self::schedule) with [`TimerTask::new`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{EventLoopTimer, TimerTask, Settings};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer: EventLoopTimer<TimerTask> = Settings::new().build_with_waker(|| ())?;
    /// let remote = timer.remote();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| remote.run_after(Duration::ZERO, || println!("in the loop's thread")));
    /// });
    /// assert_eq!(timer.poll(timer.now(), |expired| expired.payload.run()).fired, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule). The closure is in the error, as a task.
    pub fn run_after(
        &self,
        when: impl Into<When>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Key<TimerTask>, ScheduleError<TimerTask>> {
        self.schedule(when, TimerTask::new(run))
    }
}
