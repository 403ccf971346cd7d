//! `stop` against producers, turns, handlers and itself; and the engine's end with its last handle.

use crate::support::ledger::{Ends, Ledger};
use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, one_shard, recording, secs, set_of, stress, us, wait_until};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Drive, EngineState, Expired, Pinning, ScheduleErrorKind, Timer, TurnError,
};

const PRODUCERS: u64 = 3;
/// The most timers that one producer schedules in one round.
const EACH: u64 = 300;

/// Schedules in every way, cancels some, until the engine refuses.
fn produce(timer: &Timer<u64>, ledger: &Ledger, producer: u64, seed: u64) {
    let mut random = Random::new(seed);
    let mut held = Vec::new();
    for n in 0..EACH {
        let id = producer * EACH + n;
        let delay = [Duration::ZERO, us(20), ms(1), HOUR][random.below(4) as usize];
        let accepted = if random.chance(50) {
            timer.schedule_key(delay, id).map(|key| held.push(key))
        } else {
            timer.schedule(delay, id).map(|timeout| {
                if random.chance(50) {
                    let cancelled = timeout.cancel().into_payload();
                    cancelled.into_iter().for_each(|id| ledger.cancelled(id));
                }
            })
        };
        if let Err(error) = accepted {
            assert_eq!(*error.kind(), ScheduleErrorKind::Stopped);
            // The refused one, with the payload from the error, and those that were never tried.
            ledger.refused(error.into_payload());
            (n + 1..EACH).for_each(|n| ledger.refused(producer * EACH + n));
            break;
        }
        if !held.is_empty() && random.chance(20) {
            let key = held.swap_remove(random.below(held.len() as u64) as usize);
            timer.cancel(key).into_payload().into_iter().for_each(|id| ledger.cancelled(id));
        }
    }
}

/// One engine, stopped at a random moment while producers are at it.
fn stop_in_the_middle(builder: Builder, turn_by_hand: bool, seed: u64) -> Ends {
    let ledger = Ledger::all_begun(PRODUCERS * EACH);
    let fires = Arc::clone(&ledger);
    let timer = builder.build_with(move |e: Expired<u64>| fires.fired(e.payload)).unwrap();
    let gate = Barrier::new(PRODUCERS as usize + 1);
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let (timer, ledger, gate) = (&timer, &ledger, &gate);
            scope.spawn(move || {
                gate.wait();
                produce(timer, ledger, producer, seed * PRODUCERS + producer);
            });
        }
        if turn_by_hand {
            scope.spawn(|| while timer.turn() != Err(TurnError::Stopped) {});
        }
        gate.wait();
        let pause = us(Random::new(seed).below(250));
        let start = Instant::now();
        while start.elapsed() < pause {
            std::thread::yield_now();
        }
        for unfired in timer.stop().unwrap() {
            ledger.returned(unfired.payload);
        }
    });
    let ends = ledger.check();
    let stats = timer.stats();
    assert_eq!(
        (stats.fired(), stats.cancelled(), stats.returned()),
        (ends.fired, ends.cancelled, ends.returned),
        "the engine's own books agree"
    );
    assert_eq!(stats.scheduled(), ends.fired + ends.cancelled + ends.returned);
    assert_eq!((timer.pending(), stats.pending), (0, 0));
    ends
}

fn add(sum: &mut Ends, ends: Ends) {
    sum.fired += ends.fired;
    sum.cancelled += ends.cancelled;
    sum.returned += ends.returned;
    sum.refused += ends.refused;
}

/// A run in which one way of ending never happened has proved little.
#[test]
fn stop_loses_nothing_while_producers_schedule() {
    let limit = (PRODUCERS * EACH) as usize;
    let with_workers = |seed| Builder::new().shards(1 + seed as usize % 2).pinning(Pinning::Off);
    // A limit that is never reached: its count has to come back to zero all the same.
    let with_a_limit = |_| one_shard().max_pending(limit);
    let by_hand = |_| one_shard().drive(Drive::Manual);
    let race = |rounds, turn_by_hand, builder: &dyn Fn(u64) -> Builder| {
        let mut sum = Ends::default();
        for seed in 1..=stress(rounds) {
            add(&mut sum, stop_in_the_middle(builder(seed).tick(us(10)), turn_by_hand, seed));
        }
        let Ends { fired, cancelled, returned, refused } = sum;
        assert!([fired, cancelled, returned, refused].into_iter().all(|n| n > 0), "{sum:?}");
    };
    race(2_000, false, &with_workers);
    race(300, false, &with_a_limit);
    race(500, true, &by_hand);
}

#[test]
fn each_timer_is_returned_by_one_of_several_stops() {
    for _ in 0..stress(100) {
        let (timer, _fired) = recording(one_shard().shards(2).routing(tickwheel::Routing::Spread));
        for id in 0..100 {
            timer.schedule_key(HOUR, id).unwrap();
        }
        let returned = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let rest = timer.stop().unwrap();
                    assert!(timer.is_stopped());
                    returned.lock().unwrap().extend(rest.into_iter().map(|u| u.payload));
                });
            }
        });
        assert_eq!(set_of(returned.into_inner().unwrap()), (0..100).collect());
        assert!(timer.stop().unwrap().is_empty());
    }
}

#[test]
fn the_workers_start_with_the_first_timer_however_many_threads_schedule_it() {
    for _ in 0..stress(50) {
        let (timer, fired) = recording(one_shard().shards(2));
        assert_eq!(timer.state(), EngineState::Init);
        let gate = Barrier::new(6);
        std::thread::scope(|scope| {
            for id in 0..6 {
                let (timer, gate) = (&timer, &gate);
                scope.spawn(move || {
                    gate.wait();
                    timer.schedule(Duration::ZERO, id).unwrap();
                    assert_eq!(timer.state(), EngineState::Started);
                });
            }
        });
        wait_until("all six have fired", || fired.len() == 6);
        assert_eq!(set_of(fired.ids()), (0..6).collect());
        assert!(timer.stop().unwrap().is_empty());
    }
}

#[test]
fn a_handler_may_stop_another_engine() {
    let (other, _fired) = recording(one_shard());
    other.schedule(HOUR, 1).unwrap();
    let (sender, receiver) = channel();
    let stopper = other.clone();
    let timer = one_shard()
        .build_with(move |_: Expired<u64>| sender.send(stopper.stop().unwrap().len()).unwrap())
        .unwrap();
    timer.schedule(Duration::ZERO, 1).unwrap();
    assert_eq!(receiver.recv_timeout(secs(20)), Ok(1));
    assert!(other.is_stopped() && !timer.is_stopped());
    timer.stop().unwrap();
}

#[test]
fn the_last_handle_may_be_dropped_inside_a_handler() {
    for _ in 0..stress(100) {
        let ledger = Ledger::of_payloads();
        let timer = Builder::new().shards(2).pinning(Pinning::Off).build().unwrap();
        for id in 0..50 {
            let payload = ledger.payload(id);
            timer.run_after(HOUR, move || drop(payload)).unwrap();
        }
        let (last, (let_go, gate)) = (timer.clone(), channel::<()>());
        timer
            .run_after(Duration::ZERO, move || {
                // By now the payload holds the only handle.
                gate.recv().unwrap();
                drop(last);
            })
            .unwrap();
        drop(timer);
        let_go.send(()).unwrap();
        wait_until("every payload is dropped", || ledger.alive() == 0);
    }
}
