//! `FixedTimer` against a sorted map: timers fire in the order of their last schedule, at exact deadlines.

use super::choices::{Ops, Span, Step, budget, weighted};
use super::ledger::{Ledger, Payload};
use super::ticks::{Ticks, later};
use arbitrary::Arbitrary;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tickwheel::{Budget, Expired, FixedTimer, Key, ManualClock, ScheduleErrorKind, Settings, Time};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    delay: Span,
    max_pending: Option<u8>,
    uptime: Span,
    ops: Ops<Op>,
}

weighted! {
    enum Op {
        100 => Do(Act),
        /// To be done by the handler of the next timer that fires.
        20 => React(Act),
        /// Many timers at once, of which most are cancelled again: zombies, and the sweep of them.
        1 => Flood { timers: u16, keep: u8 },
        40 => Poll(Step, u8),
        4 => PollBehind(Span, u8),
        6 => PollAll(Step),
        1 => Drain(u8),
        1 => Clear,
        6 => Iterate,
    }
}

weighted! {
    enum Act {
        10 => Schedule { behind: u8 },
        5 => Cancel(u8),
        5 => Reschedule { pick: u8, behind: u8 },
        1 => Replace(u8),
        1 => PollInside,
    }
}

/// Spans are in these units here.
const UNIT: Ticks = Ticks(1_000);
/// Timers of all floods of one case: enough to pass the bound on zombies.
const FLOOD: usize = 40_000;
/// With fewer timers than that no sweep begins: the bound on zombies is a little more.
const SWEPT: usize = 15 * 1024;

struct World {
    ledger: Arc<Ledger>,
    clock: ManualClock,
    delay: Span,
    limit: Option<usize>,
    /// Every timer's name, by number, and its place in the order if it is pending.
    timers: Vec<(Key<Payload>, Option<u64>)>,
    /// The pending ones in the order in which they fire, with deadlines.
    order: BTreeMap<u64, (u64, Time)>,
    next_place: u64,
    last: Time,
    /// The latest time of a poll: an earlier one counts as that.
    latest: Time,
    reactions: VecDeque<Act>,
    /// The first place in the order that belongs to the poll under way.
    fresh_from: u64,
    /// A poll was cut short: what it has not looked at may be told as the next deadline.
    cut_short: bool,
    flooded: usize,
}

impl World {
    /// The place and deadline of what is scheduled or moved at `now`.
    fn enter(&mut self, id: u64, now: Time) -> u64 {
        self.last = self.last.max(later(now, self.delay.duration(UNIT)));
        let place = self.next_place;
        self.next_place += 1;
        self.order.insert(place, (id, self.last));
        place
    }

    fn behind(&self, nanos: u8) -> Time {
        Time::from_nanos(self.clock.now().as_nanos().saturating_sub(nanos.into()))
    }

    fn pick(&self, pick: u8) -> Option<usize> {
        let back = usize::from(pick).checked_rem(self.timers.len())?;
        Some(self.timers.len() - 1 - back)
    }

    fn act(&mut self, timer: &mut FixedTimer<Payload>, act: Act) {
        match act {
            Act::Schedule { behind } => self.schedule(timer, self.behind(behind)),
            Act::Cancel(pick) => {
                if let Some(id) = self.pick(pick) {
                    self.cancel(timer, id);
                }
            }
            Act::Reschedule { pick, behind } => {
                let Some(id) = self.pick(pick) else { return };
                let (key, place) = self.timers[id];
                let now = self.behind(behind);
                assert_eq!(timer.reschedule(now, key).moved(), place.is_some(), "timer {id}");
                if let Some(place) = place {
                    self.order.remove(&place);
                    self.timers[id].1 = Some(self.enter(id as u64, now));
                }
            }
            Act::Replace(pick) => {
                let Some(id) = self.pick(pick) else { return };
                let (key, place) = self.timers[id];
                let payload = timer.get_mut(key);
                assert_eq!(payload.is_some(), place.is_some(), "timer {id}");
                if let Some(payload) = payload {
                    *payload = self.ledger.payload(id as u64);
                }
            }
            Act::PollInside => {}
        }
    }

    fn schedule(&mut self, timer: &mut FixedTimer<Payload>, now: Time) {
        let id = self.timers.len() as u64;
        let full = self.limit.is_some_and(|limit| self.order.len() >= limit);
        match timer.schedule(now, self.ledger.payload(id)) {
            Ok(key) => {
                assert!(!full, "above the limit");
                let place = self.enter(id, now);
                self.timers.push((key, Some(place)));
            }
            Err(error) => {
                let (pending, max_pending) = (self.order.len(), self.limit.unwrap_or(0));
                let reason = ScheduleErrorKind::TooManyPending { pending, max_pending };
                assert_eq!((error.kind(), full, error.payload().id()), (&reason, true, id));
            }
        }
    }

    fn cancel(&mut self, timer: &mut FixedTimer<Payload>, id: usize) {
        let (key, place) = self.timers[id];
        let cancelled = timer.cancel(key).into_payload().map(|payload| payload.id());
        assert_eq!(cancelled, place.map(|_| id as u64));
        if let Some(place) = self.timers[id].1.take() {
            self.order.remove(&place);
        }
    }

    fn flood(&mut self, timer: &mut FixedTimer<Payload>, timers: u16, keep: u8) {
        let timers = usize::from(timers).min(FLOOD - self.flooded);
        self.flooded += timers;
        for n in 0..timers {
            let known = self.timers.len();
            self.schedule(timer, self.clock.now());
            if self.timers.len() > known && (keep == 0 || n % usize::from(keep) != 0) {
                self.cancel(timer, known);
            }
        }
    }

    fn handle(&mut self, timer: &mut FixedTimer<Payload>, expired: Expired<Payload>, now: Time) {
        let id = expired.payload.id();
        let (place, (first, deadline)) = self.order.pop_first().expect("nothing is pending");
        assert_eq!((id, expired.deadline), (first, deadline), "the first in order fires");
        assert!(deadline <= now && place < self.fresh_from, "timer {id} is early");
        assert_eq!(expired.lateness, now.saturating_duration_since(deadline));
        assert_eq!(expired.key, self.timers[id as usize].0);
        self.timers[id as usize].1 = None;
        drop(expired);
        if let Some(act) = self.reactions.pop_front() {
            if matches!(act, Act::PollInside) {
                let polled = timer.poll(Time::MAX, |_| panic!("fires inside a handler"));
                assert_eq!((polled.fired, polled.more), (0, false));
            }
            self.act(timer, act);
        }
    }

    fn poll(&mut self, timer: &mut FixedTimer<Payload>, told: Time, budget: usize) -> bool {
        self.fresh_from = self.next_place;
        // What practically never fires is not due at the end of the scale either.
        self.latest = self.latest.max(told);
        let now = self.latest;
        let quiet = self.reactions.is_empty();
        let mut fired = 0;
        timer.set_budget(Budget::new().fire(budget));
        let budget = budget.max(1);
        let polled = timer.poll_with(told, |timer, expired| {
            fired += 1;
            self.handle(timer, expired, now);
        });
        assert!(polled.fired == fired && fired <= budget, "{polled:?}, budget {budget}");
        // A sweep that is not at its end is more to do as well.
        let ample = budget == usize::MAX && quiet && self.timers.len() < SWEPT;
        assert!(!ample || !polled.more, "a poll without limit leaves some");
        let first = self.order.first_key_value();
        if let (false, Some((place, (id, deadline)))) = (polled.more, first) {
            let due = *deadline <= now && *deadline < Time::MAX && *place < self.fresh_from;
            assert!(!due, "timer {id} is due and has not fired");
        }
        self.cut_short = polled.more;
        polled.more
    }

    fn poll_all(&mut self, timer: &mut FixedTimer<Payload>, now: Time) {
        let enough = 64 + self.timers.len() + self.flooded;
        let polls = (0..enough).take_while(|_| self.poll(timer, now, 100)).count();
        assert!(polls < enough, "{polls} polls did not suffice");
    }

    fn first(&self) -> Option<Time> {
        let (_, (_, deadline)) = self.order.first_key_value()?;
        Some(*deadline).filter(|deadline| *deadline < Time::MAX)
    }

    fn iterate(&self, timer: &FixedTimer<Payload>) {
        let told: BTreeMap<u64, (Key<Payload>, Time)> =
            timer.iter().map(|(key, deadline, payload)| (payload.id(), (key, deadline))).collect();
        let pending = self.order.values();
        let name = |id: u64| self.timers[id as usize].0;
        assert_eq!(told, pending.map(|(id, time)| (*id, (name(*id), *time))).collect());
        for (id, (key, deadline)) in &told {
            assert_eq!(timer.get(*key).map(|payload| payload.id()), Some(*id));
            assert_eq!(timer.deadline(*key), Some(*deadline));
        }
    }

    fn check(&self, timer: &FixedTimer<Payload>) {
        let pending = self.order.len();
        assert_eq!((timer.pending(), timer.is_empty()), (pending, pending == 0));
        assert_eq!(self.ledger.alive(), pending, "payloads alive");
        let (next, first) = (timer.next_deadline(), self.first());
        if self.cut_short {
            assert!(first.is_none_or(|first| next.is_some_and(|next| next <= first)));
        } else {
            assert_eq!(next, first, "the next deadline is exact");
        }
        let last = self.timers.last();
        assert!(last.is_none_or(|(key, place)| timer.is_pending(*key) == place.is_some()));
    }

    fn all_end(&mut self, unfired: Vec<tickwheel::Unfired<Payload>>) {
        for unfired in unfired {
            let (key, place) = self.timers[unfired.payload.id() as usize];
            let deadline = place.and_then(|place| self.order.get(&place)).map(|(_, time)| *time);
            assert_eq!((unfired.key, Some(unfired.deadline)), (key, deadline));
        }
        self.order.clear();
        self.timers.iter_mut().for_each(|(_, place)| *place = None);
        self.cut_short = false;
    }
}

fn apply(world: &mut World, timer: &mut FixedTimer<Payload>, op: Op) {
    let step =
        |world: &World, by: Step| world.clock.set(by.from(world.clock.now(), world.first(), UNIT));
    match op {
        Op::Do(act) => world.act(timer, act),
        Op::React(act) => world.reactions.push_back(act),
        Op::Flood { timers, keep } => world.flood(timer, timers, keep),
        Op::Poll(by, most) => {
            let now = step(world, by);
            world.poll(timer, now, budget(most));
        }
        Op::PollBehind(back, most) => {
            let now = back.from(world.clock.now(), true, UNIT);
            world.poll(timer, now, budget(most));
        }
        Op::PollAll(by) => {
            let now = step(world, by);
            world.poll_all(timer, now);
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
    let delay = case.delay.duration(UNIT);
    let limit = case.max_pending.map(|limit| 1 + usize::from(limit % 64));
    let mut builder = Settings::new();
    if let Some(limit) = limit {
        builder = builder.max_pending(limit);
    }
    let mut timer: FixedTimer<Payload> = builder.build_fixed(delay).expect("valid");
    let mut world = World {
        ledger: Ledger::of_payloads(),
        clock: ManualClock::starting_at(case.uptime.time(UNIT)),
        delay: case.delay,
        limit,
        timers: Vec::new(),
        order: BTreeMap::new(),
        next_place: 0,
        last: Time::ZERO,
        latest: Time::ZERO,
        reactions: VecDeque::new(),
        fresh_from: 0,
        cut_short: false,
        flooded: 0,
    };
    for op in &case.ops.0 {
        apply(&mut world, &mut timer, *op);
        world.check(&timer);
    }
    world.reactions.clear();
    let now = world.clock.now();
    world.poll_all(&mut timer, now);
    world.iterate(&timer);
    drop(timer);
    assert_eq!(world.ledger.alive(), 0, "payloads after the end");
}
