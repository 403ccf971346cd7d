//! Start and end: the rare operations, under one lock that is never held while user code runs.
//!
//! A shard goes from hand to hand: it is *idle* here until it gets a thread (or, without workers, for good), away
//! while a worker or a caller turns it, and ends in [`Inner::end_shard`], on any thread and
//! for any reason. `stop` waits until no shard is alive.

use super::events;
use super::hooks::{self, WorkerFailure};
use super::inner::{EngineOwner, Inner, Phase, ShardWorker, Shutdown};
use super::settings::Drive;
use super::worker;
use crate::contain;
use crate::sync::lock::{Condvar, Mutex, MutexGuard};
use crate::sync::process::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::thread;
use crate::types::{ScheduleErrorKind, StartError, StopError, TurnError, Unfired};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Engines alive in this process; many of them are usually a mistake.
static ALIVE: AtomicUsize = AtomicUsize::new(0);
/// One warning per process is enough. Not a lock: the logger may build an engine.
static WARNED: AtomicBool = AtomicBool::new(false);
/// As in the reference timers.
const MANY_ENGINES: usize = 64;

/// Where the shards are, and what they have left.
pub(super) struct Lifecycle<T> {
    pub(super) state: Mutex<State<T>>,
    /// Told whenever a shard comes back or ends.
    pub(super) changed: Condvar,
}

pub(super) struct State<T> {
    /// Shards without a thread of their own; `None` while a shard is away, and after its end.
    pub(super) idle: Vec<Option<ShardWorker<T>>>,
    /// Shards that have not ended, or whose worker has not let go of the engine.
    pub(super) alive: usize,
    /// Whether each shard has a worker's thread, at work or waiting for a `DrivenShard` to end.
    pub(super) has_worker: Vec<bool>,
    /// How many calls of `wait_idle` each shard has answered; `u64::MAX` once it has failed or ended.
    pub(super) answered: Vec<u64>,
    /// Timers that ended shards have left and no caller has received yet.
    pub(super) unfired: Vec<Unfired<T>>,
    /// The last `Timer` is gone, so no caller will ask for them.
    pub(super) abandoned: bool,
}

impl<T> Lifecycle<T> {
    pub(super) fn new(shards: Vec<ShardWorker<T>>) -> Self {
        // ORDERING: Relaxed: a number for a warning.
        let many = ALIVE.fetch_add(1, Ordering::Relaxed) + 1;
        // ORDERING: Relaxed: one thread finds it unset, and tells nothing by it.
        if many > MANY_ENGINES && !WARNED.swap(true, Ordering::Relaxed) {
            contain::warn(format_args!(
                "{many} timer engines are alive in this process; one is enough for a whole program: \
                 share it by cloning the Timer"
            ));
        }
        let alive = shards.len();
        let idle = shards.into_iter().map(Some).collect();
        let state = State {
            idle,
            alive,
            has_worker: vec![false; alive],
            answered: vec![0; alive],
            unfired: Vec::new(),
            abandoned: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a shard has handled what was due for the first `requests` calls of `wait_idle`.
    pub(super) fn answer(&self, shard: usize, requests: u64) {
        self.lock().answered[shard] = requests;
        self.changed.notify_all();
    }

    /// Waits for a change.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a shard as ended; its driver keeps nothing of the engine.
    fn shard_ended(&self) {
        self.lock().alive -= 1;
        self.changed.notify_all();
    }
}

impl<T> Drop for Lifecycle<T> {
    fn drop(&mut self) {
        // ORDERING: Relaxed: as above.
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> Inner<T> {
    /// Notes and tells that a shard ends before its time.
    pub(super) fn fail(&self, shard: &ShardWorker<T>, message: String) {
        let failure = WorkerFailure {
            shard: shard.shard,
            message,
        };
        // Noted before the shard refuses, so that a refused caller finds the reason; and it refuses before
        // any hook is called, which may take long.
        self.status.fail(failure.shard, failure.message.clone());
        shard.owner.refuse();
        self.lifecycle.answer(failure.shard, u64::MAX);
        events::worker_failed(&failure);
        let hook = self.hooks.failure.as_ref();
        hooks::tell("the failure hook", hook, &failure);
    }

    /// Closes a shard, after a panic if it has `driven` to one, and keeps what it returns for `stop`. Hooks and
    /// destructors that are called here are inside of the engine.
    fn end_shard(&self, shard: ShardWorker<T>, driven: Result<(), String>) {
        let _inside = self.seats[shard.shard].enter();
        if let Err(message) = driven {
            self.fail(&shard, message);
        }
        let number = shard.shard;
        let mut unfired = shard.close(self);
        let mut state = self.lifecycle.lock();
        state.answered[number] = u64::MAX;
        self.stop_if_ended(&state);
        if !state.abandoned {
            state.unfired.append(&mut unfired);
        }
        drop(state);
        contain::drop_each("a timer's payload", unfired);
    }

    /// Stops an engine that has been told to end, if its last shard has ended.
    fn stop_if_ended(&self, state: &State<T>) {
        if self.status.phase() > Phase::Started
            && state.answered.iter().all(|answered| *answered == u64::MAX)
        {
            self.status.set(Phase::Stopped);
        }
    }

    /// Ends the engine because its last `Timer` is gone: the workers drop what is left. Does not wait.
    pub(super) fn abandon(&self) {
        if self.status.is_forked() {
            return;
        }
        let mut state = self.lifecycle.lock();
        state.abandoned = true;
        let unfired = std::mem::take(&mut state.unfired);
        self.begin_end(state, Phase::Stopped);
        contain::drop_each("a timer's payload", unfired);
    }

    /// Goes on to `phase`: tells workers and drivers to end, and ends the shards that have no thread on this one.
    ///
    /// No `DrivenShard` has its shard from then on: what fires must not wait for a task, because the caller may be what
    /// keeps it from running. All of it under one lock, with which a shard is claimed as well.
    fn begin_end(&self, mut state: MutexGuard<'_, State<T>>, phase: Phase) {
        self.status.set(phase);
        self.stop_if_ended(&state);
        self.seats.iter().for_each(|seat| seat.set_driven(false));
        let State {
            idle, has_worker, ..
        } = &mut *state;
        // A worker that waits for its shard takes it itself, and fires what the phase asks for.
        let ends_here = |(_, has_worker): &(_, &bool)| phase == Phase::Stopped || !**has_worker;
        let idle: Vec<_> = idle
            .iter_mut()
            .zip(&*has_worker)
            .filter(ends_here)
            .filter_map(|(it, _)| it.take())
            .collect();
        self.lifecycle.changed.notify_all();
        drop(state);
        self.request_turns();
        // Also those that have announced no sleep: a driver comes once more, and is told.
        self.seats.iter().for_each(|seat| _ = seat.wake());
        idle.into_iter().for_each(|shard| self.end_here(shard));
    }

    /// Ends a shard that has no thread on this one, as the engine's phase says.
    pub(super) fn end_here(&self, mut shard: ShardWorker<T>) {
        let driven = contain::call(|| {
            let _inside = self.seats[shard.shard].enter();
            match self.status.phase() {
                Phase::Firing => drop(shard.fire_until(self, Some(u64::MAX))),
                Phase::Draining => drop(shard.fire_until(self, None)),
                _ => {}
            }
        });
        self.end_shard(shard, driven);
        self.lifecycle.shard_ended();
    }

    /// Waits until no shard is alive; returns what they have left.
    fn await_end(&self, limit: Option<Duration>) -> Result<Vec<Unfired<T>>, StopError> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.lifecycle.lock();
        while state.alive > 0 {
            let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
            if rest == Some(Duration::ZERO) {
                return Err(StopError::TimedOut {
                    shards: state.alive,
                });
            }
            // A wait that ends early begins again.
            let waited = self
                .lifecycle
                .changed
                .wait_timeout(state, rest.unwrap_or(Duration::MAX));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(std::mem::take(&mut state.unfired))
    }

    /// Ends a shard whose turn has panicked.
    pub(super) fn end_failed(&self, shard: ShardWorker<T>, message: String) -> TurnError {
        let number = shard.shard;
        self.end_shard(shard, Err(message));
        self.lifecycle.shard_ended();
        TurnError::Failed { shard: number }
    }

    pub(super) fn wait_idle(&self) {
        if matches!(self.drive, Drive::Manual) || self.is_inside() {
            return;
        }
        if !matches!(
            self.status.phase(),
            Phase::Started | Phase::Draining | Phase::Firing
        ) {
            return;
        }
        // ORDERING: Relaxed: each worker looks again after the drain that takes the turn request.
        let request = self.idle_requests.fetch_add(1, Ordering::Relaxed) + 1;
        self.request_turns();
        let mut state = self.lifecycle.lock();
        while state.answered.iter().any(|answered| *answered < request) {
            state = self.lifecycle.wait(state);
        }
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Runs a worker's thread from its start to its end, but for what its handlers have left in thread-locals.
    fn work(engine: Arc<EngineOwner<T>>, mut shard: ShardWorker<T>) {
        let number = shard.shard;
        let (hooks, seat) = (&engine.hooks, &engine.seats[number]);
        worker::pin(&shard);
        let inside = seat.enter();
        hooks::tell("the start hook", hooks.worker_start.as_ref(), &number);
        drop(inside);
        let tell_stop = || hooks::tell("the stop hook", hooks.worker_stop.as_ref(), &number);
        let driven = loop {
            let driven = contain::call(|| {
                let _inside = seat.enter();
                worker::drive(&engine, &mut shard)
            });
            match driven {
                Ok(true) => match engine.lend(shard) {
                    Some(back) => {
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
        let lifecycle = Arc::clone(&engine.lifecycle);
        // A caller that has waited for the end, and then drops the last `Timer`, finds no worker that keeps the engine.
        contain::drop_quietly("an engine", engine);
        lifecycle.shard_ended();
    }

    /// Ends the engine as `mode` says, waits for its shards up to `limit`, and returns what they have left.
    pub(super) fn shutdown(
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
            Shutdown::ReturnUnfired => Phase::Stopped,
            Shutdown::FireAll => Phase::Firing,
            Shutdown::Drain { until } => {
                // ORDERING: Relaxed: published with the phase.
                self.drain_until
                    .fetch_min(until.as_nanos(), Ordering::Relaxed);
                Phase::Draining
            }
        };
        let mut state = self.lifecycle.lock();
        if phase != Phase::Stopped
            && matches!(self.drive, Drive::Workers)
            && self.status.is(Phase::Started)
        {
            // Those of drivers get a thread, so that the limit holds. One that gets none ends on this one.
            for shard in 0..self.seats.len() {
                if !state.has_worker[shard] {
                    let _ = self.spawn(&mut state, shard);
                }
            }
        }
        self.begin_end(state, phase);
        self.await_end(limit)
    }

    /// Gives a shard that lies idle to its worker, which may have to be spawned.
    pub(super) fn hand_over(&self, mut state: MutexGuard<'_, State<T>>, shard: usize) {
        if state.has_worker[shard] {
            self.lifecycle.changed.notify_all();
        } else if matches!(self.drive, Drive::Workers) && self.status.phase() != Phase::Init {
            let Err(error) = self.spawn(&mut state, shard) else {
                return;
            };
            let left = state.idle[shard].take();
            drop(state);
            left.map(|shard| self.end_failed(shard, error.to_string()));
        }
    }

    /// Starts the engine if need be. That it does not start is counted as a refusal.
    #[inline]
    pub(super) fn ready(&self) -> Result<(), ScheduleErrorKind> {
        if self.status.is(Phase::Started) {
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
            match error {
                StartError::Stopped => ScheduleErrorKind::Stopped,
                error => ScheduleErrorKind::Start(error),
            }
        })
    }

    #[cold]
    pub(super) fn start(&self) -> Result<(), StartError> {
        match self.status.phase() {
            Phase::Started => return Ok(()),
            Phase::Init => {}
            _ => return Err(StartError::Stopped),
        }
        if self.status.is_forked() {
            // Before the lock, which the fork may have copied in the hands of a thread that is not here.
            return Err(StartError::Forked);
        }
        let mut state = self.lifecycle.lock();
        match self.status.phase() {
            Phase::Started => return Ok(()),
            Phase::Init if state.alive > 0 => {}
            _ => return Err(StartError::Stopped),
        }
        if matches!(self.drive, Drive::Workers) {
            self.status.live_here();
            for shard in 0..self.seats.len() {
                if !self.seats[shard].is_driven() {
                    self.spawn(&mut state, shard)?;
                }
            }
        }
        self.status.set(Phase::Started);
        Ok(())
    }

    /// Gives a shard that lies idle its thread. On failure it lies there again, for another attempt.
    fn spawn(&self, state: &mut State<T>, number: usize) -> Result<(), StartError> {
        // Never missing: the starting thread has a `Timer`, or is one of the workers.
        let Some(engine) = self.hold() else {
            return Err(StartError::Stopped);
        };
        let Some(shard) = state.idle[number].take() else {
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
        // No thread joins it: its end is told (`await_end`), and destructors of thread-locals may take for ever.
        state.has_worker[number] = true;
        thread::spawn(name, run).map_err(|error| {
            state.has_worker[number] = false;
            state.idle[number] = take(&handover);
            StartError::Spawn {
                shard: number,
                message: error.to_string(),
            }
        })
    }
}
