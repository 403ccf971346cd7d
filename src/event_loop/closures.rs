//! Closures as payloads of an event loop's timer.

use super::remote::Remote;
use super::timer::EventLoopTimer;
use crate::engine::Task;
use crate::time::Time;
use crate::types::{Key, ScheduleError};
use std::time::Duration;

impl EventLoopTimer<Task> {
    /// Schedules a closure to fire `delay` after `now`, rounded up to the next tick; the loop runs it where it polls.
    ///
    /// As [`schedule`](Self::schedule) with [`Task::new`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{EventLoopTimer, Task};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut timer: EventLoopTimer<Task> = EventLoopTimer::builder().build_with_waker(|| ())?;
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
        delay: Duration,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Key, ScheduleError<Task>> {
        self.schedule(now, delay, Task::new(run))
    }
}

impl Remote<Task> {
    /// Schedules a closure to fire `delay` from now, rounded up to the next tick; the loop runs it where it polls.
    ///
    /// As [`schedule`](Self::schedule) with [`Task::new`].
    ///
    /// # Errors
    ///
    /// As [`schedule`](Self::schedule). The closure is in the error, as a task.
    pub fn run_after(
        &self,
        delay: Duration,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<Key, ScheduleError<Task>> {
        self.schedule(delay, Task::new(run))
    }
}
