//! [`DrivenShard`]: a shard that a task of a runtime turns in place of its worker.
//!
//! Between two turns the shard's berth is free. So a stop waits for no task, and a worker takes over when the task is
//! gone.

use super::status::EnginePhase;
use super::step::{Next, step};
use crate::engine::inner::{EngineOwner, Inner};
use crate::engine::settings::{Drive, IdleStrategy};
use crate::engine::timer::Timer;
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
/// Handlers and wakers run inside of `turn`. Nothing is lost while no task turns: timers are late, as the runtime's own
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
        (engine.calls.claim)(&engine, shard)?;
        Ok(DrivenShard {
            engine,
            shard,
            wake: Waker::wake,
        })
    }
}

impl<T: Send + 'static> DrivenShard<T> {
    /// Returns the number of the shard.
    #[must_use]
    pub const fn shard(&self) -> usize {
        self.shard
    }

    /// Fires what is due, within the budget, and returns how long to wait before the next turn: zero for at once,
    /// `None` until `waker` is called. `waker` is called earlier if a timer needs it, on the thread that needs it: it
    /// must not schedule or reschedule timers of this engine or call its `wait_idle`, or it would be called from within
    /// itself. It may stop the engine. It waits for a thread that turns the shard by hand ([`Timer::turn`]).
    ///
    /// # Errors
    ///
    /// If the engine is stopped, if the shard has failed, or if the call comes from one of the engine's handlers.
    pub fn turn(&mut self, waker: &Waker) -> Result<Option<Duration>, TurnError> {
        (self.engine.calls.turn_driven)(&self.engine, self.shard, waker, self.wake)
    }
}

impl<T: Send + 'static> Inner<T> {
    /// See [`DrivenShard::turn`]; `wake` is how it calls wakers.
    pub(super) fn turn_driven(
        &self,
        number: usize,
        waker: &Waker,
        wake: fn(Waker),
    ) -> Result<Option<Duration>, TurnError> {
        self.may_drive()?;
        // Before the turn announces its sleep: a producer that sees the sleep finds this waker.
        self.berths[number].waker.set_task(waker);
        let next = self.turn_here(number, |shard| {
            shard.wake = wake;
            let next = step(self, shard, IdleStrategy::Park);
            // What turns or ends the shard next has no such way.
            shard.wake = Waker::wake;
            next
        })?;
        match next {
            Next::Turn => Ok(Some(Duration::ZERO)),
            Next::Sleep { timeout, .. } => Ok(timeout),
            Next::End => Err(TurnError::Stopped),
        }
    }

    /// Takes a shard from its worker.
    pub(super) fn claim(&self, shard: usize) -> Result<(), TurnError> {
        self.may_drive()?;
        let shards = self.berths.len();
        let no_shard = TurnError::NoShard { shard, shards };
        let standing = &self.berths.get(shard).ok_or(no_shard)?.standing;
        let locked = self.lock();
        self.still_turns(shard)?;
        if standing.is_driven() {
            return Err(TurnError::Driven { shard });
        }
        standing.set_driven(true);
        drop(locked);
        self.handles[shard].request_turn();
        // The turn that its worker runs is over then, and the next one is the driver's.
        self.turn_here(shard, |_| ())
            .inspect_err(|_| self.release(shard))
    }

    /// Gives a shard that a `DrivenShard` may have to a worker, which may have to be spawned.
    pub(super) fn release(&self, shard: usize) {
        if self.status.is_forked() {
            return;
        }
        let (berth, locked) = (&self.berths[shard], self.lock());
        berth.standing.set_driven(false);
        // A shutdown that has begun has given it a worker, or ends it.
        if !matches!(self.drive, Drive::Workers) || !self.status.is(EnginePhase::Started) {
            return;
        }
        let spawned = self.spawn(&locked, shard);
        drop(locked);
        if let Err(error) = spawned {
            berth.fail(error.to_string().into());
            if let Some(shard) = berth.lock().take() {
                self.end_here(shard);
            }
        }
    }
}

/// Sets how a driver calls the wakers of futures whose time has come; [`Waker::wake`] by default. For runtimes with a
/// cheaper way for many at once.
#[cfg(feature = "__internal")]
pub fn wake_by<T: Send + 'static>(mut shard: DrivenShard<T>, wake: fn(Waker)) -> DrivenShard<T> {
    shard.wake = wake;
    shard
}

impl<T: Send + 'static> Drop for DrivenShard<T> {
    fn drop(&mut self) {
        self.engine.berths[self.shard].waker.forget_task();
        (self.engine.calls.release)(&self.engine, self.shard);
    }
}

debug_fields!([T: Send] DrivenShard<T>, "DrivenShard", it, shard: it.shard);
