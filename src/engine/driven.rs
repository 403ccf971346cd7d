//! Shards that have no worker at the moment: an engine turned by hand, and [`DrivenShard`], which a task of a runtime
//! turns.
//!
//! Between two turns the shard lies idle in its berth. So a stop finds it there and waits for no task, and a
//! worker can take it over when the task is gone.

use super::inner::{EngineOwner, Inner, Phase, ShardWorker};
use super::settings::Drive;
use super::timer::Timer;
use super::worker;
use crate::contain;
use crate::shard::PinState;
use crate::types::TurnError;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// A shard of an engine that its holder turns in place of the shard's worker, made by [`Timer::drive_shard`].
///
/// A runtime turns it in a task, so that a timer that wakes a task costs no switch between threads. The task calls
/// [`turn`](Self::turn) again when the time that it returned is over, or when its waker was called. The companion crate
/// `tickwheel-util` has such tasks for tokio and smol.
///
/// Handlers and wakers run inside of `turn`. Nothing is lost while nobody turns: timers are late, as the runtime's own
/// are; and [`wait_idle`](Timer::wait_idle) waits for its turns. A drop hands the shard to a worker, and so does a
/// [`shutdown`](Timer::shutdown) that fires timers. It does not keep the engine alive.
///
/// ```
/// use std::task::Waker;
/// use std::time::Duration;
/// use tickwheel::Builder;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Builder::new().shards(1).build()?;
/// let mut shard = timer.drive_shard(0)?;
/// timer.run_after(Duration::ZERO, || println!("on this thread"))?;
/// while timer.pending() > 0 {
///     match shard.turn(Waker::noop())? {
///         Some(pause) => std::thread::sleep(pause),
///         None => break, // nothing is pending any more
///     }
/// }
/// # Ok(()) }
/// ```
#[must_use = "the shard goes back to a worker when this is dropped"]
pub struct DrivenShard<T: Send + 'static> {
    engine: Arc<EngineOwner<T>>,
    shard: usize,
    wake: fn(Waker),
}

impl<T: Send + 'static> Timer<T> {
    /// Takes a shard from its worker; see [`DrivenShard`].
    ///
    /// Waits for the handler that the worker runs, if any. An engine whose shards are all driven has no threads.
    ///
    /// # Errors
    ///
    /// If there is no such shard, if another `DrivenShard` has it, if it has failed, if the engine is stopped or
    /// forked, or if the call comes from one of its handlers.
    pub fn drive_shard(&self, shard: usize) -> Result<DrivenShard<T>, TurnError> {
        let engine = self.inner.hold().ok_or(TurnError::Stopped)?;
        engine.claim(shard)?;
        Ok(DrivenShard {
            engine,
            shard,
            wake: Waker::wake,
        })
    }

    /// Turns every shard at the clock's current time, on the calling thread, and returns how many timers fired. For
    /// [`Drive::Manual`](crate::Drive::Manual) only.
    ///
    /// When it returns, everything that was due has fired. The next turn fires what came due meanwhile, what handlers
    /// scheduled for now, and what a periodic timer missed besides a call
    /// ([`MissedTicks::Burst`](crate::MissedTicks::Burst)).
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
    /// If the engine has workers, is stopped, or the call comes from a handler.
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
            let turned = contain::call(|| {
                let _inside = inner.seats[number].enter();
                shard.fire_until(inner, None)
            });
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

impl<T: Send + 'static> DrivenShard<T> {
    /// Returns the number of the shard.
    #[must_use]
    pub const fn shard(&self) -> usize {
        self.shard
    }

    /// Sets how it calls the wakers of futures whose time has come; [`Waker::wake`] by default. For runtimes with a
    /// cheaper way for many at once.
    pub fn wake_by(mut self, wake: fn(Waker)) -> Self {
        self.wake = wake;
        self
    }

    /// Fires what is due, within the budget, and returns how long to wait before the next turn: zero for at once,
    /// `None` until `waker` is called. `waker` is called earlier if a timer needs it.
    ///
    /// # Errors
    ///
    /// If the engine is stopped, if the shard has failed, or if the call comes from one of the engine's handlers.
    pub fn turn(&mut self, waker: &Waker) -> Result<Option<Duration>, TurnError> {
        let (engine, number) = (&*self.engine, self.shard);
        engine.may_drive()?;
        // Before the turn announces its sleep: a producer that sees the sleep finds this waker.
        engine.seats[number].set_waker(waker);
        let mut shard = engine.borrow(number)?;
        shard.wake = self.wake;
        let turned = contain::call(|| {
            let _inside = engine.seats[number].enter();
            worker::turn_driven(engine, &mut shard)
        });
        match turned {
            Ok(pause) => {
                engine.give_back(shard);
                Ok(pause)
            }
            Err(message) => Err(engine.end_failed(shard, message)),
        }
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Says why the calling thread cannot drive a shard. Takes no lock: a fork may have copied it in other hands.
    fn may_drive(&self) -> Result<(), TurnError> {
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
    fn still_turns(&self, shard: usize) -> Result<(), TurnError> {
        match self.status.phase() {
            Phase::Init | Phase::Started if self.status.failure(shard).is_none() => Ok(()),
            Phase::Init | Phase::Started => Err(TurnError::Failed { shard }),
            _ => Err(TurnError::Stopped),
        }
    }

    /// Takes a shard to turn it, once no other thread does.
    fn borrow(&self, shard: usize) -> Result<ShardWorker<T>, TurnError> {
        let mut state = self.berths.lock();
        loop {
            self.still_turns(shard)?;
            if matches!(self.drive, Drive::Workers) && !self.seats[shard].is_driven() {
                // A shutdown has given it to a worker.
                return Err(TurnError::Stopped);
            }
            if let Some(shard) = state.berths[shard].take() {
                return Ok(shard);
            }
            state = self.berths.wait(state);
        }
    }

    /// Gives a shard back after a turn by hand or of a `DrivenShard`. The shard ends if the engine has been told to
    /// end meanwhile, or goes to a worker.
    fn give_back(&self, shard: ShardWorker<T>) {
        let mut state = self.berths.lock();
        let by_hand = matches!(self.drive, Drive::Manual);
        let turns_on = matches!(self.status.phase(), Phase::Init | Phase::Started);
        if self.status.is(Phase::Stopped) || by_hand && !turns_on {
            drop(state);
            return self.end_here(shard);
        }
        let number = shard.shard;
        state.berths[number].put(shard);
        self.berths.notify();
        // Claimed after a shutdown has begun, it is a worker's all the same.
        if !(by_hand || turns_on && self.seats[number].is_driven()) {
            self.seats[number].set_driven(false);
            self.hand_over(state, number);
        }
    }

    /// Takes a shard from its worker.
    fn claim(&self, shard: usize) -> Result<(), TurnError> {
        self.may_drive()?;
        let shards = self.seats.len();
        let seat = self
            .seats
            .get(shard)
            .ok_or(TurnError::NoShard { shard, shards })?;
        let state = self.berths.lock();
        self.still_turns(shard)?;
        if seat.is_driven() {
            return Err(TurnError::Driven { shard });
        }
        seat.set_driven(true);
        drop(state);
        self.handles[shard].request_turn();
        let borrowed = self.borrow(shard).inspect_err(|_| self.release(shard))?;
        self.give_back(borrowed);
        Ok(())
    }

    /// Lends a worker's shard to a `DrivenShard` until that releases it; `None` if the shard ends meanwhile.
    pub(super) fn lend(&self, shard: ShardWorker<T>) -> Option<ShardWorker<T>> {
        let (number, seat) = (shard.shard, &self.seats[shard.shard]);
        let mut state = self.berths.lock();
        if self.status.phase() > Phase::Started || !seat.is_driven() {
            return Some(shard);
        }
        shard
            .owner
            .handle
            .counters
            .pinning
            .set(PinState::Unpinned.pack());
        state.berths[number].put(shard);
        self.berths.notify();
        while !state.berths[number].has_ended() {
            // After its release it may be at its last turn yet.
            if !seat.is_driven() && state.berths[number].is_idle() {
                return state.berths[number].take();
            }
            state = self.berths.wait(state);
        }
        None
    }

    /// Gives a shard that a `DrivenShard` may have to a worker.
    pub(super) fn release(&self, shard: usize) {
        if !self.status.is_forked() {
            let state = self.berths.lock();
            self.seats[shard].set_driven(false);
            self.hand_over(state, shard);
        }
    }
}

impl<T: Send + 'static> Drop for DrivenShard<T> {
    fn drop(&mut self) {
        self.engine.seats[self.shard].forget_waker();
        self.engine.release(self.shard);
    }
}

debug_fields!([T: Send] DrivenShard<T>, "DrivenShard", it, shard: it.shard);
