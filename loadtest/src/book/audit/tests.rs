//! Forged runs: whatever an engine could do wrong, the books must show it.

use std::sync::Arc;
use std::time::Duration;

use tickwheel::{ManualClock, Time};

use super::*;
use crate::book::{BookClock, Lane};

/// Books on a manual clock with one lane of four slots, and honest engine counts on demand.
struct Desk {
    book: Arc<Book>,
    lane: Lane,
    clock: ManualClock,
    tally: Tally,
}

impl Desk {
    fn new() -> Self {
        let clock = ManualClock::new();
        let book = Arc::new(Book::open(BookClock::Manual(clock.clone()), 1, 4, 1).unwrap());
        let lane = Lane::new(&book, 0);
        let tally = Tally { accepted: vec![0], ..Tally::default() };
        Self { book, lane, clock, tally }
    }

    fn schedule(&mut self, deadline_ns: u64) -> Ticket {
        self.tally.accept(0);
        self.lane.open(deadline_ns).unwrap()
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.tally.cancelled += 1;
        self.lane.cancelled(ticket);
    }

    fn judge(&self, returned: &[Ticket]) -> Verdict {
        let engine = EngineCounts {
            scheduled: self.tally.accepted.clone(),
            fired: self.book.fired_by_shard(),
            cancelled: self.tally.cancelled,
            returned: returned.len() as u64,
            ..EngineCounts::default()
        };
        self.book.audit(returned, &self.tally, &engine)
    }
}

#[test]
fn an_honest_run_is_ok() {
    let mut desk = Desk::new();
    for _ in 0..10 {
        let cancelled = desk.schedule(100);
        desk.cancel(cancelled);
        let fired = desk.schedule(desk.clock.now().as_nanos());
        desk.clock.advance(Duration::from_nanos(5));
        desk.book.record_fired(0, fired);
        assert!(desk.lane.reap(fired));
    }
    let returned = desk.schedule(1_000);
    let verdict = desk.judge(&[returned]);
    assert!(verdict.is_ok(), "{verdict:?}");
    assert_eq!((verdict.accepted, verdict.fired), (21, 10));
    assert_eq!((verdict.cancelled, verdict.returned), (10, 1));
    assert_eq!(desk.book.lateness().len(), 10);
}

#[test]
fn early_is_seen_to_the_nanosecond() {
    let mut desk = Desk::new();
    let ticket = desk.schedule(1_000);
    desk.clock.set(Time::from_nanos(999));
    desk.book.record_fired(0, ticket);
    let verdict = desk.judge(&[]);
    assert_eq!((verdict.early, verdict.twice, verdict.lost, verdict.mismatches), (1, 0, 0, 0));
    assert!(verdict.evidence[0].contains("timer 0:0#1"), "{:?}", verdict.evidence);
    assert!(verdict.evidence[0].contains("1 ns before"), "{:?}", verdict.evidence);
}

#[test]
fn lost_is_seen() {
    let mut desk = Desk::new();
    let ticket = desk.schedule(1_000);
    let _found = desk.schedule(1_000);
    let verdict = desk.judge(&[ticket]);
    assert_eq!((verdict.lost, verdict.mismatches), (1, 1), "and the sums differ");
    assert!(verdict.evidence[0].contains("0:1#1"), "{:?}", verdict.evidence);
}

/// Every way to end twice, each as a forged run of its own.
#[test]
fn twice_is_seen_however_it_happens() {
    type Forgery = fn(&mut Desk) -> Vec<Ticket>;
    let forgeries: [(&str, Forgery); 8] = [
        ("fired twice", |desk| {
            let ticket = desk.schedule(0);
            desk.book.record_fired(0, ticket);
            desk.book.record_fired(0, ticket);
            vec![]
        }),
        ("cancelled, then fired", |desk| {
            let ticket = desk.schedule(0);
            desk.cancel(ticket);
            desk.book.record_fired(0, ticket);
            vec![]
        }),
        ("fired, then cancelled", |desk| {
            let ticket = desk.schedule(0);
            desk.book.record_fired(0, ticket);
            desk.cancel(ticket);
            vec![]
        }),
        ("fired, slot reused, fired again", |desk| {
            let ticket = desk.schedule(0);
            desk.book.record_fired(0, ticket);
            assert!(desk.lane.reap(ticket));
            let next = desk.schedule(0);
            desk.book.record_fired(0, ticket);
            vec![next]
        }),
        ("cancelled, slot reused, fired", |desk| {
            let ticket = desk.schedule(0);
            desk.cancel(ticket);
            let next = desk.schedule(0);
            desk.book.record_fired(0, ticket);
            vec![next]
        }),
        ("fired and returned", |desk| {
            let ticket = desk.schedule(0);
            desk.book.record_fired(0, ticket);
            vec![ticket]
        }),
        ("cancelled and returned", |desk| {
            let ticket = desk.schedule(0);
            desk.cancel(ticket);
            vec![ticket]
        }),
        ("returned twice", |desk| {
            let ticket = desk.schedule(0);
            vec![ticket, ticket]
        }),
    ];
    for (name, forge) in forgeries {
        let mut desk = Desk::new();
        let returned = forge(&mut desk);
        let verdict = desk.judge(&returned);
        assert_eq!((verdict.twice, verdict.lost), (1, 0), "{name}: {verdict:?}");
        assert_eq!(verdict.word(), "breach");
    }
}

/// The mark of a racing handler can become visible after the cancel was written down.
#[test]
fn a_race_between_cancel_and_fire_is_seen_late() {
    for reuse in [false, true] {
        let mut desk = Desk::new();
        let ticket = desk.schedule(0);
        desk.cancel(ticket);
        desk.book.slots[ticket.slot as usize].fire(ticket.life);
        let returned = if reuse { vec![desk.schedule(0)] } else { vec![] };
        let verdict = desk.judge(&returned);
        assert_eq!(verdict.twice, 1, "reuse {reuse}: {verdict:?}");
    }
}

#[test]
fn a_refused_timer_must_not_fire() {
    let mut desk = Desk::new();
    let ticket = desk.lane.open(0).unwrap();
    desk.lane.refused(ticket);
    desk.tally.refused_stopped += 1;
    assert!(desk.judge(&[]).is_ok());
    desk.book.record_fired(0, ticket);
    assert_eq!(desk.judge(&[]).twice, 1);
}

#[test]
fn wrong_engine_statistics_are_a_breach() {
    let mut desk = Desk::new();
    let ticket = desk.schedule(0);
    desk.cancel(ticket);
    let honest = EngineCounts {
        scheduled: vec![1],
        fired: vec![0],
        cancelled: 1,
        ..EngineCounts::default()
    };
    let forgeries: [fn(&mut EngineCounts); 7] = [
        |engine| engine.scheduled = vec![0, 1],
        |engine| engine.fired = vec![1],
        |engine| engine.cancelled = 0,
        |engine| engine.returned = 1,
        |engine| engine.pending = 1,
        |engine| engine.rejected = 1,
        |engine| engine.panics = 1,
    ];
    for (n, forge) in forgeries.into_iter().enumerate() {
        let mut engine = honest.clone();
        forge(&mut engine);
        let desk = {
            let mut desk = Desk::new();
            let ticket = desk.schedule(0);
            desk.cancel(ticket);
            desk
        };
        let verdict = desk.book.audit(&[], &desk.tally, &engine);
        assert!(verdict.mismatches > 0, "forgery {n}: {verdict:?}");
    }
    assert!(desk.book.audit(&[], &desk.tally, &honest).is_ok());
}

#[test]
fn a_moved_timer_is_early_only_before_the_bound_that_holds() {
    let mut desk = Desk::new();
    let (bound, moved) = (desk.schedule(100), desk.schedule(100));
    // Not told yet whether the move succeeded: either deadline is right.
    desk.lane.moving(bound, 500);
    desk.lane.moving(moved, 500);
    desk.lane.moved(moved, 500);
    desk.clock.set(Time::from_nanos(100));
    desk.book.record_fired(0, bound);
    desk.book.record_fired(0, moved);
    let verdict = desk.judge(&[]);
    assert_eq!(verdict.early, 1, "{verdict:?}");
    assert!(verdict.evidence[0].contains("0:1#1"));
}

#[test]
fn books_refuse_more_slots_than_tickets_can_number() {
    let clock = BookClock::Manual(ManualClock::new());
    let error = Book::open(clock, 1 << 20, 1 << 20, 1).err().unwrap();
    assert!(error.contains("--in-flight"));
}
