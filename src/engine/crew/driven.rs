//! [`DrivenShard`]: a shard that a task of a runtime turns in place of its worker.
//!
//! Between two turns the shard lies idle in its berth. So a stop finds it there and waits for no task, and a worker can
//! take it over when the task is gone.

use super::worker;
use crate::contain;
use crate::engine::inner::{EngineOwner, Inner, ShardWorker};
use crate::engine::timer::Timer;
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
    /// `None` until `waker` is called. `waker` is called earlier if a timer needs it, on the thread that needs it: it
    /// must not schedule or reschedule timers of this engine or call its `wait_idle`, or it would be called from within
    /// itself. It may stop the engine.
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
        let inside = engine.seats[number].enter();
        let turned = contain::call(|| worker::turn_driven(engine, &mut shard));
        drop(inside);
        match turned {
            Ok(pause) => {
                // What turns or ends the shard next has no such way.
                shard.wake = Waker::wake;
                engine.give_back(shard);
                Ok(pause)
            }
            Err(message) => Err(engine.end_failed(shard, message)),
        }
    }
}

impl<T: Send + 'static> Inner<T> {
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
