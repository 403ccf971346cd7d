//! The engine on a clock that is moved by hand, turned by hand or by its worker, against the model; and what
//! handles tell of timers that have ended, for ever.

use super::book::{Armed, Book, Goal, State, Subject};
use super::choices::{Act, Budgets, Ops, Shape, Span, Step, weighted};
use super::ledger::Payload;
use super::ticks::Ticks;
use arbitrary::Arbitrary;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tickwheel::__internal::set_home;
use tickwheel::{
    Builder, Cancel, Drive, EngineState, Expired, Key, ManualClock, Pinning, Reschedule, StopError,
    Time, Timer, TimerHandle, TimerState, TurnError,
};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    shape: Shape,
    budgets: Budgets,
    uptime: Span,
    /// With a worker the engine has one shard, and what is due has fired before the next operation.
    worker: bool,
    shards: u8,
    spread: bool,
    /// Whether the engine is stopped in the end, or dropped.
    stop: bool,
    ops: Ops<Op>,
}

/// The ways in: a plain key, or a handle where there is one.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Name {
    Key,
    Handle,
}

weighted! {
    enum Op {
        120 => Do(Act<Name>),
        /// To be done by the handler of the next timer that fires.
        24 => React(Act<Name>),
        40 => Turn(Step),
        8 => Advance(Step),
        10 => DropHandle(u8),
        5 => DetachHandle(u8),
        1 => Stop,
    }
}

/// The subject.
struct Engine {
    timer: Timer<Payload>,
    handles: BTreeMap<u64, TimerHandle<Payload>>,
    drains_all: bool,
    worker: bool,
    /// The thread that does the operations.
    home: ThreadId,
    /// Whether the calling thread's home changes before each call, and the number of its changes.
    spread: bool,
    changes: usize,
}

impl Engine {
    fn keep(&mut self, id: u64, timeout: TimerHandle<Payload>) -> Key<Payload> {
        let key = timeout.key();
        // A worker may have fired it by now.
        assert!(self.worker || timeout.state() == TimerState::Pending);
        assert!(self.handles.insert(id, timeout).is_none());
        key
    }

    fn handle(&self, by: Name, id: u64) -> Option<&TimerHandle<Payload>> {
        self.handles.get(&id).filter(|_| matches!(by, Name::Handle))
    }
}

impl Subject for Engine {
    type By = Name;

    fn now(&self, _: Name) -> Time {
        self.timer.now()
    }

    fn present(&self, by: Name) -> Time {
        Ticks::new(self.timer.tick()).asked(self.now(by))
    }

    fn schedule(&mut self, by: Name, goal: Goal, payload: Payload) -> Armed {
        let id = payload.id();
        match by {
            Name::Key => self.timer.schedule(goal.when(), payload),
            Name::Handle => self
                .timer
                .schedule_handle(goal.when(), payload)
                .map(|it| self.keep(id, it)),
        }
    }

    fn cancel(&mut self, by: Name, id: u64, key: Key<Payload>) -> Cancel<Payload> {
        self.handle(by, id)
            .map_or_else(|| self.timer.cancel(key), TimerHandle::cancel)
    }

    fn reschedule(&mut self, by: Name, id: u64, key: Key<Payload>, goal: Goal) -> Reschedule {
        match self.handle(by, id) {
            Some(handle) => handle.reschedule(goal.when()),
            None => self.timer.reschedule(key, goal.when()),
        }
    }

    fn is_pending(&mut self, by: Name, id: u64, key: Key<Payload>) -> bool {
        self.handle(by, id)
            .map_or_else(|| self.timer.is_pending(key), TimerHandle::is_pending)
    }

    fn queue(&self, _: Name, key: Key<Payload>) -> Option<usize> {
        // Messages keep the order of each thread, and with a worker there are two: its handlers' and ours.
        let queue = if self.worker {
            usize::from(thread::current().id() == self.home)
        } else {
            key.shard()
        };
        // A message that stays behind in the inbox may be filed after its tick has passed.
        self.drains_all.then_some(queue)
    }
}

/// The model and the engine, shared with the handler.
struct World {
    book: Book,
    reactions: VecDeque<Act<Name>>,
    /// There is one from the moment it is built.
    engine: Option<Engine>,
    now: Time,
}

impl World {
    fn act(&mut self, act: Act<Name>) {
        let engine = self.engine.as_mut().expect("it is built");
        if engine.spread {
            engine.changes += 1;
            set_home(&engine.timer, engine.changes % engine.timer.shards());
        }
        self.book.act(engine, act);
    }

    fn handle(&mut self, expired: Expired<Payload>) {
        assert_eq!(expired.shard, expired.key.shard());
        // A timer that a handler makes may fire in the same call, on another shard or in another of its turns.
        self.book.fired(&expired, self.now, false);
        drop(expired);
        if let Some(act) = self.reactions.pop_front() {
            self.act(act);
            let Some(Engine { timer, worker, .. }) = &self.engine else {
                return;
            };
            assert!(*worker || timer.turn() == Err(TurnError::InsideHandler));
            assert!(matches!(timer.stop(), Err(StopError::InsideHandler)));
        }
    }

    fn stop(&mut self) {
        let engine = self.engine.as_ref().expect("it is built");
        self.book.stopped = true;
        let unfired = engine.timer.stop().expect("this is no handler");
        self.book.returned(unfired);
        assert_eq!(self.book.pending(), 0, "timers are lost");
        assert!(engine.timer.is_stopped());
    }

    /// Compares what engine and handles tell with the model; `handles` of them, the latest ones.
    fn compare(&self, handles: usize) {
        let engine = self.engine.as_ref().expect("it is built");
        assert_eq!(engine.timer.pending(), self.book.pending(), "pending");
        assert_eq!(
            self.book.ledger.alive(),
            self.book.pending(),
            "payloads alive"
        );
        let latest = engine.handles.iter().rev().take(handles);
        latest.for_each(|(id, timeout)| tells(&self.book, *id, timeout));
    }
}

type Shared = Arc<Mutex<World>>;

fn locked(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn build(case: &Case, clock: &ManualClock, world: &Shared) -> Engine {
    let (shards, drive) = match case.worker {
        true => (1, Drive::Workers),
        false => (1 + usize::from(case.shards % 3), Drive::Manual),
    };
    let builder = Builder::new()
        .shards(shards)
        .pinning(Pinning::Off)
        .tick(case.shape.tick.duration())
        .budget(case.budgets.budget())
        .drive(drive)
        .clock(clock.clone());
    let builder = case
        .shape
        .max_pending
        .get()
        .into_iter()
        .fold(builder, Builder::max_pending);
    let world = Arc::clone(world);
    let timer = builder
        .build_with(move |expired| locked(&world).handle(expired))
        .expect("every choice of settings is a good one");
    let drains_all = case.budgets.drain.is_none();
    Engine {
        timer,
        handles: BTreeMap::new(),
        drains_all,
        worker: case.worker,
        home: thread::current().id(),
        spread: case.spread && !case.worker,
        changes: 0,
    }
}

/// Runs the case; panics where engine and model differ.
pub fn check(case: &Case) {
    let ticks = case.shape.ticks();
    let clock = ManualClock::starting_at(case.uptime.time(ticks));
    let world = Arc::new(Mutex::new(World {
        book: Book::new(ticks, case.shape.max_pending.get()),
        reactions: VecDeque::new(),
        engine: None,
        now: clock.now(),
    }));
    let engine = build(case, &clock, &world);
    let timer = engine.timer.clone();
    locked(&world).engine = Some(engine);
    // The worker needs no turn to fire what is due at once: the model knows the time from the start.
    turn(&world, &clock, &timer, Step::Ticks(0));
    for op in &case.ops.0 {
        apply(&world, &clock, &timer, *op);
        if case.worker {
            turn(&world, &clock, &timer, Step::Ticks(0));
        }
        locked(&world).compare(4);
    }
    finish(&world, timer, case.stop);
}

fn apply(world: &Shared, clock: &ManualClock, timer: &Timer<Payload>, op: Op) {
    let mut guard = locked(world);
    let World {
        book,
        reactions,
        engine,
        ..
    } = &mut *guard;
    let Engine {
        handles, worker, ..
    } = engine.as_mut().expect("it is built");
    match op {
        Op::Do(act) => guard.act(act),
        Op::React(act) => reactions.push_back(act),
        Op::Advance(by) if !*worker => {
            clock.set(by.from(clock.now(), book.first(), book.ticks));
        }
        Op::Advance(by) | Op::Turn(by) => {
            drop(guard);
            turn(world, clock, timer, by);
        }
        Op::DropHandle(pick) => {
            let handle = book.pick(pick).and_then(|id| handles.remove(&id));
            drop(guard);
            drop(handle);
        }
        Op::DetachHandle(pick) => {
            if let Some(id) = book.pick(pick) {
                let key = handles.remove(&id).map(TimerHandle::detach);
                assert!(key.is_none_or(|key| key == book.record(id).key));
            }
        }
        Op::Stop => guard.stop(),
    }
}

/// Moves the clock and lets everything fire that is due then.
fn turn(world: &Shared, clock: &ManualClock, timer: &Timer<Payload>, by: Step) {
    let (stopped, worker) = {
        let mut world = locked(world);
        // The worker sees the new time at once, and finds the model locked until that knows it as well.
        let now = clock.set(by.from(clock.now(), world.book.first(), world.book.ticks));
        world.now = now;
        world.book.begin_turn(now);
        (
            world.book.stopped,
            world.engine.as_ref().is_some_and(|engine| engine.worker),
        )
    };
    let turned = if worker {
        timer.wait_idle();
        Ok(locked(world).book.fired_in_turn())
    } else {
        timer.turn()
    };
    let mut world = locked(world);
    let book = &mut world.book;
    match turned {
        Ok(fired) => book.end_turn(fired, false),
        Err(error) => {
            book.end_turn(0, true);
            assert!(stopped && error == TurnError::Stopped, "{error}");
        }
    }
}

fn tells(book: &Book, id: u64, timeout: &TimerHandle<Payload>) {
    let record = book.record(id);
    let expected = match record.state {
        State::Pending => TimerState::Pending,
        State::Fired => TimerState::Fired,
        State::Cancelled => TimerState::Cancelled,
        State::Returned => TimerState::Returned,
    };
    assert_eq!(timeout.state(), expected, "timer {id}");
    let told = (
        timeout.is_pending(),
        timeout.is_fired(),
        timeout.is_cancelled(),
    );
    let ended = record.state != State::Pending;
    let expected = (
        !ended,
        record.state == State::Fired,
        ended && record.state != State::Fired,
    );
    assert_eq!(told, expected, "pending, expired, cancelled of timer {id}");
    assert_eq!(
        timeout.deadline(),
        book.ticks.start(record.due),
        "deadline of timer {id}"
    );
    assert_eq!(timeout.key(), record.key);
}

fn finish(world: &Shared, timer: Timer<Payload>, stops: bool) {
    let mut guard = locked(world);
    if stops {
        guard.stop();
    }
    guard.compare(usize::MAX);
    let engine = guard.engine.take().expect("it is built");
    let book = &mut guard.book;
    let stats = timer.stats();
    let ends = [State::Fired, State::Cancelled, State::Returned].map(|state| book.count(state));
    assert_eq!([stats.fired, stats.cancelled, stats.returned], ends);
    assert_eq!(
        (stats.scheduled, stats.panics),
        (book.records.len() as u64, 0)
    );
    assert_eq!(stats.lateness.count(), stats.fired);
    assert_eq!(timer.state() == EngineState::Stopped, book.stopped);
    let Engine {
        timer: last,
        handles,
        ..
    } = engine;
    drop((timer, last));
    if !book.stopped {
        // Dropping the engine ends what was pending, and drops its payloads.
        book.return_the_rest();
    }
    // With workers they do it, in their own time.
    book.ledger.wait_until_all_dropped();
    handles
        .iter()
        .for_each(|(id, timeout)| tells(book, *id, timeout));
    for timeout in handles.values() {
        assert!(!timeout.cancel().is_won() && !timeout.reschedule(Duration::ZERO).is_moved());
    }
}
