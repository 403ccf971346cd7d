//! `Timer`: the engine as a whole, which starts, turns, stops, and says how it goes.

use super::shutdown::Shutdown;
use super::state::EngineState;
use super::stats::Stats;
use super::timer::Timer;
use crate::time::Time;
use crate::types::{StartError, StopError, TurnError, Unfired};
use std::time::Duration;

impl<T: Send + 'static> Timer<T> {
    /// The engine's time, for deadlines.
    #[must_use]
    pub fn now(&self) -> Time {
        self.inner.now()
    }

    /// The length of a tick.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.inner.rate.tick()
    }

    /// The number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.inner.handles.len()
    }

    /// Timers that are pending.
    ///
    /// Exact when nothing is going on at the moment; otherwise it may count timers that end during the call, never
    /// fewer than are pending. A cancelled timer is gone at once, a fired one before its handler runs; a periodic one
    /// stays until it is cancelled or returned. O(threads).
    #[must_use]
    pub fn pending(&self) -> usize {
        let pending: u64 = self.inner.handles.iter().map(|handle| handle.pending()).sum();
        usize::try_from(pending).unwrap_or(usize::MAX)
    }

    /// Where the engine stands. O(shards).
    #[must_use]
    pub fn state(&self) -> EngineState {
        self.inner.standing.told()
    }

    /// Whether the engine has been stopped: [`EngineState::Stopped`].
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state() == EngineState::Stopped
    }

    /// Starts the workers, which the first timer would do otherwise. Does nothing if they run.
    ///
    /// # Errors
    ///
    /// If the engine has been stopped, or a thread cannot be spawned; then the call may be repeated.
    pub fn start(&self) -> Result<(), StartError> {
        self.inner.start()
    }

    /// Stops the engine and returns every timer that has not ended, due ones included.
    ///
    /// Waits until the handlers that run right now return, and drops them. Timers that other threads schedule
    /// meanwhile are either returned here or refused there, never lost. A second call returns nothing. Afterwards
    /// [`pending`](Self::pending) is 0. Statistics count what came back as returned, not as cancelled; to its handle
    /// it is cancelled ([`Timeout::is_cancelled`](crate::Timeout::is_cancelled)).
    ///
    /// No worker keeps the engine then. Their threads end by themselves, a moment later: what handlers have left there
    /// in thread-locals is destroyed after this, and not waited for.
    ///
    /// # Errors
    ///
    /// [`StopError::InsideHandler`] on a worker of this engine, which would wait for itself;
    /// [`StopError::Forked`] in a forked child of the process that started the engine.
    pub fn stop(&self) -> Result<Vec<Unfired<T>>, StopError> {
        self.inner.shutdown(Shutdown::ReturnUnfired, None)
    }

    /// Ends the engine in the given way, waits for its shards, and returns every timer that has not fired.
    ///
    /// Waits for `limit` at most (`Duration::MAX` means for ever); for handlers that run, and in the modes other
    /// than [`Shutdown::ReturnUnfired`] for the timers that still fire. An engine that its caller turns fires them in
    /// this call, on this thread, however long that takes. Several calls do not disturb each other: the
    /// stricter mode counts, [`stop`](Self::stop) being the strictest, and each timer is returned by one of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Shutdown, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// timer.run_after(Duration::from_millis(5), || println!("soon"))?;
    /// timer.run_after(Duration::from_secs(3600), || println!("in an hour"))?;
    /// let until = timer.now() + Duration::from_millis(50);
    /// let rest = timer.shutdown(Shutdown::Drain { until }, Duration::from_secs(1))?;
    /// assert_eq!(rest.len(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`StopError::InsideHandler`] on a worker of this engine, which would wait for itself; the engine goes on.
    /// * [`StopError::TimedOut`] if shards are still at work after `limit`. The engine goes on to end, and nothing is
    ///   lost: call again, or call [`stop`](Self::stop) to cut it short.
    /// * [`StopError::Forked`] in a forked child of the process that started the engine.
    pub fn shutdown(&self, mode: Shutdown, limit: Duration) -> Result<Vec<Unfired<T>>, StopError> {
        self.inner.shutdown(mode, Some(limit))
    }

    /// Turns every shard once at the clock's current time, on the calling thread, until nothing of what was due is
    /// left; returns how many timers fired. For [`Drive::Manual`](crate::Drive::Manual) only.
    ///
    /// When it returns, everything that was due has fired. Due in the next turn is what handlers have scheduled for
    /// now, and what a periodic timer has missed besides a call ([`MissedTicks::Burst`](crate::MissedTicks::Burst)).
    /// Where more is due than the [`Budget`](crate::Budget) fires at a time, the clock is read again in between, and
    /// what has come due meanwhile fires as well, until there were twice as many calls as timers were pending.
    ///
    /// A shard that another thread is turning is waited for, its handlers included, without a limit. So this is not to
    /// be called with a lock in hand that a handler takes; and where two threads turn engines in each other's handlers,
    /// each waits for the other.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Drive, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::builder().drive(Drive::Manual).build()?;
    /// timer.run_after(Duration::ZERO, || println!("on this thread"))?;
    /// assert_eq!(timer.turn(), Ok(1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the engine has workers, is stopped, or the call comes from a handler.
    pub fn turn(&self) -> Result<usize, TurnError> {
        self.inner.turn()
    }

    /// Waits until every worker has handled what is due at the clock's current time and has nothing to do.
    ///
    /// Meant for a virtual clock: after `clock.advance(..)`, `wait_idle` returns when every handler that became due has
    /// returned. It wakes each worker, and waits until each has found nothing to do after that. A timer that a handler
    /// schedules for now on *another* shard meanwhile may not have fired. A shard that has ended or failed counts as
    /// idle. Returns at once inside of the engine's own handlers, and of an engine that has not started, has been
    /// stopped, or is turned by hand.
    ///
    /// It has no limit: it waits for handlers that block, so it must not be called with a lock in hand that one of them
    /// takes, and for as long as timers come faster than their handlers return.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{EngineState, ManualClock, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(clock.clone()).build()?;
    /// timer.start()?;
    /// assert_eq!(timer.state(), EngineState::Started);
    /// timer.run_after(Duration::from_secs(3600), || println!("an hour later"))?;
    /// clock.advance(Duration::from_secs(3600) + timer.tick());
    /// timer.wait_idle(); // its handler has returned
    /// assert_eq!((timer.stats().fired(), timer.pending()), (1, 0));
    /// println!("{} shards, {} on the clock", timer.shards(), timer.now());
    /// timer.stop()?;
    /// assert!(timer.is_stopped());
    /// # Ok(()) }
    /// ```
    pub fn wait_idle(&self) {
        self.inner.wait_idle();
    }

    /// What the engine has counted so far. O(threads + shards).
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.inner)
    }
}
