//! Turns on the threads of callers.

use super::berth::Place;
use super::status::EnginePhase;
use crate::engine::inner::{Inner, ShardWorker};
use crate::engine::settings::Drive;
use crate::engine::timer::Timer;
use crate::types::TurnError;

impl<T: Send + 'static> Timer<T> {
    /// Turns every shard at the clock's current time, on the calling thread, and returns how many timers fired here. For
    /// [`Drive::Manual`](crate::Drive::Manual) only.
    ///
    /// When it returns, everything that was due has fired. The next turn fires what came due meanwhile, what handlers
    /// scheduled for now, and what a periodic timer missed besides a call
    /// ([`MissedTicks::Burst`](crate::MissedTicks::Burst)). Shards take their turns one after the other: what a handler
    /// schedules for now on a later one fires in the same call.
    ///
    /// Several threads may call it at once. It passes over a shard that another thread is turning. That thread fires
    /// what was due there when its turn began. These timers are not in the answer of this call, which may return before
    /// their handlers do. Timers that came due there since wait for the next turn. So a thread that stops in a turn, or
    /// whose handler blocks, keeps one shard from the other turners. Handlers run in this call: it is not to be made
    /// with a lock in hand that one of them takes.
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
        (self.inner.calls.turn)(&self.inner)
    }
}

impl<T: Send + 'static> Inner<T> {
    /// See [`Timer::turn`].
    pub(super) fn turn(&self) -> Result<usize, TurnError> {
        if !matches!(self.drive, Drive::Manual) {
            return Err(TurnError::DrivenByWorkers);
        }
        self.may_drive()?;
        let (mut fired, mut failed) = (0, None);
        for shard in 0..self.berths.len() {
            match self.still_turns(shard) {
                Err(TurnError::Failed { .. }) => continue,
                turns => turns?,
            }
            let Some(place) = self.berths[shard].try_lock() else {
                continue;
            };
            match self.turn_at(place, shard, |shard| shard.fire_until(self, None)) {
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

    /// Turns a shard on the calling thread, once no other thread does; see [`turn_at`](Self::turn_at).
    pub(super) fn turn_here<R>(
        &self,
        number: usize,
        turn: impl FnOnce(&mut ShardWorker<T>) -> R,
    ) -> Result<R, TurnError> {
        // Before it waits for a worker that may fire for long before it ends.
        self.still_turns(number)?;
        self.turn_at(self.berths[number].lock(), number, turn)
    }

    /// Turns a shard in its place. Then ends it if the turn has panicked, or if the engine has been told to stop
    /// meanwhile.
    fn turn_at<R>(
        &self,
        place: Place<'_, T>,
        number: usize,
        turn: impl FnOnce(&mut ShardWorker<T>) -> R,
    ) -> Result<R, TurnError> {
        let turned = self.berths[number].turn(place, |shard| {
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
