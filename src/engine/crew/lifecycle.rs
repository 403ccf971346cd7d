//! An engine's life, in its order: start, the way to a stop, the ends of the shards.
//!
//! Start, stop, claims and ends take the engine's lock, `Inner::unfired`, which is never held while user code runs. Turns
//! do not take it. A shard lies in its berth until it ends:
//!
//! * a shard with a worker is ended by that, once it sees the engine's phase;
//! * a shard without one by the thread that turns it at the time, and otherwise by the one that tells the engine to stop;
//! * a shard whose turn panics by the thread of that turn.

use super::status::EnginePhase;
use super::worker;
use crate::contain;
use crate::engine::events;
use crate::engine::hooks::{self, WorkerFailure};
use crate::engine::inner::{Berth, Inner, ShardWorker};
use crate::engine::settings::{Drive, Shutdown};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::lock::MutexGuard;
use crate::sync::thread;
use crate::time::Time;
use crate::types::{ScheduleErrorKind, StartError, StopError, Unfired};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The engine's lock, and what ended shards have left.
type Locked<'a, T> = MutexGuard<'a, Option<Vec<Unfired<T>>>>;

impl<T> Inner<T> {
    pub(super) fn lock(&self) -> Locked<'_, T> {
        self.unfired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Starts the engine if need be. That it does not start is counted and told as a refusal.
    #[inline]
    pub(crate) fn ready(&self) -> Result<(), ScheduleErrorKind> {
        if self.status.is(EnginePhase::Started) {
            Ok(())
        } else {
            self.begin()
        }
    }

    #[cold]
    fn begin(&self) -> Result<(), ScheduleErrorKind> {
        self.start().map_err(|error| {
            // ORDERING: Relaxed: a statistic.
            self.rejected.fetch_add(1, Ordering::Relaxed);
            let kind = match error {
                StartError::Stopped => ScheduleErrorKind::Stopped,
                error => ScheduleErrorKind::Start(error),
            };
            events::timer_was_refused(None, &kind);
            kind
        })
    }

    #[cold]
    pub(crate) fn start(&self) -> Result<(), StartError> {
        match self.status.phase() {
            EnginePhase::Started => return Ok(()),
            EnginePhase::Init => {}
            _ => return Err(StartError::Stopped),
        }
        if self.status.is_forked() {
            // Before the lock, which the fork may have copied in the hands of a thread that is not here.
            return Err(StartError::Forked);
        }
        let locked = self.lock();
        match self.status.phase() {
            EnginePhase::Started => return Ok(()),
            EnginePhase::Init => {}
            _ => return Err(StartError::Stopped),
        }
        if matches!(self.drive, Drive::Workers) {
            self.status.live_here();
            for shard in 0..self.berths.len() {
                if !self.berths[shard].standing.is_driven() {
                    self.spawn(&locked, shard)?;
                }
            }
        }
        self.status.set(EnginePhase::Started);
        Ok(())
    }

    /// Starts a shard's worker, unless it has one or has ended. On failure another attempt may follow.
    pub(super) fn spawn(&self, _: &Locked<'_, T>, shard: usize) -> Result<(), StartError> {
        let berth = &self.berths[shard];
        if berth.has_worker() || berth.standing.has_ended() {
            return Ok(());
        }
        // Never missing: the starting thread has a `Timer`, or is one of the workers.
        let engine = self.hold().ok_or(StartError::Stopped)?;
        let name = format!("{}-{shard}", self.thread_name);
        // No thread joins it: its end is told (`Standing`), and destructors of thread-locals may take for ever.
        berth.set_worker(true);
        thread::spawn(name, move || worker::work(engine, shard)).map_err(|error| {
            berth.set_worker(false);
            StartError::Spawn {
                shard,
                source: error.into(),
            }
        })
    }

    /// Stops the engine as `mode` says, waits for the ends of its shards up to `limit`, and returns what they have left.
    pub(crate) fn shutdown(
        &self,
        mode: Shutdown,
        limit: Option<Duration>,
    ) -> Result<Vec<Unfired<T>>, StopError> {
        if self.is_inside() {
            return Err(StopError::InsideHandler);
        }
        if self.status.is_forked() {
            return Err(StopError::Forked);
        }
        let phase = match mode {
            Shutdown::ReturnUnfired => EnginePhase::Stopped,
            Shutdown::FireAll => EnginePhase::Firing,
            Shutdown::Drain { within } => {
                // A clock that panics gives a drain no time.
                let now = contain::catch_and_log("a clock", || self.source.now());
                let until = now.map_or(Time::ZERO, |now| now.saturating_add(within));
                // ORDERING: Relaxed: published with the phase.
                self.drain_until
                    .fetch_min(until.as_nanos(), Ordering::Relaxed);
                EnginePhase::Draining
            }
        };
        let locked = self.lock();
        if phase != EnginePhase::Stopped
            && matches!(self.drive, Drive::Workers)
            && self.status.is(EnginePhase::Started)
        {
            // Those of drivers get a thread, so that the limit holds. One that gets none ends on this one.
            for shard in 0..self.berths.len() {
                let _ = self.spawn(&locked, shard);
            }
        }
        self.tell_to_stop(locked, phase);
        self.await_ends(limit)
    }

    /// Waits until no shard is alive; returns what they have left.
    fn await_ends(&self, limit: Option<Duration>) -> Result<Vec<Unfired<T>>, StopError> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut berths = self.berths.iter();
        if berths.all(|berth| berth.standing.await_end(until)) {
            return Ok(self.lock().as_mut().map(std::mem::take).unwrap_or_default());
        }
        let alive = self.berths.iter().filter(|it| !it.standing.is_gone());
        Err(StopError::TimedOut {
            shards: alive.count(),
        })
    }
}

impl<T> Inner<T> {
    /// Stops the engine because its last `Timer` is gone: the workers drop what is left. Does not wait.
    pub(crate) fn stop_orphaned(&self) {
        if self.status.is_forked() {
            return;
        }
        let mut locked = self.lock();
        let unfired = locked.take();
        self.tell_to_stop(locked, EnginePhase::Stopped);
        contain::drop_each("a timer's payload", unfired.into_iter().flatten());
    }

    /// Goes on to `phase`: tells workers and drivers to stop, and ends the shards that have no thread on this one.
    ///
    /// No `DrivenShard` has its shard from then on: what fires must not wait for a task, because the caller may be what
    /// keeps it from running. All of it under the engine's lock, with which a shard is claimed as well: a shard is
    /// driven only while its engine has not been told to stop.
    fn tell_to_stop(&self, locked: Locked<'_, T>, phase: EnginePhase) {
        let is_news = self.status.phase() < phase;
        self.status.set(phase);
        self.stop_if_ended(&locked);
        for berth in self.berths.iter().filter(|it| it.standing.is_driven()) {
            berth.standing.set_driven(false);
        }
        drop(locked);
        // ORDERING: SeqCst fence, pairs with the one in `end_if_told`: either this finds the berth free, or the thread
        // that turns there finds the phase. [F6]
        fence(Ordering::SeqCst);
        for berth in &self.berths {
            berth.waker.wake_worker();
        }
        // What ends here may take long: its destructors are the user's. Before the wakers are called, which may stop the
        // engine, too, and would wait for what is in hand here.
        for shard in 0..self.berths.len() {
            self.end_if_free(shard);
        }
        if is_news {
            self.request_turns();
            // Also those that have announced no sleep: a driver comes once more, and is told.
            for berth in &self.berths {
                let _ = berth.waker.wake();
            }
        }
    }

    /// Ends the shard that the calling thread has turned, if the engine has been told to stop meanwhile.
    pub(super) fn end_if_told(&self, shard: usize) {
        // ORDERING: SeqCst fence, as in `tell_to_stop`. [F6]
        fence(Ordering::SeqCst);
        if self.status.phase() > EnginePhase::Started {
            self.end_if_free(shard);
        }
    }

    /// Ends a shard that has no worker, unless another thread turns it, which then does.
    fn end_if_free(&self, shard: usize) {
        let berth = &self.berths[shard];
        if !berth.has_worker() {
            if let Some(shard) = berth.try_lock().and_then(|mut place| place.take()) {
                self.end_here(shard);
            }
        }
    }

    /// Ends a shard on a thread that is not its worker's.
    pub(super) fn end_here(&self, shard: ShardWorker<T>) {
        let number = shard.shard;
        self.end(shard);
        self.berths[number].standing.set_gone();
    }

    /// Ends a shard, which was taken out of its berth: fires what the engine's phase asks for, unless the shard has
    /// failed, and keeps what is left for `stop`. Hooks and destructors that are called here are inside of the engine.
    pub(super) fn end(&self, mut shard: ShardWorker<T>) {
        let berth = &self.berths[shard.shard];
        let _inside = berth.enter();
        let fired = match berth.failure() {
            None => contain::call(|| self.fire_the_rest(&mut shard)).map_err(Arc::from),
            Some(message) => Err(Arc::clone(message)),
        };
        if let Err(message) = fired {
            self.tell_failure(&shard, message);
        }
        let mut unfired = shard.into_unfired(self);
        let mut locked = self.lock();
        berth.standing.set_ended();
        self.stop_if_ended(&locked);
        if let Some(kept) = &mut *locked {
            kept.append(&mut unfired);
        }
        drop(locked);
        contain::drop_each("a timer's payload", unfired);
    }

    /// Fires what the engine's phase asks of a shard that ends.
    fn fire_the_rest(&self, shard: &mut ShardWorker<T>) {
        // A worker has drained before its end.
        if self.status.is(EnginePhase::Draining) && !self.berths[shard.shard].has_worker() {
            shard.fire_until(self, None);
        }
        // Perhaps since a moment ago.
        if self.status.is(EnginePhase::Firing) {
            shard.fire_until(self, Some(u64::MAX));
        }
    }

    /// Notes and tells that a shard ends before its time.
    pub(super) fn tell_failure(&self, shard: &ShardWorker<T>, message: Arc<str>) {
        let failure = WorkerFailure {
            shard: shard.shard,
            message,
        };
        let berth = &self.berths[failure.shard];
        // Noted before the shard refuses, so that a refused caller finds the reason; and it refuses before any hook is
        // called, which may take long.
        berth.fail(Arc::clone(&failure.message));
        shard.owner.close();
        berth.standing.set_ended();
        events::worker_failed(&failure);
        let hook = self.hooks.failure.as_ref();
        hooks::tell("the failure hook", hook, &failure);
    }

    /// Notes that an engine that has been told to stop has stopped, if its last shard has ended.
    fn stop_if_ended(&self, _: &Locked<'_, T>) {
        let has_ended = |it: &Berth<T>| it.standing.has_ended();
        if self.status.phase() > EnginePhase::Started && self.berths.iter().all(has_ended) {
            self.status.set(EnginePhase::Stopped);
        }
    }
}
