//! `DelayQueue`: what comes out when, who is woken for it, and a list as its oracle.

use crate::rig::{Bell, Rig, block_on, wakers};
use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, secs, stress, us};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tickwheel::{Expired, Key, ScheduleErrorKind, Shutdown, SleepError, Time, When};
use tickwheel_util::DelayQueue;

type Answer<T> = Poll<Option<Result<Expired<T>, SleepError>>>;

fn poll<T>(queue: &mut DelayQueue<T>, bell: &Arc<Bell>) -> Answer<T> {
    queue.poll_expired(&mut Context::from_waker(&Waker::from(Arc::clone(bell))))
}

/// What comes out now.
fn take<T>(queue: &mut DelayQueue<T>, bell: &Arc<Bell>) -> Vec<T> {
    let mut taken = Vec::new();
    while let Poll::Ready(Some(expired)) = poll(queue, bell) {
        taken.push(expired.unwrap().payload);
    }
    taken
}

fn at(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

#[test]
fn items_come_out_in_the_order_of_their_deadlines_and_never_early() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut queue = DelayQueue::on(&rig.timer);
    let late = queue.insert("late", ms(30));
    let soon = queue.insert("soon", at(10));
    queue.insert("between", us(19_001));
    assert_eq!(
        (queue.len(), queue.deadline(soon), queue.deadline(late)),
        (3, Some(at(10)), Some(at(30)))
    );
    assert!(poll(&mut queue, &bell).is_pending());
    assert_eq!((rig.timer.pending(), wakers(&bell)), (1, 1), "one timer for all of them");
    rig.pass(us(9_999));
    assert!(bell.rings() == 0 && poll(&mut queue, &bell).is_pending());
    rig.pass(us(1));
    assert_eq!(bell.rings(), 1);
    let Poll::Ready(Some(Ok(expired))) = poll(&mut queue, &bell) else { panic!("it is due") };
    assert_eq!((expired.payload, expired.key, expired.deadline), ("soon", soon, at(10)));
    assert!(take(&mut queue, &bell).is_empty());
    rig.pass(ms(20));
    assert_eq!(take(&mut queue, &bell), ["between", "late"]);
    assert_eq!((bell.rings(), rig.timer.pending(), queue.is_empty()), (2, 0, true));
    assert_eq!((queue.remove(late), queue.get(soon)), (None, None), "their keys are stale");
    assert!(!queue.reset(late, ms(1)).moved() && queue.is_empty());
}

#[test]
fn past_deadlines_are_yielded_immediately_for_any_tick() {
    let past = Instant::now().checked_sub(ms(1)).expect("the machine runs for longer");
    let rig = Rig::with(|builder| builder.tick(HOUR));
    let bell = Bell::new();
    rig.clock.advance(HOUR * 3 / 2);
    for ahead in [false, true] {
        let mut queue = DelayQueue::on(&rig.timer);
        queue.insert(0, 10 * HOUR);
        assert!(poll(&mut queue, &bell).is_pending());
        // What the queue has read last is a while ago.
        rig.clock.advance(ms(1));
        let passed = if ahead { rig.timer.now() + us(1) } else { rig.timer.now() };
        queue.insert(1, passed);
        assert_eq!(take(&mut queue, &bell).is_empty(), ahead, "a tick later if it lies ahead");
    }
    let now = rig.timer.now();
    for when in [ms(0).into(), now.into(), (now - ms(1)).into(), When::from(past)] {
        let mut queue = DelayQueue::on(&rig.timer);
        queue.insert(1, when);
        assert_eq!(take(&mut queue, &bell), [1]);
        let moved = queue.insert(2, 10 * HOUR);
        assert!(poll(&mut queue, &bell).is_pending());
        rig.clock.advance(ms(1));
        assert!(queue.reset(moved, when).moved());
        assert_eq!(take(&mut queue, &bell), [2]);
        // While a task waits, which is woken in the engine's next turn.
        queue.insert(3, 10 * HOUR);
        assert!(poll(&mut queue, &bell).is_pending());
        queue.insert(4, when);
        let before = bell.rings();
        assert_eq!((rig.pass(ms(0)), bell.rings()), (1, before + 1));
        assert_eq!(take(&mut queue, &bell), [4]);
    }
}

#[test]
fn a_zero_delay_and_what_has_passed_come_out_at_once() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut queue = DelayQueue::on(&rig.timer);
    rig.pass(us(5_300));
    queue.insert(1, Duration::ZERO);
    assert_eq!(take(&mut queue, &bell), [1]);
    queue.insert(2, at(3));
    assert_eq!(take(&mut queue, &bell), [2]);
    let far = queue.insert(3, HOUR);
    assert!(poll(&mut queue, &bell).is_pending());
    assert!(queue.reset(far, Duration::ZERO).moved());
    assert_eq!(take(&mut queue, &bell), [3]);
    assert_eq!(rig.timer.stats().fired(), 0, "nobody had to wait");
}

#[test]
fn an_item_in_front_of_all_others_moves_the_one_timer() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut queue = DelayQueue::on(&rig.timer);
    let mut keys: Vec<_> = (0..1000).map(|number| queue.insert(number, ms(500 + number))).collect();
    assert!(poll(&mut queue, &bell).is_pending());
    queue.insert(1000, ms(5));
    assert!(queue.reset(keys.pop().unwrap(), ms(3)).moved());
    assert_eq!((rig.timer.pending(), rig.timer.stats().scheduled(), bell.rings()), (1, 1, 0));
    rig.pass(ms(3));
    assert_eq!((bell.rings(), take(&mut queue, &bell)), (1, vec![999]));
    rig.pass(ms(2));
    assert_eq!((bell.rings(), take(&mut queue, &bell)), (2, vec![1000]));
    // Those behind are pushed out without a word to the engine.
    let scheduled = rig.timer.stats().scheduled();
    for key in keys {
        assert!(queue.reset(key, HOUR).moved());
    }
    assert_eq!(rig.timer.stats().scheduled(), scheduled);
    rig.pass(secs(1));
    assert!(take(&mut queue, &bell).is_empty());
    rig.pass(HOUR);
    assert_eq!(take(&mut queue, &bell).len(), 999);
}

#[test]
fn a_waiting_stream_is_woken_by_an_item_or_the_end() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut queue = DelayQueue::on(&rig.timer);
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(None)));
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(None)));
    assert_eq!(wakers(&bell), 1);
    let key = queue.insert("item", ms(5));
    assert_eq!((bell.rings(), wakers(&bell)), (1, 0));
    queue.insert("other", ms(5));
    assert_eq!(bell.rings(), 1, "nobody has looked in between");
    assert!(poll(&mut queue, &bell).is_pending());
    assert_eq!((queue.remove(key), bell.rings()), (Some("item"), 1));
    queue.clear();
    rig.pass(Duration::ZERO);
    assert_eq!((bell.rings(), wakers(&bell), rig.timer.pending()), (2, 0, 0));
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(None)));
    let last = queue.insert("last", ms(5));
    assert!(poll(&mut queue, &bell).is_pending());
    let rings = bell.rings();
    assert_eq!((queue.remove(last), rig.pass(Duration::ZERO)), (Some("last"), 1));
    assert_eq!((bell.rings(), rig.timer.pending()), (rings + 1, 0));
    drop(queue);
    assert_eq!(wakers(&bell), 0);
}

#[test]
fn a_queue_whose_items_are_out_has_no_timer() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut queue = DelayQueue::on(&rig.timer);
    let key = queue.insert("item", ms(5));
    *queue.get_mut(key).unwrap() = "changed";
    assert!(poll(&mut queue, &bell).is_pending() && !queue.is_empty());
    // The clock goes on; the engine's turn has not come yet.
    rig.clock.advance(ms(5));
    assert_eq!((take(&mut queue, &bell), queue.is_empty()), (vec!["changed"], true));
    assert_eq!((rig.timer.pending(), rig.pass(ms(1)), bell.rings()), (0, 0, 0));
}

#[test]
fn a_stopped_engine_is_an_error_and_the_items_stay() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut queue = DelayQueue::on(&rig.timer);
    queue.insert(7, HOUR);
    queue.insert(8, ms(1));
    assert!(poll(&mut queue, &bell).is_pending());
    rig.timer.stop().unwrap();
    assert!(bell.rings() >= 1, "woken by the stop");
    for _ in 0..2 {
        let Poll::Ready(Some(Err(error))) = poll(&mut queue, &bell) else { panic!("no timer") };
        assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
    }
    rig.clock.advance(ms(1));
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(Some(Ok(due))) if due.payload == 8));
    let left: Vec<_> = queue.drain().map(|item| (item.payload, item.deadline)).collect();
    assert_eq!((left, queue.len()), (vec![(7, Time::ZERO + HOUR)], 0));
}

#[test]
fn a_forgotten_drain_wakes_the_task_and_leaves_the_items() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut queue = DelayQueue::on(&rig.timer);
    queue.insert(7, ms(5));
    assert!(poll(&mut queue, &bell).is_pending());
    std::mem::forget(queue.drain());
    rig.pass(Duration::ZERO);
    assert_eq!((bell.rings(), queue.len()), (1, 1));
    assert!(poll(&mut queue, &bell).is_pending());
    rig.pass(ms(5));
    assert_eq!(bell.rings(), 2);
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(Some(Ok(due))) if due.payload == 7));
}

#[test]
fn an_engine_that_fires_all_makes_no_item_early() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut queue = DelayQueue::on(&rig.timer);
    queue.insert(7, HOUR);
    assert!(poll(&mut queue, &bell).is_pending());
    rig.timer.shutdown(Shutdown::FireAll, secs(60)).unwrap();
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(Some(Err(_)))), "woken, and not due");
    assert_eq!((bell.rings(), queue.len()), (1, 1));
}

/// Panics when it is woken.
struct Mine;

impl Wake for Mine {
    fn wake(self: Arc<Self>) {
        panic!("the waker's wake");
    }
}

#[test]
fn a_waker_that_panics_takes_no_key_away() {
    let rig = Rig::new();
    let waker = Waker::from(Arc::new(Mine));
    let mut queue = DelayQueue::on(&rig.timer);
    assert!(queue.poll_expired(&mut Context::from_waker(&waker)).is_ready());
    let key = queue.insert("item", ms(5));
    assert!(queue.poll_expired(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(queue.remove(key), Some("item"), "the end wakes, too");
    assert!(queue.is_empty());
}

#[test]
fn it_runs_on_the_shared_engine() {
    let start = Instant::now();
    let mut queue = DelayQueue::with_capacity(2);
    queue.insert("second", ms(20));
    queue.insert_at("first", start + ms(10));
    for (name, least) in [("first", ms(10)), ("second", ms(20))] {
        let expired = block_on(queue.next_expired()).unwrap().unwrap();
        assert_eq!(expired.payload, name);
        assert!(start.elapsed() >= least, "early");
    }
    assert!(block_on(queue.next_expired()).is_none());
}

const TICK: u64 = 1_000_000;

/// Who was told what by the last poll.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    Taken,
    /// How often the bell had rung.
    Idle(u64),
    Waiting(u64),
}

struct Model {
    rig: Rig,
    bell: Arc<Bell>,
    queue: DelayQueue<u64>,
    /// By number: the key, and the deadline in nanoseconds as it was asked for.
    items: BTreeMap<u64, (Key<u64>, u64)>,
    stale: Vec<Key<u64>>,
    numbers: u64,
    now: u64,
    stage: Stage,
    /// Nothing is ever removed or moved: no wake is in vain.
    exact: bool,
}

impl Model {
    fn new(exact: bool) -> Self {
        let rig = Rig::with(|builder| builder.tick(Duration::from_nanos(TICK)));
        let queue = DelayQueue::on(&rig.timer);
        let (bell, items) = (Bell::new(), BTreeMap::new());
        let stage = Stage::Taken;
        Self { rig, bell, queue, items, stale: Vec::new(), numbers: 0, now: 0, stage, exact }
    }

    /// A deadline, which may have passed if it is a point in time.
    fn deadline(&self, random: &mut Random) -> (u64, tickwheel::When) {
        let far = if random.chance(80) { 20 * TICK } else { 5_000 * TICK };
        let ahead = random.below(far);
        if random.chance(50) {
            return (self.now + ahead, Duration::from_nanos(ahead).into());
        }
        let deadline = (self.now + ahead).saturating_sub(5 * TICK);
        (deadline, Time::from_nanos(deadline).into())
    }

    fn insert(&mut self, random: &mut Random) {
        let (deadline, when) = self.deadline(random);
        let key = self.queue.insert(self.numbers, when);
        self.items.insert(self.numbers, (key, deadline));
        self.numbers += 1;
        if let Stage::Idle(rings) = self.stage {
            assert_eq!(self.bell.rings(), rings + 1, "the first item wakes");
            self.stage = Stage::Taken;
        }
    }

    fn chosen(&self, random: &mut Random) -> Option<u64> {
        let which = random.below(self.items.len().max(1) as u64) as usize;
        self.items.keys().nth(which).copied()
    }

    fn remove(&mut self, random: &mut Random) {
        let Some(number) = self.chosen(random) else { return };
        let (key, _) = self.items.remove(&number).unwrap();
        assert_eq!(self.queue.remove(key), Some(number));
        self.stale.push(key);
        if self.items.is_empty() {
            if let Stage::Waiting(rings) = self.stage {
                self.rig.pass(Duration::ZERO);
                assert_eq!(self.bell.rings(), rings + 1, "the last item's end wakes");
                self.stage = Stage::Taken;
            }
        }
    }

    fn reset(&mut self, random: &mut Random) {
        let (deadline, when) = self.deadline(random);
        let Some(number) = self.chosen(random) else { return };
        let entry = self.items.get_mut(&number).unwrap();
        assert!(self.queue.reset(entry.0, when).moved());
        entry.1 = deadline;
    }

    fn take(&mut self) {
        loop {
            match poll(&mut self.queue, &self.bell) {
                Poll::Ready(Some(expired)) => {
                    let expired = expired.unwrap();
                    let (key, deadline) = self.items.remove(&expired.payload).unwrap();
                    assert_eq!(expired.key, key);
                    assert!(deadline <= self.now, "{} is early", expired.payload);
                    self.stale.push(key);
                    continue;
                }
                Poll::Ready(None) => {
                    assert!(self.items.is_empty());
                    self.stage = Stage::Idle(self.bell.rings());
                }
                Poll::Pending => {
                    assert!(self.due().is_none() && !self.items.is_empty(), "{:?}", self.due());
                    self.stage = Stage::Waiting(self.bell.rings());
                }
            }
            return;
        }
    }

    /// An item that must have come out.
    fn due(&self) -> Option<u64> {
        let is_due = |deadline: u64| deadline.div_ceil(TICK) * TICK <= self.now;
        self.items.iter().find(|(_, (_, deadline))| is_due(*deadline)).map(|(number, _)| *number)
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        self.rig.pass(Duration::from_nanos(time));
        if let Stage::Waiting(rings) = self.stage {
            let rings = self.bell.rings() - rings;
            assert!(rings <= 1, "one timer wakes once");
            assert!(rings == 1 || self.due().is_none(), "no wake is lost");
            // Whatever came after the poll may have been due within its tick.
            assert!(rings == 0 || !self.exact || self.items.values().any(|it| it.1 <= self.now));
        }
    }

    fn check(&self) {
        assert_eq!(self.queue.len(), self.items.len());
        assert!(self.rig.timer.pending() <= 1);
        for key in self.stale.iter().rev().take(4) {
            assert_eq!((self.queue.deadline(*key), self.queue.get(*key)), (None, None));
        }
        if let Some((number, (key, _))) = self.items.last_key_value() {
            assert_eq!(self.queue.get(*key), Some(number));
        }
    }
}

#[test]
fn items_come_out_as_the_list_says() {
    for seed in 0..stress(80) {
        let random = &mut Random::new(seed);
        let mut model = Model::new(seed % 2 == 0);
        for _ in 0..400 {
            match random.below(100) {
                0..30 => model.insert(random),
                30..45 if !model.exact => model.remove(random),
                45..60 if !model.exact => model.reset(random),
                60..80 => model.take(),
                _ => model.pass(random.below(4 * TICK)),
            }
            model.check();
        }
        model.pass(6_000 * TICK);
        model.take();
        assert!(model.items.is_empty());
    }
}
