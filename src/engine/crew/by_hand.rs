//! Turns on the threads of callers: each takes the shard from its berth, turns it, and puts it back.

use super::status::EnginePhase;
use crate::contain;
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
        for number in 0..inner.handles.len() {
            let mut shard = match inner.borrow(number) {
                Err(TurnError::Failed { .. }) => continue,
                borrowed => borrowed?,
            };
            let inside = inner.seats[number].enter();
            let turned = contain::call(|| shard.fire_until(inner, None));
            drop(inside);
            match turned {
                Ok(turned) => {
                    fired += turned;
                    inner.give_back(shard);
                }
                Err(message) => failed = Some(inner.end_failed(shard, message)),
            }
        }
        failed.map_or(Ok(fired), Err)
    }
}

impl<T: Send + 'static> Inner<T> {
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
        } else if self.seats[shard].failure().is_some() {
            Err(TurnError::Failed { shard })
        } else {
            Ok(())
        }
    }

    /// Takes a shard to turn it, once no other thread does.
    pub(super) fn borrow(&self, shard: usize) -> Result<ShardWorker<T>, TurnError> {
        let mut state = self.berths.lock();
        loop {
            // Not after a shutdown, which has given it to a worker.
            self.still_turns(shard)?;
            if let Some(shard) = state.berths[shard].take() {
                return Ok(shard);
            }
            state = self.berths.wait(state);
        }
    }

    /// Gives a shard back after a turn by hand or of a `DrivenShard`. If the engine has been told to stop meanwhile, the
    /// shard ends or goes to a worker.
    pub(super) fn give_back(&self, shard: ShardWorker<T>) {
        let mut state = self.berths.lock();
        let (by_hand, phase) = (matches!(self.drive, Drive::Manual), self.status.phase());
        if phase == EnginePhase::Stopped || by_hand && phase > EnginePhase::Started {
            drop(state);
            return self.end_here(shard);
        }
        let number = shard.shard;
        state.berths[number].put(shard);
        self.berths.notify();
        if !(by_hand || self.seats[number].is_driven()) {
            // A shutdown has begun meanwhile.
            self.hand_over(state, number);
        }
    }
}
