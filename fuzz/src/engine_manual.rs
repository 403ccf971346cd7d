//! The engine, turned by hand on a clock that is moved by hand, against the model; and what handles tell of timers
//! that have ended, for ever.

use crate::book::{Armed, Book, State, Subject};
use crate::inputs::{Act, Budgets, MAX_OPS, Span, Step, TickLength, Wheel};
use crate::ticks::Ticks;
use crate::tracked::Tracked;
use arbitrary::Arbitrary;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tickwheel::{
    Builder, Cancel, Drive, EngineState, Expired, Key, ManualClock, Reschedule, Routing, StopError,
    Time, Timeout, Timer, TurnError,
};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    tick: TickLength,
    wheel: Wheel,
    max_pending: Option<u8>,
    budgets: Budgets,
    uptime: Span,
    shards: u8,
    spread: bool,
    /// Whether the engine is stopped in the end, or dropped.
    stop: bool,
    ops: Vec<Op>,
}

/// The ways in: a plain key, or a handle where there is one.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Name {
    Key,
    Handle,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Op {
    Do(Act<Name>),
    /// To be done by the handler of the next timer that fires.
    React(Act<Name>),
    Turn(Step),
    Advance(Step),
    DropHandle(u8),
    DetachHandle(u8),
    Stop,
}

/// The subject.
struct Engine {
    timer: Timer<Tracked>,
    handles: BTreeMap<u32, Timeout<Tracked>>,
    drains_all: bool,
}

impl Engine {
    fn keep(&mut self, id: u32, timeout: Timeout<Tracked>) -> Key<Tracked> {
        let key = timeout.key();
        assert!(timeout.is_pending() && !timeout.is_cancelled() && !timeout.is_expired());
        assert!(self.handles.insert(id, timeout).is_none());
        key
    }

    fn handle(&self, by: Name, id: u32) -> Option<&Timeout<Tracked>> {
        self.handles.get(&id).filter(|_| matches!(by, Name::Handle))
    }
}

impl Subject for Engine {
    type By = Name;

    fn now(&self, _: Name) -> Time {
        self.timer.now()
    }

    fn schedule(&mut self, by: Name, delay: Duration, payload: Tracked) -> Armed {
        let id = payload.id;
        match by {
            Name::Key => self.timer.schedule_key(delay, payload),
            Name::Handle => self.timer.schedule(delay, payload).map(|it| self.keep(id, it)),
        }
    }

    fn schedule_at(&mut self, by: Name, deadline: Time, payload: Tracked) -> Armed {
        let id = payload.id;
        match by {
            Name::Key => self.timer.schedule_key(deadline, payload),
            Name::Handle => self.timer.schedule(deadline, payload).map(|it| self.keep(id, it)),
        }
    }

    fn cancel(&mut self, by: Name, id: u32, key: Key<Tracked>) -> Cancel<Tracked> {
        self.handle(by, id).map_or_else(|| self.timer.cancel(key), Timeout::cancel)
    }

    fn reschedule(&mut self, by: Name, id: u32, key: Key<Tracked>, delay: Duration) -> Reschedule {
        match self.handle(by, id) {
            Some(handle) => handle.reschedule(delay),
            None => self.timer.reschedule(key, delay),
        }
    }

    fn reschedule_at(
        &mut self,
        by: Name,
        id: u32,
        key: Key<Tracked>,
        deadline: Time,
    ) -> Reschedule {
        match self.handle(by, id) {
            Some(handle) => handle.reschedule(deadline),
            None => self.timer.reschedule(key, deadline),
        }
    }

    fn is_pending(&self, by: Name, id: u32, key: Key<Tracked>) -> bool {
        self.handle(by, id).map_or_else(|| self.timer.is_pending(key), Timeout::is_pending)
    }

    fn queue(&self, _: Name, key: Key<Tracked>) -> Option<usize> {
        // A message that stays behind in the inbox may be filed after its tick has passed.
        self.drains_all.then_some(key.shard())
    }
}

/// The model, shared with the handler.
struct World {
    book: Book,
    reactions: VecDeque<Act<Name>>,
    /// At home in `check`; here while the engine turns.
    engine: Option<Engine>,
    now: Time,
}

impl World {
    fn handle(&mut self, expired: Expired<Tracked>) {
        assert_eq!(expired.shard, expired.key.shard());
        // A timer that a handler makes may fire in the same call, on another shard or in another of its turns.
        self.book.fired(&expired, self.now, false);
        drop(expired);
        if let (Some(act), Some(engine)) = (self.reactions.pop_front(), &mut self.engine) {
            self.book.act(engine, act);
            assert_eq!(engine.timer.turn(), Err(TurnError::InsideHandler));
            assert!(matches!(engine.timer.stop(), Err(StopError::InsideHandler)));
        }
    }
}

type Shared = Arc<Mutex<World>>;

fn locked(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the case; panics where engine and model differ.
pub fn check(case: &Case) {
    let ticks = Ticks::new(case.tick.duration());
    let clock = ManualClock::starting_at(case.uptime.time(ticks));
    let limit = case.max_pending.map(|limit| 1 + usize::from(limit % 64));
    let world = Arc::new(Mutex::new(World {
        book: Book::new(ticks, limit),
        reactions: VecDeque::new(),
        engine: None,
        now: clock.now(),
    }));
    let mut builder = Builder::new()
        .shards(1 + usize::from(case.shards % 3))
        .tick(case.tick.duration())
        .wheel(case.wheel.kind())
        .budget(case.budgets.budget())
        .routing(if case.spread { Routing::Spread } else { Routing::Home })
        .drive(Drive::Manual)
        .clock(clock.clone());
    if let Some(limit) = limit {
        builder = builder.max_pending(limit);
    }
    let handler_world = Arc::clone(&world);
    let timer = builder
        .build_with(move |expired| locked(&handler_world).handle(expired))
        .expect("every choice of settings is a good one");
    let handles = BTreeMap::new();
    let drains_all = case.budgets.drain.is_none();
    let mut engine = Engine { timer, handles, drains_all };
    for op in case.ops.iter().take(MAX_OPS) {
        engine = apply(&world, &clock, engine, *op);
        compare(&locked(&world).book, &engine, 4);
    }
    finish(&world, engine, case.stop);
}

fn apply(world: &Shared, clock: &ManualClock, mut engine: Engine, op: Op) -> Engine {
    let mut guard = locked(world);
    let book = &mut guard.book;
    match op {
        Op::Do(act) => drop(book.act(&mut engine, act)),
        Op::React(act) => guard.reactions.push_back(act),
        Op::Advance(by) => drop(clock.set(by.from(clock.now(), book.first(), book.ticks))),
        Op::Turn(by) => {
            let now = clock.set(by.from(clock.now(), book.first(), book.ticks));
            drop(guard);
            return turn(world, now, engine);
        }
        Op::DropHandle(pick) => {
            let handle = book.pick(pick).and_then(|id| engine.handles.remove(&id));
            drop(guard);
            drop(handle);
        }
        Op::DetachHandle(pick) => {
            if let Some(id) = book.pick(pick) {
                let key = engine.handles.remove(&id).map(Timeout::detach);
                assert!(key.is_none_or(|key| key == book.record(id).key));
            }
        }
        Op::Stop => stop(book, &engine),
    }
    engine
}

fn turn(world: &Shared, now: Time, engine: Engine) -> Engine {
    let timer = engine.timer.clone();
    let stopped = {
        let mut world = locked(world);
        world.now = now;
        world.engine = Some(engine);
        world.book.begin_turn(now);
        world.book.stopped
    };
    let turned = timer.turn();
    let mut world = locked(world);
    match turned {
        Ok(fired) => world.book.end_turn(fired, false),
        Err(error) => {
            world.book.end_turn(0, true);
            assert!(stopped && error == TurnError::Stopped, "{error}");
        }
    }
    world.engine.take().expect("the handler leaves the engine where it is")
}

fn stop(book: &mut Book, engine: &Engine) {
    book.stopped = true;
    let unfired = engine.timer.stop().expect("this is no handler");
    book.returned(unfired);
    assert!(engine.timer.is_stopped());
}

/// Compares what engine and handles tell with the model; `handles` of them, the latest ones.
fn compare(book: &Book, engine: &Engine, handles: usize) {
    assert_eq!(engine.timer.pending(), book.pending(), "pending");
    assert_eq!(book.live.count(), book.pending(), "payloads alive");
    engine.handles.iter().rev().take(handles).for_each(|(id, timeout)| tells(book, *id, timeout));
}

fn tells(book: &Book, id: u32, timeout: &Timeout<Tracked>) {
    let record = book.record(id);
    let told = (timeout.is_pending(), timeout.is_expired(), timeout.is_cancelled());
    let expected = match record.state {
        State::Pending => (true, false, false),
        State::Fired => (false, true, false),
        State::Cancelled | State::Returned => (false, false, true),
    };
    assert_eq!(told, expected, "pending, expired, cancelled of timer {id}");
    assert_eq!(timeout.deadline(), book.ticks.start(record.due), "deadline of timer {id}");
    assert_eq!(timeout.key(), record.key);
}

fn finish(world: &Shared, engine: Engine, stops: bool) {
    let mut guard = locked(world);
    let book = &mut guard.book;
    if stops {
        stop(book, &engine);
    }
    compare(book, &engine, usize::MAX);
    let stats = engine.timer.stats();
    let ends = [State::Fired, State::Cancelled, State::Returned].map(|state| book.count(state));
    assert_eq!([stats.fired(), stats.cancelled(), stats.returned()], ends);
    assert_eq!((stats.scheduled(), stats.panics()), (book.records.len() as u64, 0));
    assert_eq!(stats.lateness().count(), stats.fired());
    assert_eq!(engine.timer.state() == EngineState::Stopped, book.stopped);
    let Engine { timer, handles, .. } = engine;
    drop(timer);
    if !book.stopped {
        // Dropping the engine ends what was pending, and drops its payloads.
        let left: Vec<u32> = book.all_pending().map(|(id, _)| id).collect();
        left.into_iter().for_each(|id| book.end(id, State::Returned));
    }
    assert_eq!(book.live.count(), 0, "payloads after the end");
    handles.iter().for_each(|(id, timeout)| tells(book, *id, timeout));
    for timeout in handles.values() {
        assert!(!timeout.cancel().won() && !timeout.reschedule(Duration::ZERO).moved());
    }
}
