//! Forged runs: whatever an engine could do wrong, the ledger must show it.

use std::sync::Arc;
use std::time::Duration;

use tickwheel::{ManualClock, Time};

use super::*;
use crate::ledger::table::LedgerClock;
use crate::ledger::writer::Writer;

/// A ledger on a manual clock with one writer of four slots, and honest engine counts on demand.
struct Fixture {
    ledger: Arc<Ledger>,
    writer: Writer,
    clock: ManualClock,
    totals: Totals,
}

impl Fixture {
    fn new() -> Self {
        let clock = ManualClock::new();
        let ledger =
            Arc::new(Ledger::open(LedgerClock::Manual(clock.clone()), 1, 4, 1, "").unwrap());
        let writer = Writer::new(&ledger, 0).unwrap();
        let totals = Totals { accepted: vec![0], ..Totals::default() };
        Self { ledger, writer, clock, totals }
    }

    fn schedule(&mut self, deadline_ns: u64) -> Ticket {
        self.totals.accept(0);
        self.writer.open(deadline_ns).unwrap()
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.totals.cancelled += 1;
        self.writer.cancelled(ticket);
    }

    fn judge(&self, returned: &[Ticket]) -> Verdict {
        let engine = EngineCounts {
            scheduled: self.totals.accepted.clone(),
            fired: self.ledger.fired_by_shard(),
            cancelled: self.totals.cancelled,
            returned: returned.len() as u64,
            ..EngineCounts::default()
        };
        self.ledger.audit(returned, &self.totals, &engine)
    }
}

/// How many were early, twice, lost and mismatches.
fn found(verdict: &Verdict) -> [u64; 4] {
    let counts: Vec<u64> = verdict.breaches.iter().map(|(_, count)| *count).collect();
    counts.try_into().unwrap()
}

#[test]
fn an_honest_run_is_ok() {
    let mut fixture = Fixture::new();
    for _ in 0..10 {
        let cancelled = fixture.schedule(100);
        fixture.cancel(cancelled);
        let fired = fixture.schedule(fixture.clock.now().as_nanos());
        fixture.clock.advance(Duration::from_nanos(5));
        fixture.ledger.record_fired(0, fired);
        assert!(fixture.writer.reap(fired));
    }
    let returned = fixture.schedule(1_000);
    let verdict = fixture.judge(&[returned]);
    assert!(verdict.is_ok(), "{verdict:?}");
    let balance = "accepted 21 = fired 10 + cancelled 10 + returned 1";
    assert_eq!(verdict.balance, balance);
    assert_eq!(fixture.ledger.lateness().len(), 10);
}

#[test]
fn early_is_seen_to_the_nanosecond() {
    let mut fixture = Fixture::new();
    let ticket = fixture.schedule(1_000);
    fixture.clock.set(Time::from_nanos(999));
    fixture.ledger.record_fired(0, ticket);
    let verdict = fixture.judge(&[]);
    assert_eq!(found(&verdict), [1, 0, 0, 0]);
    assert!(verdict.findings[0].contains("timer 0:0#1"), "{:?}", verdict.findings);
    assert!(verdict.findings[0].contains("1 ns before"), "{:?}", verdict.findings);
}

#[test]
fn lost_is_seen() {
    let mut fixture = Fixture::new();
    let ticket = fixture.schedule(1_000);
    let _found = fixture.schedule(1_000);
    let verdict = fixture.judge(&[ticket]);
    assert_eq!(found(&verdict), [0, 0, 1, 1], "and the sums differ");
    assert!(verdict.findings[0].contains("0:1#1"), "{:?}", verdict.findings);
}

/// Every way to end twice, each as a forged run of its own.
#[test]
fn twice_is_seen_however_it_happens() {
    type Forgery = fn(&mut Fixture) -> Vec<Ticket>;
    let forgeries: [(&str, Forgery); 8] = [
        ("fired twice", |fixture| {
            let ticket = fixture.schedule(0);
            fixture.ledger.record_fired(0, ticket);
            fixture.ledger.record_fired(0, ticket);
            vec![]
        }),
        ("cancelled, then fired", |fixture| {
            let ticket = fixture.schedule(0);
            fixture.cancel(ticket);
            fixture.ledger.record_fired(0, ticket);
            vec![]
        }),
        ("fired, then cancelled", |fixture| {
            let ticket = fixture.schedule(0);
            fixture.ledger.record_fired(0, ticket);
            fixture.cancel(ticket);
            vec![]
        }),
        ("fired, slot reused, fired again", |fixture| {
            let ticket = fixture.schedule(0);
            fixture.ledger.record_fired(0, ticket);
            assert!(fixture.writer.reap(ticket));
            let next = fixture.schedule(0);
            fixture.ledger.record_fired(0, ticket);
            vec![next]
        }),
        ("cancelled, slot reused, fired", |fixture| {
            let ticket = fixture.schedule(0);
            fixture.cancel(ticket);
            let next = fixture.schedule(0);
            fixture.ledger.record_fired(0, ticket);
            vec![next]
        }),
        ("fired and returned", |fixture| {
            let ticket = fixture.schedule(0);
            fixture.ledger.record_fired(0, ticket);
            vec![ticket]
        }),
        ("cancelled and returned", |fixture| {
            let ticket = fixture.schedule(0);
            fixture.cancel(ticket);
            vec![ticket]
        }),
        ("returned twice", |fixture| {
            let ticket = fixture.schedule(0);
            vec![ticket, ticket]
        }),
    ];
    for (name, forge) in forgeries {
        let mut fixture = Fixture::new();
        let returned = forge(&mut fixture);
        let verdict = fixture.judge(&returned);
        assert_eq!(found(&verdict)[1..3], [1, 0], "{name}: {verdict:?}");
    }
}

/// The mark of a racing handler can become visible after the cancel was written down.
#[test]
fn a_race_between_cancel_and_fire_is_seen_late() {
    for reuse in [false, true] {
        let mut fixture = Fixture::new();
        let ticket = fixture.schedule(0);
        fixture.cancel(ticket);
        fixture.ledger.slots[ticket.slot as usize].fire(ticket.life);
        let returned = if reuse { vec![fixture.schedule(0)] } else { vec![] };
        let verdict = fixture.judge(&returned);
        assert_eq!(found(&verdict)[1], 1, "reuse {reuse}: {verdict:?}");
    }
}

#[test]
fn a_refused_timer_must_not_fire() {
    let mut fixture = Fixture::new();
    let ticket = fixture.writer.open(0).unwrap();
    fixture.writer.refused(ticket);
    fixture.totals.refused_stopped += 1;
    assert!(fixture.judge(&[]).is_ok());
    fixture.ledger.record_fired(0, ticket);
    assert_eq!(found(&fixture.judge(&[]))[1], 1);
}

#[test]
fn wrong_engine_statistics_are_a_breach() {
    let judged = |forge: fn(&mut EngineCounts)| {
        let mut fixture = Fixture::new();
        let ticket = fixture.schedule(0);
        fixture.cancel(ticket);
        let (scheduled, fired) = (vec![1], vec![0]);
        let mut engine = EngineCounts { scheduled, fired, cancelled: 1, ..Default::default() };
        forge(&mut engine);
        found(&fixture.ledger.audit(&[], &fixture.totals, &engine))[3]
    };
    assert_eq!(judged(|_| ()), 0);
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
        assert!(judged(forge) > 0, "forgery {n}");
    }
}

#[test]
fn a_moved_timer_is_early_only_before_the_bound_that_holds() {
    let mut fixture = Fixture::new();
    let (bound, moved) = (fixture.schedule(100), fixture.schedule(100));
    // Not told yet whether the move succeeded: either deadline is right.
    fixture.writer.moving(bound, 500);
    fixture.writer.moving(moved, 500);
    fixture.writer.moved(moved, 500);
    fixture.clock.set(Time::from_nanos(100));
    fixture.ledger.record_fired(0, bound);
    fixture.ledger.record_fired(0, moved);
    let verdict = fixture.judge(&[]);
    assert_eq!(found(&verdict)[0], 1, "{verdict:?}");
    assert!(verdict.findings[0].contains("0:1#1"));
}

#[test]
fn books_refuse_more_slots_than_tickets_can_number() {
    let clock = LedgerClock::Manual(ManualClock::new());
    let error = Ledger::open(clock, 1 << 20, 1 << 20, 1, "take fewer").err().unwrap().to_string();
    assert!(error.ends_with("can follow; take fewer"), "{error}");
}
