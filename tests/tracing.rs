//! The events of `tracing`: what the guide lists, with which fields; and subscribers that misbehave.
//!
//! A program of its own, because the subscriber belongs to the process; its tests take turns.

#![cfg(feature = "tracing")]

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;
use tickwheel::{
    Budget, Builder, Clock, Drive, Expired, ManualClock, Pinning, ScheduleErrorKind, Time, Timer,
    executor_fn,
};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

const HOUR: Duration = Duration::from_secs(3600);

/// One event: its level, and its fields as text.
#[derive(Clone, Debug)]
struct Told {
    level: Level,
    fields: Vec<(&'static str, String)>,
}

impl Told {
    fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(field, _)| *field == name);
        found.map_or_else(|| panic!("{name} is not in {self:?}"), |(_, text)| text)
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.push((field.name(), format!("{value:?}")));
    }
}

type Reaction = Box<dyn Fn() + Send + Sync>;

static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());
static REACTION: Mutex<Option<Arc<Reaction>>> = Mutex::new(None);
static TURN: Mutex<()> = Mutex::new(());

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the engine's events, and does what the test wants after each.
struct Keeper;

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tickwheel"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut told = Told { level: *event.metadata().level(), fields: Vec::new() };
        event.record(&mut told);
        lock(&TOLD).push(told);
        let reaction = lock(&REACTION).clone();
        if let Some(reaction) = reaction {
            reaction();
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// To be held by a test while it runs.
fn my_turn() -> MutexGuard<'static, ()> {
    static INSTALLED: Once = Once::new();
    let turn = lock(&TURN);
    INSTALLED.call_once(|| tracing::subscriber::set_global_default(Keeper).expect("the only one"));
    *lock(&REACTION) = None;
    lock(&TOLD).clear();
    turn
}

fn react(reaction: impl Fn() + Send + Sync + 'static) {
    *lock(&REACTION) = Some(Arc::new(Box::new(reaction)));
}

fn told() -> Vec<Told> {
    std::mem::take(&mut lock(&TOLD))
}

/// The only event since the last look.
#[track_caller]
fn the_only_one(level: Level, message: &str) -> Told {
    let told = told();
    assert!(told.len() == 1, "one event, not {told:?}");
    assert_eq!((told[0].level, told[0].field("message")), (level, message));
    told[0].clone()
}

fn by_hand(clock: &ManualClock) -> Builder {
    Builder::new().shards(1).pinning(Pinning::Off).drive(Drive::Manual).clock(clock.clone())
}

/// Due at once.
#[track_caller]
fn arm(timer: &Timer<u64>, payload: u64) {
    timer.schedule_key(Duration::ZERO, payload).expect("the engine takes it");
}

#[test]
fn a_panic_and_a_refusal_are_told_with_their_fields() {
    let _turn = my_turn();
    let builder = by_hand(&ManualClock::new()).max_pending(1);
    let timer = builder.build_with(|_: Expired<u64>| panic!("no luck")).unwrap();
    let key = timer.schedule_key(Duration::ZERO, 1).unwrap();
    timer.schedule_key(HOUR, 2).unwrap_err();
    let refused = the_only_one(Level::DEBUG, "a timer was refused");
    assert_eq!(refused.field("shard"), "0");
    assert!(refused.field("reason").contains('1'), "names the limit: {refused:?}");

    timer.turn().unwrap();
    let panicked = the_only_one(Level::ERROR, "a handler panicked");
    assert_eq!(panicked.field("panic"), "no luck");
    assert_eq!(panicked.field("timer"), key.to_raw().to_string());
    assert_eq!(panicked.field("shard"), "0");
}

#[test]
fn a_turn_that_was_cut_short_is_told() {
    let _turn = my_turn();
    let clock = ManualClock::new();
    let budget = Budget::new().fire(2);
    let timer = by_hand(&clock).budget(budget).build_with(|_: Expired<u64>| ()).unwrap();
    (0..3).for_each(|id| arm(&timer, id));
    timer.turn().unwrap();
    assert_eq!(the_only_one(Level::DEBUG, "a turn used its budget up").field("fired"), "2");
    assert_eq!(timer.stats().fired(), 3);
}

#[test]
fn a_slow_handler_is_told_beside_the_hook() {
    let _turn = my_turn();
    let (clock, hooked) = (ManualClock::new(), Arc::new(AtomicU32::new(0)));
    let (within, count) = (clock.clone(), Arc::clone(&hooked));
    let timer = by_hand(&clock)
        .on_slow_handler(Duration::from_millis(5), move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .build_with(move |expired: Expired<u64>| {
            within.advance(Duration::from_millis(expired.payload));
        })
        .unwrap();
    timer.schedule_key(Duration::ZERO, 4).unwrap();
    timer.turn().unwrap();
    assert!(told().is_empty());
    timer.schedule_key(Duration::ZERO, 6).unwrap();
    timer.turn().unwrap();
    let slow = the_only_one(Level::WARN, "a handler held its shard up");
    assert_eq!((slow.field("took"), hooked.load(Ordering::SeqCst)), ("6ms", 1));
}

#[test]
fn a_refusing_executor_is_told() {
    let _turn = my_turn();
    let executor = executor_fn(Err::<(), Expired<u64>>, |_| ());
    let timer = by_hand(&ManualClock::new()).build_on(executor).unwrap();
    timer.schedule_key(Duration::ZERO, 1).unwrap();
    timer.turn().unwrap();
    the_only_one(Level::DEBUG, "the executor gave an expired timer back");
}

/// Fails for ever once it is told to.
struct Broken(Arc<AtomicBool>);

impl Clock for Broken {
    fn now(&self) -> Time {
        assert!(!self.0.load(Ordering::SeqCst), "the clock");
        Time::ZERO
    }
}

#[test]
fn a_worker_that_ends_is_told() {
    let _turn = my_turn();
    let broken = Arc::new(AtomicBool::new(false));
    let timer = Builder::new()
        .shards(1)
        .pinning(Pinning::Off)
        .drive(Drive::Manual)
        .clock(Broken(Arc::clone(&broken)))
        .build_with(|_: Expired<u64>| ())
        .unwrap();
    timer.schedule_key(HOUR, 1).unwrap();
    broken.store(true, Ordering::SeqCst);
    while timer.turn().is_ok() {}
    let told = told();
    let failures: Vec<_> =
        told.iter().filter(|it| it.field("message").contains("has ended")).collect();
    assert!(failures.len() == 1, "{told:?}");
    assert_eq!((failures[0].level, failures[0].field("shard")), (Level::ERROR, "0"));
    assert_eq!(timer.stop().unwrap().len(), 1);
}

#[test]
fn a_subscriber_that_panics_keeps_no_timer_from_its_end() {
    let _turn = my_turn();
    react(|| panic!("the subscriber"));
    let (clock, fired) = (ManualClock::new(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&fired);
    let timer = by_hand(&clock)
        .max_pending(4)
        .budget(Budget::new().fire(1))
        .on_slow_handler(Duration::ZERO, |_| ())
        .build_with(move |expired: Expired<u64>| {
            count.fetch_add(1, Ordering::SeqCst);
            assert!(expired.payload % 2 == 0, "an odd one");
        })
        .unwrap();
    (0..4).for_each(|id| arm(&timer, id));
    let refused = timer.schedule_key(HOUR, 4).unwrap_err();
    assert_eq!(*refused.payload(), 4);
    assert!(matches!(refused.kind(), ScheduleErrorKind::TooManyPending { .. }), "{refused}");
    timer.turn().unwrap();
    assert_eq!((fired.load(Ordering::SeqCst), timer.pending()), (4, 0));
    let messages = |it: &Told| it.field("message").to_owned();
    let told: std::collections::BTreeSet<_> = told().iter().map(messages).collect();
    assert_eq!(told.len(), 4, "{told:?}");
}

/// One that flushes by a timer of the engine that tells it something.
#[test]
fn a_subscriber_whose_timer_is_refused_is_not_told_of_that() {
    let _turn = my_turn();
    let timer: Timer<u64> =
        by_hand(&ManualClock::new()).max_pending(1).build_with(|_: Expired<u64>| ()).unwrap();
    timer.schedule_key(HOUR, 1).unwrap();
    let (within, refusals) = (timer.clone(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&refusals);
    react(move || {
        within.schedule_key(HOUR, 2).unwrap_err();
        count.fetch_add(1, Ordering::SeqCst);
    });
    for n in 1..=3 {
        timer.schedule_key(HOUR, 3).unwrap_err();
        assert_eq!((told().len(), refusals.load(Ordering::SeqCst)), (1, n));
    }
    *lock(&REACTION) = None;
}
