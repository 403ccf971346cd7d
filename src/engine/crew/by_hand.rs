//! Turns on the threads of callers.

use super::status::EnginePhase;
use crate::engine::inner::{Inner, ShardWorker};
use crate::engine::settings::Drive;
use crate::engine::timer::Timer;
use crate::types::TurnError;

impl<T: Send + 'static> Timer<T> {
    /// Turns every shard at the clock's current time, on the calling thread, and returns how many timers fired. For
    /// [`Drive::Manual`](crate::Drive::Manual) only.
    ///
    /// When it returns, everything that was due has fired. The next turn fires what came due meanwhile, what handlers
    /// scheduled for now, and what a periodic timer missed besides a call
    /// ([`MissedTicks::Burst`](crate::MissedTicks::Burst)). Shards take their turns one after the other: what a handler
    /// schedules for now on a later one fires in the same call.
    ///
    /// A shard that another thread is turning is waited for, its handlers included, without a limit. So this is not to
    /// be called with a lock in hand that a handler takes; and where two threads turn engines in each other's handlers,
    /// each waits for the other.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Builder, Drive};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Builder::new().drive(Drive::Manual).build()?;
    /// timer.run_after(Duration::ZERO, || println!("on this thread"))?;
    /// assert_eq!(timer.turn(), Ok(1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the engine has workers, is stopped, or the call comes from a handler; and if a shard has ended by a panic in
    /// this turn, after the turns of the others.
    pub fn turn(&self) -> Result<usize, TurnError> {
        let inner = &*self.inner;
        if !matches!(inner.drive, Drive::Manual) {
            return Err(TurnError::DrivenByWorkers);
        }
        inner.may_drive()?;
        let (mut fired, mut failed) = (0, None);
        for shard in 0..inner.berths.len() {
            match inner.still_turns(shard) {
                Err(TurnError::Failed { .. }) => continue,
                turns => turns?,
            }
            match inner.turn_here(shard, |shard| shard.fire_until(inner, None)) {
                Ok(turned) => fired += turned,
                Err(error @ TurnError::Failed { .. }) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        failed.map_or(Ok(fired), Err)
    }
}

impl<T> Inner<T> {
    /// Says why the calling thread cannot drive a shard. Takes no lock: a fork may have copied it in other hands.
    pub(super) fn may_drive(&self) -> Result<(), TurnError> {
        if self.is_inside() {
            return Err(TurnError::InsideHandler);
        }
        if self.status.is_forked() {
            Err(TurnError::Stopped)
        } else {
            Ok(())
        }
    }

    /// Says why a shard cannot be turned any more.
    pub(super) fn still_turns(&self, shard: usize) -> Result<(), TurnError> {
        if self.status.phase() > EnginePhase::Started {
            Err(TurnError::Stopped)
        } else if self.berths[shard].failure().is_some() {
            Err(TurnError::Failed { shard })
        } else {
            Ok(())
        }
    }

    /// Turns a shard on the calling thread, once no other thread does. Then ends it if the turn has panicked, or if the
    /// engine has been told to stop meanwhile.
    pub(super) fn turn_here<R>(
        &self,
        number: usize,
        turn: impl FnOnce(&mut ShardWorker<T>) -> R,
    ) -> Result<R, TurnError> {
        // Before it waits for a worker that may fire for long before it ends.
        self.still_turns(number)?;
        let turned = self.berths[number].turn(|shard| {
            // Not after a shutdown, which has given it to a worker.
            self.still_turns(number)?;
            Ok(turn(shard))
        });
        match turned {
            Some(Ok(turned)) => {
                self.end_if_told(number);
                turned
            }
            Some(Err(failed)) => {
                self.end_here(failed);
                Err(TurnError::Failed { shard: number })
            }
            None => self.still_turns(number).and(Err(TurnError::Stopped)),
        }
    }
}
