//! Periodic timers against `stop`: each accepted one is either cancelled or returned, once.

use crate::support::ledger::{Ledger, Payload};
use crate::support::setup::{HOUR, one_shard, stress};
use std::collections::HashMap;
use std::sync::Barrier;
use tickwheel::{Drive, Key, MissedTicks, Period, Timer, Unfired};

const TIMERS: u64 = 64;

fn hourly() -> Period {
    Period::fixed_rate(HOUR, MissedTicks::Skip).expect("not zero")
}

/// An engine without workers, so that `stop` does all its work on the thread that calls it.
fn engine() -> Timer<Payload> {
    one_shard().drive(Drive::Manual).build_with(drop).expect("the engine is built")
}

fn ids(unfired: &[Unfired<Payload>]) -> HashMap<u64, u64> {
    let mut times = HashMap::new();
    for one in unfired {
        *times.entry(one.payload.id()).or_default() += 1;
    }
    times
}

#[test]
fn cancelling_a_periodic_timer_and_stop_have_one_winner() {
    let ledger = Ledger::of_payloads();
    for round in 0..stress(300) {
        let timer = engine();
        let begin = |id| timer.schedule_periodic(HOUR, hourly(), ledger.payload(id));
        let keys: Vec<Key<Payload>> = (0..TIMERS).map(|id| begin(id).expect("accepted")).collect();
        let gate = Barrier::new(2);
        let mut won = Vec::new();
        let mut unfired = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gate.wait();
                // From the other end than the one where `stop` begins, so that the two meet.
                won = keys.iter().rev().map(|key| timer.cancel(*key).won()).rev().collect();
            });
            gate.wait();
            unfired = timer.stop().expect("not inside a handler");
        });
        let returned = ids(&unfired);
        for (id, won) in won.iter().enumerate() {
            let returned = returned.get(&(id as u64)).copied().unwrap_or(0);
            let ends = u64::from(*won) + returned;
            assert_eq!(ends, 1, "round {round}, timer {id}: cancelled {won}, returned {returned}");
        }
        drop((unfired, timer));
        ledger.assert_all_dropped();
    }
}

#[test]
fn a_periodic_timer_that_begins_while_the_engine_stops_is_returned_or_refused() {
    let ledger = Ledger::of_payloads();
    for round in 0..stress(300) {
        let timer = engine();
        timer.start().expect("it can be started");
        let gate = Barrier::new(2);
        let (mut accepted, mut unfired) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gate.wait();
                let begin = |id| timer.schedule_periodic(HOUR, hourly(), ledger.payload(id));
                accepted = (0..TIMERS).map(|id| begin(id).is_ok()).collect();
            });
            gate.wait();
            unfired = timer.stop().expect("not inside a handler");
        });
        let returned = ids(&unfired);
        for (id, accepted) in accepted.iter().enumerate() {
            let returned = returned.get(&(id as u64)).copied().unwrap_or(0);
            assert_eq!(returned, u64::from(*accepted), "round {round}, timer {id}: {accepted}");
        }
        drop((unfired, timer));
        ledger.assert_all_dropped();
    }
}
