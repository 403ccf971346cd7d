//! Start, stop, and turning by hand: the rare operations, under one lock.

use super::handler::{Handler, Outcome, run_caught};
use super::inner::Inner;
use super::settings::Drive;
use super::state::EngineState;
use super::worker;
use crate::park::sleeper::Sleeper;
use crate::shard::{Fired, Owner, Turn, drop_quietly};
use crate::sync::process::{AtomicUsize, Ordering};
use crate::sync::slot;
use crate::time::{Course, Period, Repeat, Time, When, saturating_ns};
use crate::types::{
    Expired, Key, Reschedule, ScheduleError, ScheduleErrorKind, StartError, StopError, TurnError,
    Unfired,
};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Engines alive in this process; many of them are usually a mistake.
static ALIVE: AtomicUsize = AtomicUsize::new(0);
/// One warning per process is enough.
static WARNED: Once = Once::new();
/// As in the reference timers.
const MANY_ENGINES: usize = 64;

/// Timers of one turn after which the clock is read again for their lateness.
const FIRES_PER_CLOCK_READ: usize = 64;

thread_local! {
    /// The engines whose handlers run on this thread at the moment: more than one when a handler turns
    /// another engine by hand.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Everything that drives one shard; on a worker thread once that has started.
pub(super) struct ShardWorker<T> {
    pub(super) owner: Owner<T>,
    pub(super) sleeper: Sleeper,
    pub(super) handler: Handler<T>,
    pub(super) shard: usize,
    /// The core to pin the worker to.
    pub(super) core: Option<usize>,
}

/// A shard_worker on its way to its thread: it stays here if the thread cannot be spawned.
type Handover<T> = Arc<Mutex<Option<ShardWorker<T>>>>;

/// What the lock protects.
pub(super) struct Lifecycle<T> {
    /// Seats without a thread: all of them before the start, and for ever with `Drive::Manual`.
    unstarted: Vec<Handover<T>>,
    workers: Vec<JoinHandle<Vec<Unfired<T>>>>,
}

impl<T> Lifecycle<T> {
    pub(super) fn new(unstarted: Vec<ShardWorker<T>>) -> Self {
        // ORDERING: Relaxed: a number for a warning.
        let many = ALIVE.fetch_add(1, Ordering::Relaxed) + 1;
        if many > MANY_ENGINES {
            WARNED.call_once(|| log::warn!(
                "{many} timer engines are alive in this process; one is enough for a whole program: \
                 share it by cloning the Timer"
            ));
        }
        let unstarted = unstarted
            .into_iter()
            .map(|shard_worker| Arc::new(Mutex::new(Some(shard_worker))))
            .collect();
        Self { unstarted, workers: Vec::new() }
    }
}

impl<T> Drop for Lifecycle<T> {
    fn drop(&mut self) {
        // ORDERING: Relaxed: as above.
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

fn locked<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the calling thread as one that runs the engine's handlers, until dropped.
pub(super) struct Inside;

impl Inside {
    pub(super) fn enter(engine: u64) -> Self {
        INSIDE.with_borrow_mut(|engines| engines.push(engine));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|engines| engines.borrow_mut().pop());
    }
}

impl<T> ShardWorker<T> {
    /// One turn at the clock's current time, with the handler's panics caught and counted.
    ///
    /// A turn that goes on where the last one ran out of budget takes nothing new from the inbox.
    pub(super) fn turn(&mut self, inner: &Inner<T>, goes_on: bool) -> Turn {
        let mut now = inner.now();
        let mut fires = 0;
        let tick = inner.rate.current(now);
        let mut piece = if goes_on {
            self.owner.resume_turn(tick, &inner.budget)
        } else {
            self.owner.begin_turn(tick, &inner.budget)
        };
        while let Some(fired) = self.owner.next_fired(&mut piece) {
            fires += 1;
            if fires % FIRES_PER_CLOCK_READ == 0 {
                now = inner.now();
            }
            if !self.owner.confirm(&mut piece, &fired) {
                drop_quietly(fired.payload);
                continue;
            }
            self.handle(inner, fired, now);
            self.owner.finish_call(|| inner.now());
        }
        self.owner.finish_turn(piece, &inner.budget)
    }

    /// Runs the handler for one timer.
    fn handle(&mut self, inner: &Inner<T>, fired: Fired<T>, now: Time) {
        let counters = self.owner.handle().counters();
        let Fired { payload, key, deadline, .. } = fired;
        let deadline = inner.rate.start_of(deadline);
        let lateness = now.saturating_duration_since(deadline);
        counters.lateness.record(saturating_ns(lateness));
        let expired = Expired { payload, key, deadline, lateness, shard: self.shard };
        match run_caught(&mut self.handler, inner, expired) {
            Some(Outcome::Done) => {}
            Some(Outcome::Refused) => drop(counters.refused_by_executor.bump()),
            None => drop(counters.panics.bump()),
        }
    }

    /// Ends the shard and collects what has not ended.
    pub(super) fn close(&mut self, inner: &Inner<T>) -> Vec<Unfired<T>> {
        let mut unfired = Vec::new();
        self.owner.close(|Fired { payload, key, deadline, .. }| {
            unfired.push(Unfired { payload, key, deadline: inner.rate.start_of(deadline) });
        });
        unfired
    }
}

impl<T> Inner<T> {
    fn is_inside(&self) -> bool {
        // Without the thread-local (the thread is being torn down) no handler runs.
        INSIDE.try_with(|engines| engines.borrow().contains(&self.id)).unwrap_or(false)
    }

    #[inline]
    pub(super) fn reschedule(&self, key: Key<T>, tick: u64) -> Reschedule {
        let moved = self.with_thread(key, |handle, thread| handle.reschedule(thread, key, tick));
        Reschedule::from_moved(moved.unwrap_or(false))
    }

    pub(super) fn stop(&self) -> Result<Vec<Unfired<T>>, StopError> {
        if self.is_inside() {
            return Err(StopError::InsideHandler);
        }
        let mut lifecycle = locked(&self.lifecycle);
        self.set_state(EngineState::Stopped);
        self.request_turns();
        let mut unfired = Vec::new();
        for shard_worker in lifecycle.unstarted.drain(..) {
            if let Some(mut shard_worker) = locked(&shard_worker).take() {
                unfired.append(&mut shard_worker.close(self));
            }
        }
        for worker in lifecycle.workers.drain(..) {
            match worker.join() {
                Ok(mut rest) => unfired.append(&mut rest),
                // Handlers' panics are caught, so this takes a panic in the engine itself or in a clock.
                Err(_) => {
                    log::error!("a worker of {} panicked; its timers are lost", self.thread_name)
                }
            }
        }
        Ok(unfired)
    }

    /// The last `Timer` is gone: stop, and drop what is left.
    pub(super) fn abandon(&self) {
        if self.stop().is_err() {
            // On a worker of our own: it cannot wait for itself. It and the others end by themselves.
            self.set_state(EngineState::Stopped);
            self.request_turns();
        }
    }

    /// Turns every shard until nothing more is due now; how many timers fired.
    pub(super) fn turn(&self) -> Result<usize, TurnError> {
        if self.drive != Drive::Manual {
            return Err(TurnError::DrivenByWorkers);
        }
        if self.is_inside() {
            return Err(TurnError::InsideHandler);
        }
        let lifecycle = locked(&self.lifecycle);
        if self.state() == EngineState::Stopped {
            return Err(TurnError::Stopped);
        }
        let _inside = Inside::enter(self.id);
        let mut fired = 0;
        for shard_worker in &lifecycle.unstarted {
            if let Some(shard_worker) = locked(shard_worker).as_mut() {
                // What the handlers schedule is left for the next call, so that this one ends.
                let mut turn = shard_worker.turn(self, false);
                fired += turn.fired;
                while turn.more {
                    turn = shard_worker.turn(self, true);
                    fired += turn.fired;
                }
            }
        }
        Ok(fired)
    }

    pub(super) fn wait_idle(&self) {
        if self.drive == Drive::Manual || self.is_inside() {
            return;
        }
        // Yielding first: a worker usually settles within microseconds.
        let mut looks = 0u32;
        while self.state() == EngineState::Started {
            let now = self.rate.current(self.now());
            if self.handles.iter().all(|handle| handle.is_idle(now)) {
                return;
            }
            looks += 1;
            if looks < 100 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

impl<T: Send + 'static> Inner<T> {
    /// Starts the engine if need be; the payload comes back either way.
    #[inline]
    pub(super) fn ready(&self, payload: T) -> Result<T, ScheduleError<T>> {
        if self.state() == EngineState::Started {
            return Ok(payload);
        }
        match self.start() {
            Ok(()) => Ok(payload),
            Err(StartError::Stopped) => Err(self.reject(ScheduleErrorKind::Stopped, payload)),
            Err(error) => Err(self.reject(ScheduleErrorKind::Start(error), payload)),
        }
    }

    pub(super) fn begin_periodic(
        &self,
        first: When,
        period: Period,
        payload: T,
        clone: fn(&T) -> T,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let payload = self.ready(payload)?;
        let nominal = self.source.time(first);
        slot::with(|slot| {
            let shard = self.router.route(slot);
            let handle = &self.handles[shard];
            let course = Course::new(nominal, period, self.rate);
            let repeat = Repeat { payload, clone, course };
            let begun = handle.schedule_periodic(handle.thread(slot), repeat);
            begun.map_err(|refusal| self.rejected(refusal, shard))
        })
    }

    pub(super) fn start(&self) -> Result<(), StartError> {
        match self.state() {
            EngineState::Started => return Ok(()),
            EngineState::Stopped => return Err(StartError::Stopped),
            EngineState::Init => {}
        }
        let mut lifecycle = locked(&self.lifecycle);
        match self.state() {
            EngineState::Started => return Ok(()),
            EngineState::Stopped => return Err(StartError::Stopped),
            EngineState::Init => {}
        }
        if self.drive == Drive::Workers {
            while let Some(shard_worker) = lifecycle.unstarted.first() {
                let worker = self.spawn(Arc::clone(shard_worker))?;
                lifecycle.workers.push(worker);
                lifecycle.unstarted.remove(0);
            }
        }
        self.set_state(EngineState::Started);
        Ok(())
    }

    /// Gives a shard_worker its thread. On failure the shard_worker stays where it is, for another attempt.
    fn spawn(&self, shard_worker: Handover<T>) -> Result<JoinHandle<Vec<Unfired<T>>>, StartError> {
        let shard = locked(&shard_worker).as_ref().map_or(0, |shard_worker| shard_worker.shard);
        // Never missing: whoever starts the engine has a `Timer`, or is one of its workers.
        let Some(inner) = self.hold() else { return Err(StartError::Stopped) };
        std::thread::Builder::new()
            .name(format!("{}-{shard}", self.thread_name))
            .spawn(move || {
                let shard_worker = locked(&shard_worker).take();
                shard_worker.map_or_else(Vec::new, |shard_worker| worker::run(&inner, shard_worker))
            })
            .map_err(|error| StartError::Spawn { shard, message: error.to_string() })
    }
}
