//! What an operator is told as it happens: events of `tracing`.
//!
//! The one test of its program, because `tracing` remembers of each event whether anybody listens, and asks the
//! thread that emits it first: a test beside this one, on a thread without a subscriber, would silence it for all.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{Builder, Drive, Expired, ManualClock};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// One event: its level, its text and its fields.
type Event = (tracing::Level, BTreeMap<&'static str, String>);

/// Keeps what this crate says.
struct Keep(Arc<Mutex<Vec<Event>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "tickwheel" {
            let mut fields = Fields::default();
            event.record(&mut fields);
            self.0.lock().expect("nobody panics here").push((*event.metadata().level(), fields.0));
        }
    }
}

#[test]
fn panics_slow_handlers_refusals_and_bursts_are_events_with_fields() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let subscriber = tracing_subscriber::registry().with(Keep(Arc::clone(&events)));
    // The thread that turns by hand runs the handlers.
    let _here = tracing::subscriber::set_default(subscriber);
    let clock = Arc::new(ManualClock::new());
    let time = Arc::clone(&clock);
    let handler = move |expired: Expired<&str>| match expired.payload {
        "slow" => drop(time.advance(Duration::from_millis(7))),
        "panics" => panic!("on purpose"),
        _ => {}
    };
    let budget = tickwheel::Budget::new().fire(1);
    let timer = Builder::new()
        .shards(1)
        .drive(Drive::Manual)
        .clock(clock)
        .budget(budget)
        .max_pending(2)
        .on_slow_handler(Duration::from_millis(5), |_| ())
        .build_with(handler)
        .expect("the settings are in range");
    timer.schedule_key(Duration::ZERO, "slow").expect("there is room");
    timer.schedule_key(Duration::ZERO, "panics").expect("there is room");
    assert!(timer.schedule_key(Duration::ZERO, "too many").is_err());
    while timer.turn().expect("it is driven by hand") > 0 {}
    let events = events.lock().expect("nobody panics here");
    let field = |text: &str, name: &str| {
        let found =
            events.iter().find(|(_, fields)| fields.get("message").is_some_and(|it| it == text));
        found.unwrap_or_else(|| panic!("no {text}: {events:?}")).1.get(name).cloned()
    };
    assert_eq!(field("a handler panicked", "panic").as_deref(), Some("on purpose"));
    assert_eq!(field("a handler panicked", "shard").as_deref(), Some("0"));
    assert!(field("a handler panicked", "timer").is_some());
    assert_eq!(field("a handler held its shard up", "took").as_deref(), Some("7ms"));
    assert!(
        field("a timer was refused", "reason").is_some_and(|it| it.contains("max_pending is 2"))
    );
    assert_eq!(field("a turn used its budget up", "fired").as_deref(), Some("1"));
}
