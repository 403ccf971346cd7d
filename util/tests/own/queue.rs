//! `DelayQueue`: what comes out when, who is woken for it, and a list as its oracle.

use crate::rig::{Bell, Rig, wakers};
use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, secs, stress, us};
use crate::{TICK, some_deadline};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tickwheel::{Clock, Expired, Key, ScheduleErrorKind, Shutdown, SleepError, Time, When};
use tickwheel_util::DelayQueue;

type Answer<T> = Poll<Option<Result<Expired<T>, SleepError>>>;

/// An engine, a queue on it, and the task that takes items out.
fn setup<T>() -> (Rig, DelayQueue<T>, Arc<Bell>) {
    let rig = Rig::new();
    let queue = DelayQueue::on(&rig.timer);
    (rig, queue, Bell::new())
}

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
    let (rig, mut queue, bell) = setup();
    let late = queue.insert("late", ms(30));
    let soon = queue.insert("soon", at(10));
    queue.insert("between", us(19_001));
    assert_eq!(
        (queue.deadline(soon), queue.deadline(late)),
        (Some(at(10)), Some(at(30)))
    );
    assert!(poll(&mut queue, &bell).is_pending());
    assert_eq!(
        (rig.timer.pending(), wakers(&bell)),
        (1, 1),
        "one timer for all of them"
    );
    rig.pass(us(9_999));
    assert!(bell.rings() == 0 && poll(&mut queue, &bell).is_pending());
    rig.pass(us(1));
    assert_eq!(bell.rings(), 1);
    let Poll::Ready(Some(Ok(expired))) = poll(&mut queue, &bell) else {
        panic!("it is due")
    };
    assert_eq!(
        (expired.payload, expired.key, expired.deadline),
        ("soon", soon, at(10))
    );
    assert!(take(&mut queue, &bell).is_empty());
    rig.pass(ms(20));
    assert_eq!(take(&mut queue, &bell), ["between", "late"]);
    assert_eq!(
        (bell.rings(), rig.timer.pending(), queue.is_empty()),
        (2, 0, true)
    );
    assert_eq!(
        (queue.remove(late), queue.get(soon)),
        (None, None),
        "their keys are stale"
    );
    assert!(!queue.reset(late, ms(1)).is_moved() && queue.is_empty());
}

#[test]
fn past_deadlines_are_yielded_immediately_for_any_tick() {
    let past = Instant::now()
        .checked_sub(ms(1))
        .expect("the machine runs for longer");
    let rig = Rig::with(|builder| builder.tick(HOUR));
    let bell = Bell::new();
    rig.clock.advance(HOUR * 3 / 2);
    for ahead in [false, true] {
        let mut queue = DelayQueue::on(&rig.timer);
        queue.insert(0, 10 * HOUR);
        assert!(poll(&mut queue, &bell).is_pending());
        // What the queue has read last is a while ago.
        rig.clock.advance(ms(1));
        let passed = if ahead {
            rig.timer.now() + us(1)
        } else {
            rig.timer.now()
        };
        queue.insert(1, passed);
        assert_eq!(
            take(&mut queue, &bell).is_empty(),
            ahead,
            "a tick later if it lies ahead"
        );
    }
    let now = rig.timer.now();
    for when in [
        ms(0).into(),
        now.into(),
        (now - ms(1)).into(),
        When::from(past),
    ] {
        let mut queue = DelayQueue::on(&rig.timer);
        queue.insert(1, when);
        assert_eq!(take(&mut queue, &bell), [1]);
        let moved = queue.insert(2, 10 * HOUR);
        assert!(poll(&mut queue, &bell).is_pending());
        rig.clock.advance(ms(1));
        assert!(queue.reset(moved, when).is_moved());
        assert_eq!(take(&mut queue, &bell), [2]);
        // While a task waits, which is woken at once.
        queue.insert(3, 10 * HOUR);
        assert!(poll(&mut queue, &bell).is_pending());
        let before = bell.rings();
        queue.insert(4, when);
        assert_eq!((rig.timer.pending(), bell.rings()), (0, before + 1));
        assert_eq!(take(&mut queue, &bell), [4]);
    }
}

#[test]
fn an_item_in_front_of_all_others_moves_the_one_timer() {
    let (rig, mut queue, bell) = setup();
    let mut keys: Vec<_> = (0..1000)
        .map(|number| queue.insert(number, ms(500 + number)))
        .collect();
    assert!(poll(&mut queue, &bell).is_pending());
    queue.insert(1000, ms(5));
    assert!(queue.reset(keys.pop().unwrap(), ms(3)).is_moved());
    assert_eq!(
        (
            rig.timer.pending(),
            rig.timer.stats().scheduled,
            bell.rings()
        ),
        (1, 1, 0)
    );
    rig.pass(ms(3));
    assert_eq!((bell.rings(), take(&mut queue, &bell)), (1, vec![999]));
    rig.pass(ms(2));
    assert_eq!((bell.rings(), take(&mut queue, &bell)), (2, vec![1000]));
    // Those behind are pushed out without a word to the engine.
    let scheduled = rig.timer.stats().scheduled;
    assert!(
        keys.into_iter()
            .all(|key| queue.reset(key, HOUR).is_moved())
    );
    assert_eq!(rig.timer.stats().scheduled, scheduled);
    rig.pass(secs(1));
    assert!(take(&mut queue, &bell).is_empty());
    rig.pass(HOUR);
    assert_eq!(take(&mut queue, &bell).len(), 999);
}

/// The timer that the items share goes by their ticks, so that no wake comes before its item.
#[test]
fn an_item_that_is_due_within_the_tick_wakes_once() {
    let (rig, mut queue, bell) = setup();
    queue.insert("far", HOUR);
    assert!(poll(&mut queue, &bell).is_pending());
    rig.pass(us(300));
    queue.insert("soon", us(200));
    let moved = queue.insert("moved", HOUR);
    assert!(queue.reset(moved, us(200)).is_moved());
    assert_eq!(bell.rings(), 0, "neither is due");
    rig.pass(us(700));
    assert_eq!(bell.rings(), 1);
    assert_eq!(take(&mut queue, &bell), ["soon", "moved"]);
}

#[test]
fn a_task_is_woken_by_the_first_item_and_by_the_end_of_the_last() {
    let (rig, mut queue, bell) = setup();
    for _ in 0..2 {
        assert!(matches!(poll(&mut queue, &bell), Poll::Ready(None)));
    }
    assert_eq!(wakers(&bell), 1);
    queue.insert("item", ms(5));
    queue.insert("other", ms(5));
    assert_eq!(
        (bell.rings(), wakers(&bell)),
        (1, 0),
        "nobody has looked in between"
    );
    assert!(poll(&mut queue, &bell).is_pending());
    queue.clear();
    rig.pass(Duration::ZERO);
    assert_eq!(
        (bell.rings(), wakers(&bell), rig.timer.pending()),
        (2, 0, 0)
    );
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(None)));
    drop(queue);
    assert_eq!(wakers(&bell), 0);
}

#[test]
fn a_queue_whose_items_are_out_has_no_timer() {
    let (rig, mut queue, bell) = setup();
    let key = queue.insert("item", ms(5));
    *queue.get_mut(key).unwrap() = "changed";
    assert!(poll(&mut queue, &bell).is_pending() && !queue.is_empty());
    // The clock goes on; the engine's turn has not come yet.
    rig.clock.advance(ms(5));
    assert_eq!(
        (take(&mut queue, &bell), queue.is_empty()),
        (vec!["changed"], true)
    );
    assert_eq!(
        (rig.timer.pending(), rig.pass(ms(1)), bell.rings()),
        (0, 0, 0)
    );
}

#[test]
fn items_can_be_seen_and_the_next_one_named() {
    let (_rig, mut queue, _) = setup();
    assert!(queue.peek().is_none() && queue.iter().next().is_none());
    let (late, early) = (
        queue.insert("late", secs(20)),
        queue.insert("early", secs(10)),
    );
    assert_eq!(queue.peek(), Some(early));
    queue.reset(early, secs(30));
    assert_eq!(queue.peek(), Some(late));
    let mut items: Vec<_> = queue
        .iter()
        .map(|(key, due, item)| (due, key, *item))
        .collect();
    items.sort_by_key(|(due, ..)| *due);
    assert_eq!(
        items,
        [(at(20_000), late, "late"), (at(30_000), early, "early")]
    );
    queue.shrink_to_fit();
    assert_eq!(queue.get(late), Some(&"late"), "keys stay as they are");
}

#[test]
fn a_stopped_engine_is_an_error_and_the_items_stay() {
    let (rig, mut queue, bell) = setup();
    queue.insert(7, HOUR);
    queue.insert(8, ms(1));
    assert!(poll(&mut queue, &bell).is_pending());
    rig.timer.stop().unwrap();
    assert!(bell.rings() >= 1, "woken by the stop");
    for _ in 0..2 {
        let Poll::Ready(Some(Err(error))) = poll(&mut queue, &bell) else {
            panic!("no timer")
        };
        assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
    }
    rig.clock.advance(ms(1));
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(Some(Ok(due))) if due.payload == 8));
    let left: Vec<_> = queue
        .drain()
        .map(|item| (item.payload, item.deadline))
        .collect();
    assert_eq!((left, queue.len()), (vec![(7, Time::ZERO + HOUR)], 0));
}

#[test]
fn a_forgotten_drain_wakes_the_task_and_leaves_the_items() {
    let (rig, mut queue, bell) = setup();
    queue.insert(7, ms(5));
    assert!(poll(&mut queue, &bell).is_pending());
    std::mem::forget(queue.drain());
    rig.pass(Duration::ZERO);
    assert_eq!((bell.rings(), queue.len()), (1, 1));
    assert!(poll(&mut queue, &bell).is_pending());
    rig.pass(ms(5));
    assert_eq!((bell.rings(), take(&mut queue, &bell)), (2, vec![7]));
}

#[test]
fn an_engine_that_fires_all_makes_no_item_early() {
    let (rig, mut queue, bell) = setup();
    queue.insert(7, HOUR);
    assert!(poll(&mut queue, &bell).is_pending());
    rig.timer.shutdown(Shutdown::FireAll, secs(60)).unwrap();
    assert!(
        matches!(poll(&mut queue, &bell), Poll::Ready(Some(Err(_)))),
        "woken, and not due"
    );
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
    let (_rig, mut queue, _) = setup();
    let waker = Waker::from(Arc::new(Mine));
    assert!(
        queue
            .poll_expired(&mut Context::from_waker(&waker))
            .is_ready()
    );
    let key = queue.insert("item", ms(5));
    assert!(
        queue
            .poll_expired(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert_eq!(queue.remove(key), Some("item"), "the end wakes, too");
    assert!(queue.is_empty());
}

/// Panics when the last of its wakers is dropped.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the waker's drop");
    }
}

#[test]
fn a_waker_that_panics_when_it_is_replaced_leaves_the_place_to_the_next_one() {
    let (_rig, mut queue, bell) = setup();
    let bomb = Arc::new(Bomb);
    let waker = Waker::from(Arc::clone(&bomb));
    let empty = queue.poll_expired(&mut Context::from_waker(&waker));
    assert!(matches!(empty, Poll::Ready(None)));
    // The queue has the last one.
    drop((waker, bomb));
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(None)));
    queue.insert("item", ms(5));
    assert_eq!(bell.rings(), 1);
}

/// A clock that stands, and panics once, in the reading of this number from now on.
#[derive(Clone, Default)]
struct Once(Arc<AtomicU32>);

impl Clock for Once {
    fn now(&self) -> Time {
        let nth = self.0.load(Ordering::SeqCst);
        self.0.store(nth.saturating_sub(1), Ordering::SeqCst);
        assert_ne!(nth, 1, "the clock");
        at(5)
    }
}

#[test]
fn a_clock_that_panics_takes_no_key_away() {
    for (tick, nth) in [ms(1), ms(50)]
        .into_iter()
        .flat_map(|tick| [1, 2, 3, 4].map(|nth| (tick, nth)))
    {
        let clock = Once::default();
        let rig = Rig::with(|builder| builder.tick(tick).clock(clock.clone()));
        let mut queue = DelayQueue::on(&rig.timer);
        let far = queue.insert("far", HOUR);
        assert!(poll(&mut queue, &Bell::new()).is_pending());
        clock.0.store(nth, Ordering::SeqCst);
        let inserted = catch_unwind(AssertUnwindSafe(|| queue.insert("soon", ms(100))));
        assert_eq!(
            queue.len(),
            1 + usize::from(inserted.is_ok()),
            "{tick:?} {nth}"
        );
        clock.0.store(nth, Ordering::SeqCst);
        let before = queue.deadline(far);
        let moved = catch_unwind(AssertUnwindSafe(|| queue.reset(far, ms(50)).is_moved()));
        assert_eq!(
            moved.is_ok(),
            queue.deadline(far) != before,
            "{tick:?} {nth}"
        );
        clock.0.store(0, Ordering::SeqCst);
    }
}

/// What the last poll said, and how often the bell had rung.
#[derive(Clone, Copy)]
enum Told {
    Nothing,
    Empty(u64),
    Wait(u64),
}

struct Model {
    rig: Rig,
    queue: DelayQueue<usize>,
    bell: Arc<Bell>,
    /// By number: the key, and the deadline as it was asked for.
    items: BTreeMap<usize, (Key<usize>, u64)>,
    stale: Vec<Key<usize>>,
    now: u64,
    told: Told,
}

impl Model {
    fn insert(&mut self, (deadline, when): (u64, When)) {
        let number = self.items.len() + self.stale.len();
        self.items
            .insert(number, (self.queue.insert(number, when), deadline));
        if let Told::Empty(rings) = self.told {
            assert_eq!(self.bell.rings(), rings + 1, "the first item wakes");
            self.told = Told::Nothing;
        }
    }

    fn remove(&mut self, number: usize) {
        let (key, _) = self.items.remove(&number).unwrap();
        assert_eq!(self.queue.remove(key), Some(number));
        self.stale.push(key);
        if let (true, Told::Wait(rings)) = (self.items.is_empty(), self.told) {
            self.rig.pass(Duration::ZERO);
            assert_eq!(self.bell.rings(), rings + 1, "the last item's end wakes");
            self.told = Told::Nothing;
        }
    }

    fn take(&mut self) {
        self.told = loop {
            match poll(&mut self.queue, &self.bell) {
                Poll::Ready(Some(due)) => {
                    let due = due.unwrap();
                    let (key, deadline) = self.items.remove(&due.payload).unwrap();
                    assert!(
                        due.key == key && deadline <= self.now,
                        "{} is early",
                        due.payload
                    );
                    self.stale.push(key);
                }
                Poll::Ready(None) => {
                    assert!(self.items.is_empty());
                    break Told::Empty(self.bell.rings());
                }
                Poll::Pending => {
                    assert!(!self.items.is_empty() && !self.must_be_out());
                    break Told::Wait(self.bell.rings());
                }
            }
        };
    }

    /// Whether an item is due.
    fn must_be_out(&self) -> bool {
        self.items
            .values()
            .any(|(_, deadline)| deadline.div_ceil(TICK) * TICK <= self.now)
    }

    /// Lets time pass; `exact` if no item was ever removed or moved, so that no wake is in vain.
    fn pass(&mut self, time: u64, exact: bool) {
        self.now += time;
        self.rig.pass(Duration::from_nanos(time));
        if let Told::Wait(rings) = self.told {
            let rings = self.bell.rings() - rings;
            assert!(rings <= 1, "one timer wakes once");
            assert!(rings == 1 || !self.must_be_out(), "no wake is lost");
            // Whatever came after the poll may have been due within its tick.
            assert!(rings == 0 || !exact || self.items.values().any(|it| it.1 <= self.now));
        }
    }

    fn check(&self) {
        assert_eq!(self.queue.len(), self.items.len());
        assert!(self.rig.timer.pending() <= 1);
        for key in self.stale.iter().rev().take(4) {
            assert_eq!(
                (self.queue.deadline(*key), self.queue.get(*key)),
                (None, None)
            );
        }
        if let Some((number, (key, _))) = self.items.last_key_value() {
            assert_eq!(self.queue.get(*key), Some(number));
        }
    }
}

#[test]
fn items_come_out_as_the_list_says() {
    for seed in 0..stress(80) {
        let (random, exact) = (&mut Random::new(seed), seed % 2 == 0);
        let ((rig, queue, bell), items) = (setup(), BTreeMap::new());
        let (stale, now, told) = (Vec::new(), 0, Told::Nothing);
        let mut model = Model {
            rig,
            queue,
            bell,
            items,
            stale,
            now,
            told,
        };
        for _ in 0..400 {
            let deadline = some_deadline(random, model.now);
            let which = random.below(model.items.len().max(1) as u64) as usize;
            match (random.below(100), model.items.keys().nth(which).copied()) {
                (0..30, _) => model.insert(deadline),
                (30..45, Some(number)) if !exact => model.remove(number),
                (45..60, Some(number)) if !exact => {
                    let item = model.items.get_mut(&number).unwrap();
                    assert!(model.queue.reset(item.0, deadline.1).is_moved());
                    item.1 = deadline.0;
                }
                (60..80, _) => model.take(),
                _ => model.pass(random.below(4 * TICK), exact),
            }
            model.check();
        }
        model.pass(6_000 * TICK, exact);
        model.take();
        assert!(model.items.is_empty());
    }
}

#[test]
fn a_task_that_found_the_queue_empty_is_woken_once() {
    let (_rig, mut queue, bell) = setup();
    assert!(matches!(poll(&mut queue, &bell), Poll::Ready(None)));
    (0..3).for_each(|n| _ = queue.insert(n, HOUR));
    assert_eq!(bell.rings(), 1);
}
