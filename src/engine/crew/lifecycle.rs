//! Start and end: the rare operations, under one lock that is never held while user code runs.
//!
//! Each shard has a berth (`berths`) and ends in [`Inner::end_shard`], on any thread and for any reason. `stop` waits
//! until all are gone.

use super::berths::{Berth, State};
use super::status::EnginePhase;
use super::worker;
use crate::contain;
use crate::engine::events;
use crate::engine::hooks::{self, WorkerFailure};
use crate::engine::inner::{EngineOwner, Inner, ShardWorker};
use crate::engine::settings::Drive;
use crate::engine::shutdown::Shutdown;
use crate::sync::atomic::Ordering;
use crate::sync::lock::{Mutex, MutexGuard};
use crate::sync::slot;
use crate::sync::thread;
use crate::types::{ScheduleErrorKind, StartError, StopError, TurnError, Unfired};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

impl<T> Inner<T> {
    /// Notes and tells that a shard ends before its time.
    pub(super) fn fail(&self, shard: &ShardWorker<T>, message: String) {
        let failure = WorkerFailure {
            shard: shard.shard,
            message,
        };
        // Noted before the shard refuses, so that a refused caller finds the reason; and it refuses before
        // any hook is called, which may take long.
        self.seats[failure.shard].fail(failure.message.clone());
        shard.owner.close();
        self.berths.fail(failure.shard);
        events::worker_failed(&failure);
        let hook = self.hooks.failure.as_ref();
        hooks::tell("the failure hook", hook, &failure);
    }

    /// Ends a shard, after a panic if it has `driven` to one, and keeps what it returns for `stop`. Hooks and
    /// destructors that are called here are inside of the engine.
    fn end_shard(&self, shard: ShardWorker<T>, driven: Result<(), String>) {
        let _inside = self.seats[shard.shard].enter();
        if let Err(message) = driven {
            self.fail(&shard, message);
        }
        let number = shard.shard;
        let mut unfired = shard.end(self);
        let mut state = self.berths.lock();
        state.berths[number].end();
        self.stop_if_ended(&state);
        if !state.orphaned {
            state.unfired.append(&mut unfired);
        }
        drop(state);
        self.berths.notify();
        contain::drop_each("a timer's payload", unfired);
    }

    /// Notes that an engine that has been told to stop has stopped, if its last shard has ended.
    fn stop_if_ended(&self, state: &State<ShardWorker<T>, Unfired<T>>) {
        if self.status.phase() > EnginePhase::Started && state.berths.iter().all(Berth::has_ended) {
            self.status.set(EnginePhase::Stopped);
        }
    }

    /// Stops the engine because its last `Timer` is gone: the workers drop what is left. Does not wait.
    pub(crate) fn stop_orphaned(&self) {
        if self.status.is_forked() {
            return;
        }
        let mut state = self.berths.lock();
        state.orphaned = true;
        let unfired = std::mem::take(&mut state.unfired);
        self.begin_stop(state, EnginePhase::Stopped);
        contain::drop_each("a timer's payload", unfired);
    }

    /// Goes on to `phase`: tells workers and drivers to stop, and ends the shards that have no thread on this one.
    ///
    /// No `DrivenShard` has its shard from then on: what fires must not wait for a task, because the caller may be what
    /// keeps it from running. All of it under one lock, with which a shard is claimed as well: a shard is driven only
    /// while its engine has not been told to stop.
    fn begin_stop(
        &self,
        mut state: MutexGuard<'_, State<ShardWorker<T>, Unfired<T>>>,
        phase: EnginePhase,
    ) {
        let is_news = self.status.phase() < phase;
        self.status.set(phase);
        self.stop_if_ended(&state);
        self.seats.iter().for_each(|seat| seat.set_driven(false));
        // A worker that waits for its shard takes it itself.
        let without = state.berths.iter_mut().filter(|it| !it.has_worker);
        let idle: Vec<_> = without.filter_map(Berth::take).collect();
        self.berths.notify();
        drop(state);
        // What ends here may take long: its destructors are the user's.
        self.seats.iter().for_each(|seat| seat.wake_worker());
        // Before the wakers are called, which may stop the engine, too, and would wait for what is in hand here.
        idle.into_iter().for_each(|shard| self.end_here(shard));
        if is_news {
            self.request_turns();
            // Also those that have announced no sleep: a driver comes once more, and is told.
            self.seats.iter().for_each(|seat| _ = seat.wake());
        }
    }

    /// Ends a shard that has no thread on this one, as the engine's phase says.
    pub(super) fn end_here(&self, mut shard: ShardWorker<T>) {
        let number = shard.shard;
        let inside = self.seats[number].enter();
        let driven = contain::call(|| {
            if self.status.is(EnginePhase::Draining) {
                shard.fire_until(self, None);
            }
            // Perhaps since a moment ago.
            if self.status.is(EnginePhase::Firing) {
                shard.fire_until(self, Some(u64::MAX));
            }
        });
        drop(inside);
        self.end_shard(shard, driven);
        self.berths.let_go(number);
    }

    /// Waits until no shard is alive; returns what they have left.
    fn await_ends(&self, limit: Option<Duration>) -> Result<Vec<Unfired<T>>, StopError> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.berths.lock();
        while state.alive() > 0 {
            let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
            if rest == Some(Duration::ZERO) {
                return Err(StopError::TimedOut {
                    shards: state.alive(),
                });
            }
            // A wait that ends early begins again.
            state = self.berths.wait_for(state, rest.unwrap_or(Duration::MAX));
        }
        Ok(std::mem::take(&mut state.unfired))
    }

    /// Ends a shard whose turn has panicked.
    pub(super) fn end_failed(&self, shard: ShardWorker<T>, message: String) -> TurnError {
        let number = shard.shard;
        self.end_shard(shard, Err(message));
        self.berths.let_go(number);
        TurnError::Failed { shard: number }
    }

    pub(crate) fn wait_idle(&self) {
        let is_at_rest = matches!(
            self.status.phase(),
            EnginePhase::Init | EnginePhase::Stopped
        );
        if is_at_rest || matches!(self.drive, Drive::Manual) || self.is_inside() {
            return;
        }
        // ORDERING: Relaxed: each worker looks again after the drain that takes the turn request.
        let request = self.idle_requests.fetch_add(1, Ordering::Relaxed) + 1;
        self.request_turns();
        let mut state = self.berths.lock();
        while !state.has_answered(request) {
            state = self.berths.wait(state);
        }
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Runs a worker's thread from its start to its end, but for what its handlers have left in thread-locals.
    fn work(engine: Arc<EngineOwner<T>>, mut shard: ShardWorker<T>) {
        let number = shard.shard;
        let (hooks, seat) = (&engine.hooks, &engine.seats[number]);
        let inside = seat.enter();
        worker::pin(&shard);
        slot::with(|slot| engine.router.set_home(slot, number));
        hooks::tell("the start hook", hooks.worker_start.as_ref(), &number);
        drop(inside);
        let tell_stop = || hooks::tell("the stop hook", hooks.worker_stop.as_ref(), &number);
        let driven = loop {
            let inside = seat.enter();
            let driven = contain::call(|| worker::drive(&engine, &mut shard));
            drop(inside);
            match driven {
                Ok(true) => match engine.lend(shard) {
                    Some(back) => {
                        let _inside = seat.enter();
                        shard = back;
                        worker::pin(&shard);
                    }
                    None => {
                        tell_stop();
                        return contain::drop_quietly("an engine", engine);
                    }
                },
                driven => break driven.map(drop),
            }
        };
        engine.end_shard(shard, driven);
        // The engine waits for this thread yet.
        let inside = seat.enter();
        tell_stop();
        drop(inside);
        let berths = Arc::clone(&engine.berths);
        // A caller that has waited for the end, and then drops the last `Timer`, finds no worker that keeps the engine.
        contain::drop_quietly("an engine", engine);
        berths.let_go(number);
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
            Shutdown::Drain { until } => {
                // ORDERING: Relaxed: published with the phase.
                self.drain_until
                    .fetch_min(until.as_nanos(), Ordering::Relaxed);
                EnginePhase::Draining
            }
        };
        let mut state = self.berths.lock();
        if phase != EnginePhase::Stopped
            && matches!(self.drive, Drive::Workers)
            && self.status.is(EnginePhase::Started)
        {
            // Those of drivers get a thread, so that the limit holds. One that gets none ends on this one.
            for shard in 0..self.seats.len() {
                if !state.berths[shard].has_worker {
                    let _ = self.spawn(&mut state, shard);
                }
            }
        }
        self.begin_stop(state, phase);
        self.await_ends(limit)
    }

    /// Gives a shard that lies idle to its worker, which may have to be spawned.
    pub(super) fn hand_over(
        &self,
        mut state: MutexGuard<'_, State<ShardWorker<T>, Unfired<T>>>,
        shard: usize,
    ) {
        if state.berths[shard].has_worker {
            self.berths.notify();
        } else if matches!(self.drive, Drive::Workers) && self.status.phase() != EnginePhase::Init {
            let Err(error) = self.spawn(&mut state, shard) else {
                return;
            };
            let left = state.berths[shard].take();
            drop(state);
            left.map(|shard| self.end_failed(shard, error.to_string()));
        }
    }

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
        let mut state = self.berths.lock();
        match self.status.phase() {
            EnginePhase::Started => return Ok(()),
            EnginePhase::Init => {}
            _ => return Err(StartError::Stopped),
        }
        if matches!(self.drive, Drive::Workers) {
            self.status.live_here();
            for shard in 0..self.seats.len() {
                // One of a start that failed half-way may be about to take back what a caller has released.
                let has_worker = state.berths[shard].has_worker;
                if !has_worker && !self.seats[shard].is_driven() {
                    self.spawn(&mut state, shard)?;
                }
            }
        }
        self.status.set(EnginePhase::Started);
        Ok(())
    }

    /// Gives a shard that lies idle its thread. On failure it lies there again, for another attempt.
    fn spawn(
        &self,
        state: &mut State<ShardWorker<T>, Unfired<T>>,
        number: usize,
    ) -> Result<(), StartError> {
        // Never missing: the starting thread has a `Timer`, or is one of the workers.
        let Some(engine) = self.hold() else {
            return Err(StartError::Stopped);
        };
        let Some(shard) = state.berths[number].take() else {
            return Ok(());
        };
        let name = format!("{}-{number}", self.thread_name);
        // It stays in here if there is no thread to take it out.
        let handover = Arc::new(Mutex::new(Some(shard)));
        let take = |from: &Mutex<Option<ShardWorker<T>>>| {
            from.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let inside = Arc::clone(&handover);
        let run = move || {
            if let Some(shard) = take(&inside) {
                Inner::work(engine, shard);
            }
        };
        // No thread joins it: its end is told (`await_ends`), and destructors of thread-locals may take for ever.
        state.berths[number].has_worker = true;
        thread::spawn(name, run).map_err(|error| {
            state.berths[number].has_worker = false;
            if let Some(shard) = take(&handover) {
                state.berths[number].put(shard);
            }
            StartError::Spawn {
                shard: number,
                source: error.into(),
            }
        })
    }
}
