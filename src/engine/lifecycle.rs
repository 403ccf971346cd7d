//! Start, stop, and turning by hand: the rare operations, under one lock.

use super::core::Core;
use super::handler::{Expired, Handler, Outcome, Unfired, run_caught};
use super::timer::EngineState;
use super::verdict::Reschedule;
use super::{Drive, worker};
use crate::clock::Time;
use crate::error::{ScheduleError, ScheduleErrorKind, StartError, StopError, TurnError};
use crate::key::Key;
use crate::park::sleeper::Sleeper;
use crate::period::Period;
use crate::shard::periodic::{Again, PeriodicKey, Plan};
use crate::shard::{Expiry, Owner, Turn};
use crate::sync::process::{AtomicUsize, Ordering};
use crate::sync::slot;
use crate::tick::saturating_ns;
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
pub(super) struct Seat<T> {
    pub(super) owner: Owner<T>,
    pub(super) sleeper: Sleeper,
    pub(super) handler: Handler<T>,
    pub(super) shard: usize,
    /// The core to pin the worker to.
    pub(super) core: Option<usize>,
}

/// A seat on its way to its thread: it stays here if the thread cannot be spawned.
type Handover<T> = Arc<Mutex<Option<Seat<T>>>>;

/// What the lock protects.
pub(super) struct Lifecycle<T> {
    /// Seats without a thread: all of them before the start, and for ever with `Drive::Caller`.
    seats: Vec<Handover<T>>,
    workers: Vec<JoinHandle<Vec<Unfired<T>>>>,
}

impl<T> Lifecycle<T> {
    pub(super) fn new(seats: Vec<Seat<T>>) -> Self {
        // ORDERING: Relaxed: a number for a warning.
        let many = ALIVE.fetch_add(1, Ordering::Relaxed) + 1;
        if many > MANY_ENGINES {
            WARNED.call_once(|| log::warn!(
                "{many} timer engines are alive in this process; one is enough for a whole program: \
                 share it by cloning the Timer"
            ));
        }
        let seats = seats.into_iter().map(|seat| Arc::new(Mutex::new(Some(seat)))).collect();
        Self { seats, workers: Vec::new() }
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

impl<T> Seat<T> {
    /// One turn at the clock's current time, with the handler's panics caught and counted.
    ///
    /// A turn that goes on where the last one ran out of budget takes nothing new from the inbox.
    pub(super) fn turn(&mut self, core: &Core<T>, goes_on: bool) -> Turn {
        let mut now = core.now();
        let mut fires = 0;
        let tick = core.rate.current(now);
        let mut piece = if goes_on {
            self.owner.resume_turn(tick, &core.budget)
        } else {
            self.owner.begin_turn(tick, &core.budget)
        };
        while let Some(expiry) = self.owner.next_expiry(&mut piece) {
            fires += 1;
            if fires % FIRES_PER_CLOCK_READ == 0 {
                now = core.now();
            }
            let periodic = expiry.periodic;
            self.handle(core, expiry, now);
            if periodic {
                self.owner.finish_period(core.now());
            }
        }
        self.owner.finish_turn(piece, &core.budget)
    }

    /// Runs the handler for one timer.
    fn handle(&mut self, core: &Core<T>, expiry: Expiry<T>, now: Time) {
        let counters = self.owner.remote().counters();
        let Expiry { payload, key, deadline, .. } = expiry;
        let deadline = core.rate.start_of(deadline);
        let lateness = now.saturating_duration_since(deadline);
        counters.lateness.record(saturating_ns(lateness));
        let expired = Expired { payload, key, deadline, lateness, shard: self.shard };
        match run_caught(&mut self.handler, core.panic_hook.as_ref(), expired) {
            Some(Outcome::Done) => {}
            Some(Outcome::Refused) => drop(counters.refused_by_executor.bump()),
            None => drop(counters.panics.bump()),
        }
    }

    /// Ends the shard and collects what has not ended.
    pub(super) fn close(&mut self, core: &Core<T>) -> Vec<Unfired<T>> {
        let mut unfired = Vec::new();
        self.owner.close(|Expiry { payload, key, deadline, .. }| {
            unfired.push(Unfired { payload, key, deadline: core.rate.start_of(deadline) });
        });
        unfired
    }
}

impl<T> Core<T> {
    fn is_inside(&self) -> bool {
        // Without the thread-local (the thread is being torn down) no handler runs.
        INSIDE.try_with(|engines| engines.borrow().contains(&self.id)).unwrap_or(false)
    }

    #[inline]
    pub(super) fn reschedule(&self, key: Key, tick: u64) -> Reschedule {
        let moved = self.with_lane(key, |remote, lane| remote.reschedule(lane, key, tick));
        Reschedule::from_moved(moved.unwrap_or(false))
    }

    pub(super) fn stop(&self) -> Result<Vec<Unfired<T>>, StopError> {
        if self.is_inside() {
            return Err(StopError::InsideHandler);
        }
        let mut lifecycle = locked(&self.lifecycle);
        self.set_state(EngineState::Stopped);
        self.summon_all();
        let mut unfired = Vec::new();
        for seat in lifecycle.seats.drain(..) {
            if let Some(mut seat) = locked(&seat).take() {
                unfired.append(&mut seat.close(self));
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
            self.summon_all();
        }
    }

    /// Turns every shard until nothing more is due now; how many timers fired.
    pub(super) fn turn(&self) -> Result<usize, TurnError> {
        if self.drive != Drive::Caller {
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
        for seat in &lifecycle.seats {
            if let Some(seat) = locked(seat).as_mut() {
                // What the handlers schedule is left for the next call, so that this one ends.
                let mut turn = seat.turn(self, false);
                fired += turn.fired;
                while turn.more {
                    turn = seat.turn(self, true);
                    fired += turn.fired;
                }
            }
        }
        Ok(fired)
    }

    pub(super) fn settle(&self) {
        if self.drive == Drive::Caller || self.is_inside() {
            return;
        }
        // Yielding first: a worker usually settles within microseconds.
        let mut looks = 0u32;
        while self.state() == EngineState::Started {
            let now = self.rate.current(self.now());
            if self.remotes.iter().all(|remote| remote.is_settled(now)) {
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

impl<T: Send + 'static> Core<T> {
    /// Starts the engine if need be; the payload comes back either way.
    #[inline]
    pub(super) fn ready(self: &Arc<Self>, payload: T) -> Result<T, ScheduleError<T>> {
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
        self: &Arc<Self>,
        first: Duration,
        period: Period,
        payload: T,
        again: Again<T>,
    ) -> Result<PeriodicKey, ScheduleError<T>> {
        let payload = self.ready(payload)?;
        let nominal = self.now().saturating_add(first);
        slot::with(|slot| {
            let shard = self.router.route(slot);
            let remote = &self.remotes[shard];
            let plan = Plan { payload, again, period, nominal, rate: self.rate };
            let begun = remote.schedule_periodic(remote.lane(slot), plan);
            begun.map_err(|refusal| self.rejected(refusal, shard))
        })
    }

    pub(super) fn start(self: &Arc<Self>) -> Result<(), StartError> {
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
            while let Some(seat) = lifecycle.seats.first() {
                let worker = self.spawn(Arc::clone(seat))?;
                lifecycle.workers.push(worker);
                lifecycle.seats.remove(0);
            }
        }
        self.set_state(EngineState::Started);
        Ok(())
    }

    /// Gives a seat its thread. On failure the seat stays where it is, for another attempt.
    fn spawn(
        self: &Arc<Self>,
        seat: Handover<T>,
    ) -> Result<JoinHandle<Vec<Unfired<T>>>, StartError> {
        let shard = locked(&seat).as_ref().map_or(0, |seat| seat.shard);
        let core = Arc::clone(self);
        std::thread::Builder::new()
            .name(format!("{}-{shard}", self.thread_name))
            .spawn(move || {
                let seat = locked(&seat).take();
                seat.map_or_else(Vec::new, |seat| worker::run(&core, seat))
            })
            .map_err(|error| StartError::Spawn { shard, message: error.to_string() })
    }
}
