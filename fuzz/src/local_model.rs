//! `LocalTimer` against the model, periodic timers included.

use crate::book::{Armed, Book, State, Subject};
use crate::inputs::{Act, MAX_OPS, Span, Step, TickLength, Wheel};
use crate::ticks::{Rhythm, Ticks};
use crate::tracked::Tracked;
use arbitrary::Arbitrary;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tickwheel::{Cancel, Expired, Key, LocalTimer, ManualClock, Reschedule, Time};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    tick: TickLength,
    wheel: Wheel,
    max_pending: Option<u8>,
    uptime: Span,
    ops: Vec<Op>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Op {
    Do(Reaction),
    /// To be done by the handler of the next timer that fires.
    React(Reaction),
    Poll(Step, u8),
    PollBehind(Span, u8),
    /// A poll that reads the clock after handlers.
    PollClock(Step, u8),
    PollAll(Step),
    Jump(u8),
    Drain(u8),
    Clear,
    Iterate,
}

/// What a handler may do as well.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Reaction {
    Act(Act<()>),
    Repeat { first: Span, length: Span, rhythm: Rhythm },
    EndPeriodic { pick: u8 },
    MovePeriodic { pick: u8, delay: Span },
    TakeTime(u16),
    PollInside,
}

/// A periodic timer of the model.
struct Periodic {
    key: Key<Tracked>,
    due: u64,
    nominal: Time,
    length: Duration,
    rhythm: Rhythm,
}

/// Numbers of periodic timers begin here.
const PERIODIC: u32 = 1 << 31;

/// The subject.
struct Local<'a> {
    timer: &'a mut LocalTimer<Tracked>,
    now: Time,
    /// The latest time of a poll.
    latest: Time,
}

impl Subject for Local<'_> {
    type By = ();

    fn now(&self, (): ()) -> Time {
        self.now
    }

    fn polled(&self) -> Option<Time> {
        Some(self.latest)
    }

    fn schedule(&mut self, (): (), delay: Duration, payload: Tracked) -> Armed {
        self.timer.schedule(self.now, delay, payload)
    }

    fn schedule_at(&mut self, (): (), deadline: Time, payload: Tracked) -> Armed {
        self.timer.schedule(Time::ZERO, deadline, payload)
    }

    fn cancel(&mut self, (): (), _: u32, key: Key<Tracked>) -> Cancel<Tracked> {
        self.timer.cancel(key)
    }

    fn reschedule(&mut self, (): (), _: u32, key: Key<Tracked>, delay: Duration) -> Reschedule {
        self.timer.reschedule(self.now, key, delay)
    }

    fn reschedule_at(&mut self, (): (), _: u32, key: Key<Tracked>, deadline: Time) -> Reschedule {
        self.timer.reschedule(Time::ZERO, key, deadline)
    }

    fn is_pending(&self, (): (), id: u32, key: Key<Tracked>) -> bool {
        let pending = self.timer.is_pending(key);
        assert_eq!(self.timer.get(key).map(|payload| payload.id), pending.then_some(id));
        assert_eq!(self.timer.deadline(key).is_some(), pending);
        pending
    }

    fn queue(&self, (): (), _: Key<Tracked>) -> Option<usize> {
        Some(0)
    }
}

struct World {
    book: Book,
    clock: ManualClock,
    /// The latest time of a poll.
    latest: Time,
    reactions: VecDeque<Reaction>,
    periodics: BTreeMap<u32, Periodic>,
    next_periodic: u32,
    /// Periodic timers that handlers of this poll have made or moved.
    touched: BTreeSet<u32>,
    periods_fired: usize,
    by_clock: bool,
}

impl World {
    fn react(&mut self, timer: &mut LocalTimer<Tracked>, reaction: Reaction) {
        let now = self.clock.now();
        match reaction {
            Reaction::Act(act) => {
                let latest = self.latest;
                drop(self.book.act(&mut Local { timer, now, latest }, act));
            }
            Reaction::Repeat { first, length, rhythm } => {
                self.repeat(timer, first.from(now, false, self.book.ticks), length, rhythm);
            }
            Reaction::EndPeriodic { pick } => self.end_periodic(timer, pick),
            Reaction::MovePeriodic { pick, delay } => self.move_periodic(timer, pick, delay),
            Reaction::TakeTime(nanos) => {
                self.clock.advance(Duration::from_nanos(nanos.into()));
            }
            Reaction::PollInside => {}
        }
    }

    fn repeat(&mut self, timer: &mut LocalTimer<Tracked>, first: Time, span: Span, rhythm: Rhythm) {
        let length = span.duration(self.book.ticks);
        let Some(period) = rhythm.period(length) else { return };
        let id = self.next_periodic;
        match timer.schedule_periodic(Time::ZERO, first, period, self.book.live.payload(id)) {
            Err(error) => self.book.refused(id, &error),
            Ok(key) => {
                let due = self.book.ticks.at(first);
                let has_passed = first <= self.latest;
                let due = if has_passed { due.min(self.book.ticks.current(self.latest)) } else { due };
                self.next_periodic += 1;
                self.book.others += 1;
                self.touched.insert(id);
                let periodic = Periodic { key, due, nominal: first, length, rhythm };
                self.periodics.insert(id, periodic);
            }
        }
    }

    fn pick_periodic(&self, pick: u8) -> Option<u32> {
        let place = usize::from(pick).checked_rem(self.periodics.len())?;
        self.periodics.keys().nth(place).copied()
    }

    fn end_periodic(&mut self, timer: &mut LocalTimer<Tracked>, pick: u8) {
        let Some(id) = self.pick_periodic(pick) else { return };
        let Some(Periodic { key, .. }) = self.periodics.remove(&id) else { return };
        self.book.others -= 1;
        self.book.has_zombies = true;
        assert_eq!(timer.cancel(key).payload().map(|payload| payload.id), Some(id));
        assert!(!timer.is_pending(key) && !timer.cancel(key).won());
    }

    fn move_periodic(&mut self, timer: &mut LocalTimer<Tracked>, pick: u8, delay: Span) {
        let Some(id) = self.pick_periodic(pick) else { return };
        let (now, ticks) = (self.clock.now(), self.book.ticks);
        let Some(periodic) = self.periodics.get_mut(&id) else { return };
        assert!(timer.reschedule(now, periodic.key, delay.duration(ticks)).moved());
        periodic.nominal = crate::ticks::later(now, delay.duration(ticks));
        periodic.due = ticks.deadline(now, periodic.nominal);
        self.touched.insert(id);
        self.book.has_zombies = true;
    }

    /// The handler.
    fn handle(&mut self, timer: &mut LocalTimer<Tracked>, expired: Expired<Tracked>) {
        let id = expired.payload.id;
        let nominal = if id >= PERIODIC {
            self.period_fired(id, &expired)
        } else {
            self.book.fired(&expired, self.latest, true);
            None
        };
        drop(expired);
        if let Some(reaction) = self.reactions.pop_front() {
            if matches!(reaction, Reaction::PollInside) {
                let polled = timer.poll(Time::MAX, 100, |_| panic!("fires inside a handler"));
                assert_eq!((polled.fired, polled.more), (0, false));
            }
            self.react(timer, reaction);
        }
        if let (true, Some(nominal)) = (self.by_clock, nominal) {
            self.rest(id, nominal);
        }
    }

    /// A period has fired; the next nominal deadline.
    fn period_fired(&mut self, id: u32, expired: &Expired<Tracked>) -> Option<Time> {
        let periodic = self.periodics.get_mut(&id).expect("a periodic timer fires after its end");
        let start = self.book.ticks.start(periodic.due);
        assert!(periodic.due <= self.book.latest, "periodic timer {id} is early");
        assert_eq!((expired.key, expired.deadline), (periodic.key, start));
        assert_eq!(expired.lateness, self.latest.saturating_duration_since(start));
        let next = periodic.rhythm.next(periodic.length, periodic.nominal, self.latest);
        periodic.nominal = next;
        periodic.due = self.book.ticks.at(next);
        self.periods_fired += 1;
        Some(next)
    }

    /// A fixed delay counts from the end of the handler, unless that has moved the timer away from `nominal`.
    fn rest(&mut self, id: u32, nominal: Time) {
        let Some(periodic) = self.periodics.get_mut(&id) else { return };
        let next = crate::ticks::later(self.clock.now(), periodic.length);
        let counts = periodic.rhythm == Rhythm::FixedDelay && periodic.nominal == nominal;
        if counts && next > nominal {
            periodic.nominal = next;
            periodic.due = self.book.ticks.at(next);
            self.book.has_zombies = true;
        }
    }

    fn poll(&mut self, timer: &mut LocalTimer<Tracked>, now: Time, budget: usize) -> bool {
        self.latest = self.latest.max(now);
        self.book.begin_turn(now);
        self.periods_fired = 0;
        self.touched.clear();
        let polled = if self.by_clock {
            let clock = self.clock.clone();
            timer.poll_with_clock(&clock, budget, |timer, expired| self.handle(timer, expired))
        } else {
            timer.poll_with(now, budget, |timer, expired| self.handle(timer, expired))
        };
        assert!(polled.fired <= budget, "{polled:?} with a budget of {budget}");
        self.book.end_turn(polled.fired - self.periods_fired, polled.more);
        if !polled.more {
            let due = |(id, periodic): (&u32, &Periodic)| {
                periodic.due <= self.book.latest && !self.touched.contains(id)
            };
            assert!(!self.periodics.iter().any(due), "a period is due and has not fired");
        }
        polled.more
    }

    /// Polls until nothing is left; each poll makes headway, so this ends, unless periods pile up.
    fn poll_all(&mut self, timer: &mut LocalTimer<Tracked>, now: Time) {
        let enough = 64 + 16 * (self.book.records.len() + MAX_OPS);
        let polls = (0..enough).take_while(|_| self.poll(timer, now, 7)).count();
        assert!(polls < enough || !self.periodics.is_empty(), "{polls} polls did not suffice");
    }

    fn first(&self) -> Option<Time> {
        let periodics = self.periodics.values().map(|periodic| self.book.ticks.start(periodic.due));
        periodics.chain(self.book.first()).min().filter(|first| *first < Time::MAX)
    }

    /// Everything ends: `unfired` are those that came out.
    fn all_end(&mut self, unfired: Vec<tickwheel::Unfired<Tracked>>) {
        for unfired in unfired {
            let id = unfired.payload.id;
            let (key, due) = match self.periodics.get(&id) {
                Some(periodic) => (periodic.key, periodic.due),
                None => (self.book.record(id).key, self.book.record(id).due),
            };
            assert_eq!((unfired.key, unfired.deadline), (key, self.book.ticks.start(due)));
            if self.periodics.remove(&id).is_none() {
                assert_eq!(self.book.record(id).state, State::Pending);
                self.book.end(id, State::Returned);
            }
        }
        let left: Vec<u32> = self.book.all_pending().map(|(id, _)| id).collect();
        left.into_iter().for_each(|id| self.book.end(id, State::Returned));
        self.periodics.clear();
        self.book.others = 0;
    }

    fn iterate(&self, timer: &LocalTimer<Tracked>) {
        let told: BTreeMap<u32, (Key<Tracked>, Time)> =
            timer.iter().map(|(key, deadline, payload)| (payload.id, (key, deadline))).collect();
        let start = |due| self.book.ticks.start(due);
        let once = self.book.all_pending().map(|(id, timer)| (id, (timer.key, start(timer.due))));
        let periodic =
            self.periodics.iter().map(|(id, timer)| (*id, (timer.key, start(timer.due))));
        assert_eq!(told, once.chain(periodic).collect(), "what the timer iterates over");
        for (id, (key, deadline)) in &told {
            assert_eq!(timer.deadline(*key), Some(*deadline), "timer {id}");
        }
    }

    fn check(&self, timer: &LocalTimer<Tracked>) {
        let pending = self.book.pending();
        assert_eq!((timer.len(), timer.is_empty()), (pending, pending == 0));
        assert_eq!(self.book.live.count(), pending, "payloads alive");
        let (next, first) = (timer.next_deadline(), self.first());
        // What a poll has left for want of budget is overdue, and no order is kept among that.
        let overdue = first.is_some_and(|first| first <= self.latest);
        if !self.book.has_zombies && !overdue {
            assert_eq!(next, first, "the next deadline is exact without zombies");
        } else if let Some(first) = first {
            assert!(next.is_some_and(|next| next <= first), "{next:?} is told, {first:?} is due");
        }
        assert!(pending > 0 || next.is_none(), "{next:?} with nothing pending");
        let now = self.clock.now();
        let timeout = next.map(|next| next.saturating_duration_since(now));
        assert_eq!(timer.poll_timeout(now), timeout);
        let whole = |timeout: Duration| {
            i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        };
        assert_eq!(timer.poll_timeout_ms(now), timeout.map_or(-1, whole));
    }
}

fn apply(world: &mut World, timer: &mut LocalTimer<Tracked>, op: Op) {
    let step = |world: &World, by: Step| {
        world.clock.set(by.from(world.clock.now(), world.first(), world.book.ticks))
    };
    match op {
        Op::Do(reaction) => world.react(timer, reaction),
        Op::React(reaction) => world.reactions.push_back(reaction),
        Op::Poll(by, budget) => {
            let now = step(world, by);
            world.poll(timer, now, budget.into());
        }
        Op::PollBehind(back, budget) => {
            let now = back.from(world.clock.now(), true, world.book.ticks);
            world.poll(timer, now, budget.into());
        }
        Op::PollClock(by, budget) => {
            let now = step(world, by);
            world.by_clock = true;
            world.poll(timer, now, budget.into());
            world.by_clock = false;
        }
        Op::PollAll(by) => {
            let now = step(world, by);
            world.poll_all(timer, now);
        }
        Op::Jump(budget) => {
            if let Some(next) = timer.next_deadline() {
                let now = world.clock.set(next);
                world.poll(timer, now, budget.into());
            }
        }
        Op::Drain(some) => {
            let unfired = timer.drain().take(some.into()).collect();
            world.all_end(unfired);
        }
        Op::Clear => {
            timer.clear();
            world.all_end(Vec::new());
        }
        Op::Iterate => world.iterate(timer),
    }
}

/// Runs the case; panics where timer and model differ.
pub fn check(case: &Case) {
    let ticks = Ticks::new(case.tick.duration());
    let limit = case.max_pending.map(|limit| 1 + usize::from(limit % 64));
    let mut builder = LocalTimer::builder().tick(case.tick.duration()).wheel(case.wheel.kind());
    if let Some(limit) = limit {
        builder = builder.max_pending(limit);
    }
    let mut timer: LocalTimer<Tracked> = builder.build().expect("a good choice of settings");
    let mut world = World {
        book: Book::new(ticks, limit),
        clock: ManualClock::starting_at(case.uptime.time(ticks)),
        latest: Time::ZERO,
        reactions: VecDeque::new(),
        periodics: BTreeMap::new(),
        next_periodic: PERIODIC,
        touched: BTreeSet::new(),
        periods_fired: 0,
        by_clock: false,
    };
    for op in case.ops.iter().take(MAX_OPS) {
        apply(&mut world, &mut timer, *op);
        world.check(&timer);
    }
    world.reactions.clear();
    let now = world.clock.now();
    world.poll_all(&mut timer, now);
    world.check(&timer);
    world.iterate(&timer);
    drop(timer);
    assert_eq!(world.book.live.count(), 0, "payloads after the end");
}
