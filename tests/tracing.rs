//! The events of `tracing`: what the guide lists, with which fields; and subscribers that misbehave.
//!
//! A program of its own, because the subscriber belongs to the process; its tests take turns.

#![cfg(feature = "tracing")]

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;
use tickwheel::{
    Budget, Builder, Clock, Drive, Expired, LocalTimer, ManualClock, ScheduleErrorKind, Time,
    Timer, executor_fn,
};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

#[allow(
    dead_code,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "support/setup.rs"]
mod setup;

use setup::{HOUR, ms, one_shard};

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

static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());
static REACTION: Mutex<Option<Arc<dyn Fn() + Send + Sync>>> = Mutex::new(None);
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
        let mut told = Told {
            level: *event.metadata().level(),
            fields: Vec::new(),
        };
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
    *lock(&REACTION) = Some(Arc::new(reaction));
}

fn told() -> Vec<Told> {
    std::mem::take(&mut lock(&TOLD))
}

fn by_hand(clock: impl Clock) -> Builder {
    one_shard().drive(Drive::Manual).clock(clock)
}

/// Due at once.
#[track_caller]
fn arm(timer: &Timer<u64>, payload: u64) {
    timer
        .schedule(Duration::ZERO, payload)
        .expect("the engine takes it");
}

/// What an event is to tell: fields, and a part of the text of each.
type Fields = Vec<(&'static str, String)>;

type Case = (Level, &'static str, fn() -> Fields);

/// Level and message of each event, and what brings it about.
#[rustfmt::skip]
const EVENTS: [Case; 8] = [
    (Level::DEBUG, "a timer was refused", refuses),
    (Level::DEBUG, "a timer was refused", refuses_when_stopped),
    (Level::ERROR, "a handler panicked", panics),
    (Level::DEBUG, "a turn used its budget up", uses_its_budget_up),
    (Level::WARN, "a handler held its shard up", is_slow),
    (Level::DEBUG, "the executor gave an expired timer back", is_refused_by_an_executor),
    (Level::ERROR, "a worker panicked and has ended", ends_a_shard),
    (Level::ERROR, "the destructor of a timer's payload panicked: no luck", panics_when_dropped),
];

#[test]
fn each_event_is_told_once_with_its_fields() {
    let _turn = my_turn();
    for (level, message, brings_about) in EVENTS {
        let fields = brings_about();
        let told = told();
        let is_it = |it: &&Told| it.level == level && it.field("message") == message;
        let [event] = &*told.iter().filter(is_it).collect::<Vec<_>>() else {
            panic!("{message}: {told:?}")
        };
        for (name, text) in fields {
            assert!(
                event.field(name).contains(&text),
                "{name} is not {text} in {event:?}"
            );
        }
    }
}

fn refuses() -> Fields {
    let builder = by_hand(ManualClock::new()).max_pending(1);
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    arm(&timer, 1);
    timer.schedule(HOUR, 2).unwrap_err();
    vec![("shard", "0".into()), ("reason", "1".into())]
}

fn refuses_when_stopped() -> Fields {
    let builder = by_hand(ManualClock::new());
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    timer.stop().unwrap();
    let refused = timer.schedule(HOUR, 1).unwrap_err();
    vec![("reason", refused.kind().to_string())]
}

fn panics() -> Fields {
    let builder = by_hand(ManualClock::new());
    let timer = builder
        .build_with(|_: Expired<u64>| panic!("no luck"))
        .unwrap();
    let key = timer.schedule(Duration::ZERO, 1).unwrap().to_raw();
    timer.turn().unwrap();
    vec![
        ("shard", "0".into()),
        ("panic", "no luck".into()),
        ("timer", key.to_string()),
    ]
}

fn uses_its_budget_up() -> Fields {
    let builder = by_hand(ManualClock::new()).budget(Budget::new().fire(2));
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    (0..3).for_each(|id| arm(&timer, id));
    assert_eq!(timer.turn(), Ok(3));
    vec![("fired", "2".into())]
}

/// One handler takes less than the limit, and one more; the hook is told as well.
fn is_slow() -> Fields {
    let (clock, hooked) = (ManualClock::new(), Arc::new(AtomicU32::new(0)));
    let (within, count) = (clock.clone(), Arc::clone(&hooked));
    let timer = by_hand(clock)
        .on_slow_handler(ms(5), move |_| _ = count.fetch_add(1, Ordering::SeqCst))
        .build_with(move |expired: Expired<u64>| _ = within.advance(ms(expired.payload)))
        .unwrap();
    arm(&timer, 4);
    arm(&timer, 6);
    timer.turn().unwrap();
    assert_eq!(hooked.load(Ordering::SeqCst), 1);
    vec![("took", "6ms".into())]
}

fn is_refused_by_an_executor() -> Fields {
    let executor = executor_fn(Err::<(), Expired<u64>>, |_| ());
    let timer = by_hand(ManualClock::new()).build_on(executor).unwrap();
    arm(&timer, 1);
    timer.turn().unwrap();
    vec![]
}

/// Fails for ever once it is told to.
struct Broken(Arc<AtomicBool>);

impl Clock for Broken {
    fn now(&self) -> Time {
        assert!(!self.0.load(Ordering::SeqCst), "the clock");
        Time::ZERO
    }
}

fn ends_a_shard() -> Fields {
    let broken = Arc::new(AtomicBool::new(false));
    let builder = by_hand(Broken(Arc::clone(&broken)));
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    timer.schedule(HOUR, 1).unwrap();
    broken.store(true, Ordering::SeqCst);
    while timer.turn().is_ok() {}
    assert_eq!(timer.stop().unwrap().len(), 1);
    vec![("shard", "0".into()), ("panic", "the clock".into())]
}

fn panics_when_dropped() -> Fields {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("no luck");
        }
    }
    let mut timer = LocalTimer::new(ms(1)).unwrap();
    timer.schedule(Time::ZERO, HOUR, Bomb).unwrap();
    timer.clear();
    vec![]
}

#[test]
fn a_subscriber_that_panics_keeps_no_timer_from_its_end() {
    let _turn = my_turn();
    react(|| panic!("the subscriber"));
    let (clock, fired) = (ManualClock::new(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&fired);
    let timer = by_hand(clock.clone())
        .max_pending(4)
        .budget(Budget::new().fire(1))
        .on_slow_handler(Duration::ZERO, |_| ())
        .build_with(move |expired: Expired<u64>| {
            count.fetch_add(1, Ordering::SeqCst);
            assert!(expired.payload % 2 == 0, "an odd one");
        })
        .unwrap();
    (0..4).for_each(|id| arm(&timer, id));
    let refused = timer.schedule(HOUR, 4).unwrap_err();
    assert_eq!(*refused.payload(), 4);
    assert!(
        matches!(refused.kind(), ScheduleErrorKind::TooManyPending { .. }),
        "{refused}"
    );
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
    let builder = by_hand(ManualClock::new()).max_pending(1);
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    timer.schedule(HOUR, 1).unwrap();
    let (within, refusals) = (timer.clone(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&refusals);
    react(move || {
        within.schedule(HOUR, 2).unwrap_err();
        count.fetch_add(1, Ordering::SeqCst);
    });
    for n in 1..=3 {
        timer.schedule(HOUR, 3).unwrap_err();
        assert_eq!((told().len(), refusals.load(Ordering::SeqCst)), (1, n));
    }
    *lock(&REACTION) = None;
}
