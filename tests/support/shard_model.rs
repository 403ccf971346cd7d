//! An event loop's timer, its owner and a remote taking turns, against the model.
//!
//! Besides the firings this checks the wake-up rule: once a sleep is announced, a call that makes a remote's timer due
//! before its end calls the waker, exactly once, and nothing else does.

use super::book::{Armed, Book, Effect, Goal, State, Subject};
use super::choices::{Act, Budgets, Limit, MAX_OPS, Ops, Shape, Span, Step, TickLength, weighted};
use super::ledger::Payload;
use super::ticks::Ticks;
use arbitrary::Arbitrary;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tickwheel::{Cancel, EventLoopTimer, Key, ManualClock, Remote, RemoteKey, Reschedule, Time};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    shape: Shape,
    budgets: Budgets,
    uptime: Span,
    close: bool,
    ops: Ops<Op>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Side {
    Owner,
    Remote,
}

weighted! {
    enum Op {
        24 => Do(Act<Side>),
        /// To be done by the handler of the next timer that fires.
        5 => React(Act<Side>),
        5 => Sleep,
        7 => Poll(Step),
        /// A poll whose time lies before that of the clock.
        1 => PollBehind(Span),
        2 => PollAll(Step),
    }
}

/// Returns a key as remotes take it, if a remote has scheduled its timer.
fn of_a_remote(key: Key<Payload>) -> Option<RemoteKey<Payload>> {
    RemoteKey::from_raw(key.to_raw())
}

/// Returns a key as remotes take it: the model shows them no other one.
fn its(key: Key<Payload>) -> RemoteKey<Payload> {
    of_a_remote(key).expect("a remote has scheduled it")
}

/// The subject: both sides, as they are at hand in a handler as well.
struct Sides<'a> {
    timer: &'a mut EventLoopTimer<Payload>,
    remote: &'a Remote<Payload>,
    drains_all: bool,
    /// The latest time of a poll.
    latest: Time,
}

impl Subject for Sides<'_> {
    type By = Side;

    fn now(&self, by: Side) -> Time {
        match by {
            Side::Owner => self.timer.now(),
            Side::Remote => self.remote.now(),
        }
    }

    fn present(&self, by: Side) -> Time {
        match by {
            Side::Owner => self.latest,
            Side::Remote => Ticks::new(self.timer.tick()).asked(self.remote.now()),
        }
    }

    fn schedule(&mut self, by: Side, goal: Goal, payload: Payload) -> Armed {
        match by {
            Side::Owner => self
                .timer
                .schedule(goal.told(self.timer.now()), goal.when(), payload),
            Side::Remote => self.remote.schedule(goal.when(), payload).map(Key::from),
        }
    }

    fn cancel(&mut self, by: Side, _: u64, key: Key<Payload>) -> Cancel<Payload> {
        match by {
            Side::Owner => self.timer.cancel(key),
            Side::Remote => self.remote.cancel(its(key)),
        }
    }

    fn reschedule(&mut self, by: Side, _: u64, key: Key<Payload>, goal: Goal) -> Reschedule {
        match by {
            Side::Owner => self
                .timer
                .reschedule(goal.told(self.timer.now()), key, goal.when()),
            Side::Remote => self.remote.reschedule(its(key), goal.when()),
        }
    }

    fn is_pending(&mut self, by: Side, _: u64, key: Key<Payload>) -> bool {
        match by {
            Side::Owner => self.timer.is_pending(key),
            Side::Remote => self.remote.is_pending(its(key)),
        }
    }

    fn queue(&self, by: Side, _: Key<Payload>) -> Option<usize> {
        match by {
            Side::Owner => Some(0),
            // A message that stays behind in the inbox may be filed after its tick has passed.
            Side::Remote => self.drains_all.then_some(1),
        }
    }
}

/// Returns through which side something is done.
fn side_of(act: &mut Act<Side>) -> &mut Side {
    let (Act::Schedule { by, .. }
    | Act::ScheduleAt { by, .. }
    | Act::Cancel { by, .. }
    | Act::Reschedule { by, .. }
    | Act::RescheduleAt { by, .. }
    | Act::Ask { by, .. }) = act;
    by
}

/// The model, and what it needs to know of the outside.
struct World {
    book: Book,
    remote: Remote<Payload>,
    drains_all: bool,
    /// The latest time of a poll.
    latest: Time,
    wakes: Arc<AtomicUsize>,
    wakes_expected: usize,
    /// The end of the sleep that was announced.
    asleep_until: Option<Time>,
    /// The last poll ran out of budget, perhaps only for messages.
    more: bool,
    reactions: VecDeque<Act<Side>>,
}

impl World {
    /// Returns whether an act is about a timer that a remote has scheduled, or schedules.
    fn is_of_a_remote(&self, act: Act<Side>) -> bool {
        match act {
            Act::Schedule { by, .. } | Act::ScheduleAt { by, .. } => matches!(by, Side::Remote),
            Act::Cancel { pick, .. }
            | Act::Reschedule { pick, .. }
            | Act::RescheduleAt { pick, .. }
            | Act::Ask { pick, .. } => {
                let key = self.book.pick(pick).map(|id| self.book.record(id).key);
                key.and_then(of_a_remote).is_some()
            }
        }
    }

    fn act(&mut self, timer: &mut EventLoopTimer<Payload>, mut act: Act<Side>) {
        let of_a_remote = self.is_of_a_remote(act);
        if !of_a_remote {
            // No remote reaches what the loop has scheduled.
            *side_of(&mut act) = Side::Owner;
        }
        let Self {
            ref mut book,
            ref remote,
            drains_all,
            latest,
            ..
        } = *self;
        let effect = book.act(
            &mut Sides {
                timer,
                remote,
                drains_all,
                latest,
            },
            act,
        );
        let sent = match effect {
            Effect::Armed { due } => Some(due),
            Effect::Moved { from, to } if to < from => Some(to),
            _ => None,
        };
        // By which side it was done makes no difference.
        if let Some(due) = sent.filter(|_| of_a_remote) {
            self.expect_wake(due);
        }
        assert_eq!(
            self.wakes.load(Ordering::SeqCst),
            self.wakes_expected,
            "wakes after {act:?}"
        );
    }

    /// A remote has made something due at the tick `due`.
    fn expect_wake(&mut self, due: u64) {
        let Some(until) = self.asleep_until else {
            return;
        };
        let start = self.book.ticks.start(due);
        // What lies beyond the scale never fires: a wake for it is allowed, as ticks go further than times.
        let beyond = start == Time::MAX && until == Time::MAX;
        let woken = self.wakes.load(Ordering::SeqCst) > self.wakes_expected;
        if start < until || beyond && woken {
            self.asleep_until = None;
            self.wakes_expected += 1;
        }
    }

    fn poll(&mut self, timer: &mut EventLoopTimer<Payload>, now: Time, most: usize) -> bool {
        self.asleep_until = None;
        self.book.begin_turn(now);
        self.latest = self.latest.max(now);
        let polled = timer.poll_with(now, |timer, expired| {
            self.book.fired(&expired, self.latest, true);
            drop(expired);
            if let Some(act) = self.reactions.pop_front() {
                self.act(timer, act);
            }
        });
        assert!(polled.fired <= most, "{polled:?} with a budget of {most}");
        self.book.end_turn(polled.fired, polled.more);
        self.more = polled.more;
        if polled.more {
            // Seen from a time that has gone back, what is due need not be.
            let now = now.max(self.book.ticks.start(self.book.latest));
            assert_eq!(timer.poll_timeout(now), Some(Duration::ZERO), "more is due");
        }
        polled.more
    }

    /// Polls until nothing is left; each poll makes headway, so this ends.
    fn poll_all(&mut self, timer: &mut EventLoopTimer<Payload>, now: Time, most: usize) {
        let enough = 64 + 16 * (self.book.records.len() + MAX_OPS);
        let polls = (0..enough)
            .take_while(|_| self.poll(timer, now, most))
            .count();
        assert!(polls < enough, "{polls} polls did not suffice");
    }

    /// Announces a sleep at `now` and checks its length.
    fn sleep(&mut self, timer: &mut EventLoopTimer<Payload>, now: Time) {
        let first = self.book.first();
        let timeout = timer.poll_timeout(now);
        if timeout == Some(Duration::ZERO) {
            let due = self
                .book
                .all_pending()
                .any(|(_, timer)| timer.due <= self.book.ticks.current(now));
            assert!(due || self.more || self.book.has_zombies, "nothing is due");
            return;
        }
        let until = timeout.map_or(Time::MAX, |timeout| now + timeout);
        assert!(
            first.is_none_or(|first| until <= first),
            "sleeps until {until:?}, past {first:?}"
        );
        if !self.book.has_zombies {
            assert_eq!(
                until,
                first.unwrap_or(Time::MAX),
                "a sleep is as long as possible"
            );
        }
        self.asleep_until = Some(until);
    }

    fn check(&self, timer: &EventLoopTimer<Payload>) {
        let pending = self.book.pending();
        assert_eq!(
            (timer.pending(), self.remote.pending()),
            (pending, pending),
            "pending"
        );
        assert_eq!(self.book.ledger.alive(), pending, "payloads alive");
        if let Some(first) = self.book.first() {
            let next = timer.next_deadline();
            assert!(
                next.is_some_and(|next| next <= first),
                "{next:?} is told, {first:?} is due"
            );
        }
    }
}

/// Runs the case; panics where timer and model differ.
pub fn check(case: &Case) {
    let ticks = case.shape.ticks();
    let clock = ManualClock::starting_at(case.uptime.time(ticks));
    let wakes = Arc::new(AtomicUsize::new(0));
    let called = Arc::clone(&wakes);
    let settings = case
        .shape
        .settings()
        .budget(case.budgets.budget())
        .clock(clock.clone());
    let wake = move || _ = called.fetch_add(1, Ordering::SeqCst);
    let mut timer = EventLoopTimer::with_waker(settings, wake).expect("it can be built");
    let mut world = World {
        book: Book::new(ticks, case.shape.max_pending.get()),
        remote: timer.remote(),
        drains_all: case.budgets.drain.is_none(),
        latest: Time::ZERO,
        wakes,
        wakes_expected: 0,
        asleep_until: None,
        more: false,
        reactions: VecDeque::new(),
    };
    run(&mut world, &mut timer, &clock, case);
    finish(world, timer, case.close);
}

fn run(world: &mut World, timer: &mut EventLoopTimer<Payload>, clock: &ManualClock, case: &Case) {
    let most = case.budgets.budget().fire;
    for op in &case.ops.0 {
        let step = |world: &World, step: Step| {
            clock.set(step.from(clock.now(), world.book.first(), world.book.ticks))
        };
        match *op {
            Op::Do(act) => world.act(timer, act),
            Op::React(act) => world.reactions.push_back(act),
            Op::Sleep => world.sleep(timer, clock.now()),
            Op::Poll(by) => {
                let now = step(world, by);
                world.poll(timer, now, most);
            }
            Op::PollBehind(back) => {
                let now = back.from(clock.now(), true, world.book.ticks);
                world.poll(timer, now, most);
            }
            Op::PollAll(by) => {
                let now = step(world, by);
                world.poll_all(timer, now, most);
            }
        }
        world.check(timer);
    }
    world.reactions.clear();
    world.poll_all(timer, clock.now(), most);
}

fn finish(mut world: World, timer: EventLoopTimer<Payload>, close: bool) {
    world.book.stopped = true;
    if close {
        world.book.returned(timer.close());
        assert_eq!(
            (world.book.pending(), world.remote.pending()),
            (0, 0),
            "lost, or pending"
        );
    } else {
        drop(timer);
    }
    assert_eq!(world.book.ledger.alive(), 0, "payloads after the end");
    let late = world
        .remote
        .schedule(Duration::ZERO, world.book.ledger.payload(0));
    assert!(late.is_err(), "accepted after the end");
    for record in &world.book.records {
        assert!(record.state != State::Pending || !close);
        let Some(key) = of_a_remote(record.key) else {
            continue;
        };
        assert!(!world.remote.cancel(key).is_won(), "won after the end");
        assert!(!world.remote.is_pending(key) || !close);
    }
    drop(late);
    assert_eq!(world.book.ledger.alive(), 0, "payloads after the end");
}

/// What the fuzzer once found, each in the fewest operations that showed it.
pub(crate) fn findings() -> [(&'static str, Case); 2] {
    [
        (
            "messages left by a budget of one",
            messages_left_by_a_budget_of_one(),
        ),
        (
            "more is due but the clock went back",
            more_is_due_but_the_clock_went_back(),
        ),
    ]
}

fn hierarchical(tick: TickLength) -> Shape {
    Shape {
        tick,
        max_pending: Limit(None),
    }
}

fn messages_left_by_a_budget_of_one() -> Case {
    let remote = |delay| {
        Op::Do(Act::Schedule {
            by: Side::Remote,
            delay,
        })
    };
    let far = Span::PowerOfTicks(133, -123);
    let now = Act::Schedule {
        by: Side::Owner,
        delay: Span::Zero,
    };
    Case {
        shape: hierarchical(TickLength::Milli),
        budgets: Budgets {
            drain: Some(0),
            fire: Some(26),
        },
        uptime: Span::ManyTicks(1),
        close: false,
        ops: Ops(vec![
            remote(Span::Zero),
            remote(far),
            Op::Poll(Step::Far(Span::PowerOfTicks(133, -1))),
            Op::Do(Act::Ask {
                by: Side::Remote,
                pick: 107,
            }),
            remote(far),
            Op::Poll(Step::ManyTicks(30_583)),
            Op::Sleep,
            Op::Poll(Step::ManyTicks(30_583)),
            Op::Sleep,
            Op::PollAll(Step::Ticks(23)),
            Op::React(now),
            Op::Do(now),
        ]),
    }
}

fn more_is_due_but_the_clock_went_back() -> Case {
    let now = Act::Schedule {
        by: Side::Owner,
        delay: Span::Zero,
    };
    let cancel = |pick| Act::Cancel {
        by: Side::Owner,
        pick,
    };
    Case {
        shape: hierarchical(TickLength::Micro),
        budgets: Budgets {
            drain: None,
            fire: Some(0),
        },
        uptime: Span::PowerOfTicks(0, 9),
        close: true,
        ops: Ops(vec![
            Op::PollAll(Step::Ticks(9)),
            Op::Do(now),
            Op::Do(now),
            Op::Do(cancel(105)),
            Op::React(cancel(9)),
            Op::Do(now),
            Op::PollAll(Step::Ticks(9)),
            Op::Do(now),
            Op::Do(now),
            Op::Do(cancel(105)),
            Op::PollBehind(Span::ManyTicks(26_985)),
            Op::Sleep,
            Op::Sleep,
            Op::React(Act::Schedule {
                by: Side::Owner,
                delay: Span::Ticks(17, 26),
            }),
        ]),
    }
}
