//! [`Alarmed`]: a shard, and what wakes for its next turn.

use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel::{DrivenShard, Timer, TurnError};

/// Wakes when a time is over, by the runtime's own means.
pub(crate) trait Alarm: Sized + Send + Unpin + 'static {
    /// Makes one, on the runtime of the calling thread.
    fn new() -> Self;

    /// Sets it to go off after `pause`, and not when it was set to before.
    fn set(&mut self, pause: Duration);

    /// Notes that it need not go off any more. By default it does once more, which costs a turn.
    fn unset(&mut self) {}

    /// Returns what has the shard turned soon, called by any thread that sets a timer before the others.
    fn waker(&mut self, task: &Waker) -> Waker {
        task.clone()
    }

    /// Returns whether it has gone off since it was set or last asked; wakes when it does.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// A shard and the alarm for its next turn.
pub(super) struct Alarmed<T: Send + 'static, A> {
    shard: DrivenShard<T>,
    alarm: A,
}

/// When a shard is turned that could not be turned inside of another one's handler, or whose task could not be woken.
pub(super) const SOON: Duration = Duration::from_millis(1);

impl<T: Send + 'static, A: Alarm> Alarmed<T, A> {
    /// Takes a shard from its worker.
    pub(super) fn take(timer: &Timer<T>, shard: usize, alarm: A) -> Result<Self, TurnError> {
        let shard = timer.drive_shard(shard)?;
        Ok(Self { shard, alarm })
    }

    /// Turns the shard and sets the alarm, which wakes `at_alarm`; returns whether another turn must follow at once.
    ///
    /// A timer that comes before the others wakes `task`.
    ///
    /// # Errors
    ///
    /// If this cannot turn the shard any more. Dropping it gives the shard to a worker.
    pub(super) fn turn(&mut self, at_alarm: &Waker, task: &Waker) -> Result<bool, TurnError> {
        let mut cx = Context::from_waker(at_alarm);
        // Perhaps it has gone off. From here on it goes off for the time that is set below.
        let _ = self.alarm.poll(&mut cx);
        let pause = match self.shard.turn(&self.alarm.waker(task)) {
            Ok(None) => {
                self.alarm.unset();
                return Ok(false);
            }
            Ok(Some(Duration::ZERO)) => return Ok(true),
            Ok(Some(pause)) => pause,
            // A handler of another shard has the executor run this task. Not at once: the handler may run whatever is
            // ready until nothing is.
            Err(TurnError::InsideHandler) => SOON,
            Err(error) => return Err(error),
        };
        self.alarm.set(pause);
        Ok(self.alarm.poll(&mut cx).is_ready())
    }

    /// Sets the alarm for a shard whose task could not be woken: no producer calls a shard that has announced no sleep.
    pub(super) fn leave_to_alarm(&mut self, at_alarm: &Waker) {
        let mut cx = Context::from_waker(at_alarm);
        self.alarm.set(SOON);
        while self.alarm.poll(&mut cx).is_ready() {
            self.alarm.set(SOON);
        }
    }
}
