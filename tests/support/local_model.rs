//! The timers of one thread against the model, periodic timers included.

use super::book::{Armed, Book, Effect, Goal, Repeat, State, Subject};
use super::choices::{Act, Limit, MAX_OPS, Ops, Shape, Span, Step, TickLength, budget, weighted};
use super::ledger::Payload;
use super::loop_timer::LoopTimer;
use super::ticks::{Rhythm, Ticks, later};
use arbitrary::Arbitrary;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tickwheel::{
    Budget, Cancel, Expired, Key, LocalTimer, ManualClock, Period, Polled, Reschedule, Time,
    Unfired, When,
};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    shape: Shape,
    uptime: Span,
    ops: Ops<Op>,
}

weighted! {
    pub(super) enum Op {
        100 => Do(Reaction),
        /// To be done by the handler of the next timer that fires.
        20 => React(Reaction),
        30 => Poll(Step, u8),
        4 => PollBehind(Span, u8),
        /// A poll that reads the clock after handlers.
        10 => PollClock(Step, u8),
        6 => PollAll(Step),
        /// A poll at the very time that the timer asks for.
        15 => Jump(u8),
        1 => Drain(u8),
        1 => Clear,
        6 => Iterate,
    }
}

weighted! {
    /// What a handler may do as well.
    pub(super) enum Reaction {
        40 => Act(Act<()>),
        3 => Replace { pick: u8 },
        3 => Repeat { first: Span, length: Span, rhythm: Rhythm },
        2 => EndPeriodic { pick: u8 },
        1 => MovePeriodic { pick: u8, delay: Span },
        2 => TakeTime(u16),
        2 => PollInside,
    }
}

/// With fewer timers than this no sweep begins: the bound on zombies is a little more.
pub(super) const SWEPT: usize = 15 * 1024;

/// A timer of one thread, with the calls that depend on its wheel.
pub(super) trait Local: LoopTimer<Payload = Payload> {
    /// The one delay of a timer over a queue.
    fn fixed_delay(&self) -> Option<Duration> {
        None
    }

    fn arm(&mut self, now: Time, when: When, payload: Payload) -> Armed;

    fn move_to(&mut self, now: Time, key: Key<Payload>, when: When) -> Reschedule;

    /// `None` if there are no periodic timers.
    fn repeat(&mut self, _: Time, _: Period, _: Payload) -> Option<Armed> {
        None
    }

    fn get(&self, key: Key<Payload>) -> Option<&Payload>;

    fn get_mut(&mut self, key: Key<Payload>) -> Option<&mut Payload>;

    /// Polls and, if the timer can, reads the clock again after each handler.
    fn poll_by(
        &mut self,
        clock: &ManualClock,
        handler: impl FnMut(&mut Self, Expired<Payload>),
    ) -> Polled {
        self.poll_with(clock.now(), handler)
    }
}

impl Local for LocalTimer<Payload> {
    fn arm(&mut self, now: Time, when: When, payload: Payload) -> Armed {
        self.schedule(now, when, payload)
    }

    fn move_to(&mut self, now: Time, key: Key<Payload>, when: When) -> Reschedule {
        self.reschedule(now, key, when)
    }

    fn repeat(&mut self, first: Time, period: Period, payload: Payload) -> Option<Armed> {
        Some(self.schedule_periodic(Time::ZERO, first, period, payload))
    }

    fn get(&self, key: Key<Payload>) -> Option<&Payload> {
        self.get(key)
    }

    fn get_mut(&mut self, key: Key<Payload>) -> Option<&mut Payload> {
        self.get_mut(key)
    }

    fn poll_by(
        &mut self,
        clock: &ManualClock,
        handler: impl FnMut(&mut Self, Expired<Payload>),
    ) -> Polled {
        self.poll_with_clock(clock, handler)
    }
}

/// The subject.
struct Told<'a, L> {
    timer: &'a mut L,
    now: Time,
    /// The latest time of a poll.
    latest: Time,
    /// The deadline at the back of a queue.
    back: u64,
}

impl<L: Local> Told<'_, L> {
    /// The time that a call is told: over a queue a delay says how far that lies back.
    fn at(&self, goal: Goal) -> Time {
        match goal {
            Goal::After(back) if self.timer.fixed_delay().is_some() => {
                Time::ZERO + self.now.saturating_duration_since(Time::ZERO + back)
            }
            _ => goal.told(self.now),
        }
    }
}

impl<L: Local> Subject for Told<'_, L> {
    type By = ();

    fn now(&self, (): ()) -> Time {
        self.now
    }

    fn present(&self, (): ()) -> Time {
        self.latest
    }

    /// Over a queue it is one delay after the call, or with the timer at the back.
    fn due(&self, (): (), goal: Goal, ticks: Ticks) -> u64 {
        match (self.timer.fixed_delay(), goal) {
            (Some(delay), _) => later(self.at(goal), delay).as_nanos().max(self.back),
            (None, Goal::After(delay)) => ticks.deadline(self.now, delay),
            (None, Goal::At(deadline)) => ticks.point(deadline, self.latest),
        }
    }

    fn schedule(&mut self, (): (), goal: Goal, payload: Payload) -> Armed {
        self.timer.arm(self.at(goal), goal.when(), payload)
    }

    fn cancel(&mut self, (): (), _: u64, key: Key<Payload>) -> Cancel<Payload> {
        self.timer.cancel(key)
    }

    fn reschedule(&mut self, (): (), _: u64, key: Key<Payload>, goal: Goal) -> Reschedule {
        self.timer.move_to(self.at(goal), key, goal.when())
    }

    fn is_pending(&mut self, (): (), id: u64, key: Key<Payload>) -> bool {
        let pending = self.timer.is_pending(key);
        assert_eq!(self.timer.get(key).map(Payload::id), pending.then_some(id));
        assert_eq!(
            self.timer.get_mut(key).map(|payload| payload.id()),
            pending.then_some(id)
        );
        assert_eq!(self.timer.deadline(key).is_some(), pending);
        pending
    }

    fn queue(&self, (): (), _: Key<Payload>) -> Option<usize> {
        Some(0)
    }
}

pub(super) struct World {
    pub(super) book: Book,
    clock: ManualClock,
    /// What steps of time are counted in.
    unit: Ticks,
    /// The deadline at the back of a queue.
    back: u64,
    /// The latest time of a poll.
    latest: Time,
    reactions: VecDeque<Reaction>,
    by_clock: bool,
    /// The last poll has left something for want of budget: then the next deadline may be told too early.
    is_cut_short: bool,
}

impl World {
    pub(super) fn new(book: Book, uptime: Span, unit: Ticks) -> Self {
        Self {
            book,
            clock: ManualClock::starting_at(uptime.time(unit)),
            unit,
            back: 0,
            latest: Time::ZERO,
            reactions: VecDeque::new(),
            by_clock: false,
            is_cut_short: false,
        }
    }

    fn told<'a, L: Local>(&self, timer: &'a mut L) -> Told<'a, L> {
        Told {
            timer,
            now: self.clock.now(),
            latest: self.latest,
            back: self.back,
        }
    }

    pub(super) fn act(&mut self, timer: &mut impl Local, act: Act<()>) {
        let effect = self.book.act(&mut self.told(timer), act);
        if let Effect::Armed { due } | Effect::Moved { to: due, .. } = effect {
            self.back = due;
        }
    }

    fn react(&mut self, timer: &mut impl Local, reaction: Reaction) {
        let now = self.clock.now();
        match reaction {
            Reaction::Act(act) => self.act(timer, act),
            Reaction::Replace { pick } => self.replace(timer, pick),
            Reaction::Repeat {
                first,
                length,
                rhythm,
            } => {
                self.repeat(
                    timer,
                    first.from(now, false, self.book.ticks),
                    length,
                    rhythm,
                );
            }
            Reaction::EndPeriodic { pick } => {
                let Some(id) = self.book.pick_periodic(pick) else {
                    return;
                };
                self.book.cancel(&mut self.told(timer), (), id);
                self.book.cancel(&mut self.told(timer), (), id);
            }
            Reaction::MovePeriodic { pick, delay } => {
                let Some(id) = self.book.pick_periodic(pick) else {
                    return;
                };
                let goal = Goal::After(delay.duration(self.book.ticks));
                self.book.reschedule(&mut self.told(timer), (), id, goal);
            }
            Reaction::TakeTime(nanos) => {
                self.clock.advance(Duration::from_nanos(nanos.into()));
            }
            Reaction::PollInside => {}
        }
    }

    fn repeat(&mut self, timer: &mut impl Local, first: Time, span: Span, rhythm: Rhythm) {
        let length = span.duration(self.book.ticks);
        if length.is_zero() {
            return;
        }
        let period = rhythm.period(length);
        let (id, due) = (
            self.book.records.len() as u64,
            self.book.ticks.point(first, self.latest),
        );
        match timer.repeat(first, period, self.book.ledger.payload(id)) {
            None => {}
            Some(Err(error)) => self.book.refused(id, &error),
            Some(Ok(key)) => {
                let repeat = Repeat {
                    nominal: first,
                    length,
                    rhythm,
                };
                self.book.accepted(None, due, key, Some(repeat));
            }
        }
    }

    /// Puts another payload in the place of a timer's, if it is still there.
    fn replace(&self, timer: &mut impl Local, pick: u8) {
        let Some(id) = self.book.pick(pick) else {
            return;
        };
        let record = self.book.record(id);
        let payload = timer.get_mut(record.key);
        assert_eq!(
            payload.is_some(),
            record.state == State::Pending,
            "timer {id}"
        );
        if let Some(payload) = payload {
            assert_eq!(payload.id(), id);
            *payload = self.book.ledger.payload(id);
        }
    }

    /// The handler.
    fn handle(&mut self, timer: &mut impl Local, expired: Expired<Payload>) {
        let id = expired.payload.id();
        self.book.fired(&expired, self.latest, true);
        let nominal = self.book.record(id).repeat.map(|repeat| repeat.nominal);
        drop(expired);
        if let Some(reaction) = self.reactions.pop_front() {
            if matches!(reaction, Reaction::PollInside) {
                let polled = timer.poll(Time::MAX, |_| panic!("fires inside a handler"));
                assert_eq!((polled.fired, polled.more), (0, false));
            }
            self.react(timer, reaction);
        }
        if let (true, Some(nominal)) = (self.by_clock, nominal) {
            self.rest(id, nominal);
        }
    }

    /// A fixed delay counts from the end of the handler, unless that has moved the timer away from `nominal`.
    fn rest(&mut self, id: u64, nominal: Time) {
        let record = &mut self.book.records[id as usize];
        let Some(repeat) = &mut record.repeat else {
            return;
        };
        let next = later(self.clock.now(), repeat.length);
        let counts = record.state == State::Pending
            && repeat.rhythm == Rhythm::FixedDelay
            && repeat.nominal == nominal;
        if counts && next > nominal {
            repeat.nominal = next;
            let due = self.book.ticks.at(next);
            self.book.set_due(id, due);
            self.book.has_zombies = true;
        }
    }

    fn poll(&mut self, timer: &mut impl Local, now: Time, budget: usize) -> bool {
        // A burst of short periods after a long time knows no end.
        let budget = if self.book.has_periodic() {
            budget.min(100)
        } else {
            budget
        };
        let quiet = self.reactions.is_empty();
        self.latest = self.latest.max(now);
        self.book.begin_turn(now);
        timer.set_budget(Budget::new().fire(budget));
        let budget = budget.max(1);
        let polled = if self.by_clock {
            let clock = self.clock.clone();
            timer.poll_by(&clock, |timer, expired| self.handle(timer, expired))
        } else {
            timer.poll_with(now, |timer, expired| self.handle(timer, expired))
        };
        assert!(
            polled.fired <= budget,
            "{polled:?} with a budget of {budget}"
        );
        self.book.end_turn(polled.fired, polled.more);
        // A sweep that is not at its end is more to do as well.
        let ample = budget == usize::MAX && quiet && self.book.records.len() < SWEPT;
        assert!(!ample || !polled.more, "a poll without limit leaves some");
        self.is_cut_short = polled.more;
        polled.more
    }

    /// Polls until nothing is left; each poll makes headway, so this ends, unless periods pile up.
    fn poll_all(&mut self, timer: &mut impl Local, now: Time) {
        let enough = match self.book.has_periodic() {
            true => 64,
            false => 64 + 16 * (self.book.records.len() + MAX_OPS),
        };
        let most = 7 + self.book.records.len() / 100;
        let polls = (0..enough)
            .take_while(|_| self.poll(timer, now, most))
            .count();
        assert!(
            polls < enough || self.book.has_periodic(),
            "{polls} polls did not suffice"
        );
    }

    /// Everything ends: `unfired` are those that came out.
    fn all_end(&mut self, unfired: Vec<Unfired<Payload>>) {
        self.book.returned(unfired);
        self.book.return_the_rest();
        self.book.has_zombies = false;
        self.is_cut_short = false;
    }

    fn iterate(&self, timer: &mut impl Local) {
        let listed: Vec<_> = timer.keys().collect();
        let mut id = |key| timer.get_mut(key).expect("it is pending").id();
        let told: BTreeMap<u64, (Key<Payload>, Time)> = listed
            .into_iter()
            .map(|listed| (id(listed.0), listed))
            .collect();
        let start = |due| self.book.ticks.start(due);
        let pending = self
            .book
            .all_pending()
            .map(|(id, it)| (id, (it.key, start(it.due))));
        assert_eq!(told, pending.collect(), "what the timer iterates over");
        for (id, (key, deadline)) in &told {
            assert_eq!(timer.deadline(*key), Some(*deadline), "timer {id}");
        }
    }

    fn check(&self, timer: &impl Local) {
        let pending = self.book.pending();
        assert_eq!((timer.pending(), timer.is_empty()), (pending, pending == 0));
        assert_eq!(self.book.ledger.alive(), pending, "payloads alive");
        let (next, first) = (timer.next_deadline(), self.book.first());
        if self.book.is_queue || !(self.is_cut_short || self.book.has_zombies) {
            assert_eq!(
                next, first,
                "the next deadline is exact without zombies, or in a queue"
            );
        } else if let Some(first) = first {
            assert!(
                next.is_some_and(|next| next <= first),
                "{next:?} is told, {first:?} is due"
            );
        }
        assert!(
            pending > 0 || next.is_none(),
            "{next:?} with nothing pending"
        );
        let now = self.clock.now();
        let timeout = next.map(|next| next.saturating_duration_since(now));
        assert_eq!(timer.poll_timeout(now), timeout);
        let whole = |timeout: Duration| {
            i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        };
        assert_eq!(timer.poll_timeout_ms(now), timeout.map_or(-1, whole));
    }
}

fn apply(world: &mut World, timer: &mut impl Local, op: Op) {
    let step = |world: &World, by: Step| {
        world
            .clock
            .set(by.from(world.clock.now(), world.book.first(), world.unit))
    };
    match op {
        Op::Do(reaction) => world.react(timer, reaction),
        Op::React(reaction) => world.reactions.push_back(reaction),
        Op::Poll(by, most) => {
            let now = step(world, by);
            world.poll(timer, now, budget(most));
        }
        Op::PollBehind(back, most) => {
            let now = back.from(world.clock.now(), true, world.unit);
            world.poll(timer, now, budget(most));
        }
        Op::PollClock(by, most) => {
            let now = step(world, by);
            world.by_clock = true;
            world.poll(timer, now, budget(most));
            world.by_clock = false;
        }
        Op::PollAll(by) => {
            let now = step(world, by);
            world.poll_all(timer, now);
        }
        Op::Jump(most) => {
            if let Some(next) = timer.next_deadline() {
                let now = world.clock.set(next);
                world.poll(timer, now, budget(most));
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
    let ticks = case.shape.ticks();
    let timer: LocalTimer<Payload> = case
        .shape
        .settings()
        .build_local()
        .expect("it can be built");
    assert_eq!(timer.tick(), case.shape.tick.duration());
    let book = Book::new(ticks, case.shape.max_pending.get());
    run(&mut World::new(book, case.uptime, ticks), timer, &case.ops);
}

/// Does all operations and looks at the timer after each of them.
pub(super) fn run(world: &mut World, mut timer: impl Local, ops: &Ops<Op>) {
    for op in &ops.0 {
        apply(world, &mut timer, *op);
        world.check(&timer);
    }
    world.reactions.clear();
    let now = world.clock.now();
    world.poll_all(&mut timer, now);
    world.check(&timer);
    world.iterate(&mut timer);
    drop(timer);
    assert_eq!(world.book.ledger.alive(), 0, "payloads after the end");
}

/// What the fuzzer once found, each in the fewest operations that showed it.
pub(crate) fn findings() -> [(&'static str, Case); 1] {
    let first = Span::PowerOfTicks(137, -119);
    let repeat = Reaction::Repeat {
        first,
        length: Span::Ticks(63, 63),
        rhythm: Rhythm::Burst,
    };
    let overdue_periods_left_by_the_budget = Case {
        shape: Shape {
            tick: TickLength::Milli,
            max_pending: Limit(None),
        },
        uptime: Span::ManyTicks(17_360),
        ops: Ops(vec![
            Op::Do(repeat),
            Op::PollClock(Step::PowerOfTicks(255), 255),
            Op::Do(repeat),
            Op::PollClock(Step::PowerOfTicks(255), 255),
            Op::PollClock(Step::ManyTicks(35_209), 127),
            Op::PollAll(Step::PowerOfTicks(42)),
        ]),
    };
    [(
        "overdue periods left by the budget",
        overdue_periods_left_by_the_budget,
    )]
}
