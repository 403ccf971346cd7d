//! A worker calls the allocator neither in the steady state nor under overload: a thread that stops inside the
//! allocator, with the lock of an arena, stops no worker. A producer calls it seldom.

use crate::allocator::{
    calls, expect_a_stop, go_on, has_stopped, stop_at_the_next_call, wait_for_whoever_has_stopped,
};
use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, rate, us, wait_until};
use crate::{churn, engine, holds_soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tickwheel::{Builder, Expired, ManualClock, Timer};

/// Timers scheduled and cancelled by so many threads, each of which keeps `alive` of them; the worker has read all that
/// there is.
fn produce(timer: &Timer<u64>, producers: u64, pairs: u64, alive: usize, paced: bool) {
    let produce = |producer: u64| {
        let mut random = Random::new(producer + 1);
        let mut keys = Vec::new();
        for n in 0..pairs / producers {
            keys.push(timer.schedule(HOUR, n).unwrap());
            if keys.len() > alive {
                let at = random.below(keys.len() as u64) as usize;
                assert!(timer.cancel(keys.swap_remove(at)).is_won());
            }
            if paced && n % 1000 == 0 {
                std::thread::sleep(ms(1));
            }
        }
        keys.into_iter()
            .for_each(|key| assert!(timer.cancel(key).is_won()));
    };
    let produce = &produce;
    std::thread::scope(|scope| {
        (0..producers).for_each(|producer| _ = scope.spawn(move || produce(producer)));
    });
    let fired = timer.schedule_handle(Duration::ZERO, 0).unwrap();
    wait_until("it has fired", || !fired.is_pending());
    timer.wait_idle();
}

/// What is alive swings: each round begins and ends with nothing, the one before the count with more than the others.
#[test]
fn a_worker_does_not_call_the_allocator() {
    let _alone = crate::alone();
    for (producers, pairs, paced) in [
        (3, 300_000, true),
        (1, 2_000_000, false),
        (3, 2_000_000, false),
    ] {
        for alive in [0, 500, 20_000] {
            // Told whenever a timer fires.
            let on_worker = Arc::new(AtomicU64::new(0));
            let told = Arc::clone(&on_worker);
            let tell = move |_: Expired<u64>| told.store(calls(), Ordering::Relaxed);
            let timer = Builder::new().shards(1).build_with(tell).unwrap();
            timer
                .schedule_periodic(Duration::ZERO, rate(ms(1)), 0)
                .unwrap();
            produce(&timer, 3, 200_000, 2 * alive + 3000, false);
            produce(&timer, producers, pairs / 10, alive, paced);
            let before = on_worker.load(Ordering::Relaxed);
            produce(&timer, producers, pairs, alive, paced);
            let after = on_worker.load(Ordering::Relaxed);
            assert_eq!(
                after - before,
                0,
                "{producers} producers, {alive} timers alive for each"
            );
        }
    }
}

/// Blocks of the inbox serve again.
#[test]
fn a_producer_seldom_calls_the_allocator() {
    let _alone = crate::alone();
    let timer = engine(&ManualClock::new());
    let pairs_and_turns = || {
        for _ in 0..300 {
            churn(&timer, 1000);
            timer.turn().unwrap();
        }
    };
    pairs_and_turns();
    let before = calls();
    pairs_and_turns();
    let made = calls() - before;
    assert!(made < 100, "{made} calls for 300 000 pairs");
}

/// The worker shares its arena with a producer that stops in there, where it gets memory or gives some back.
#[test]
fn a_producer_that_stops_in_the_allocator_stops_no_worker() {
    let _alone = crate::alone();
    for call in 0..16 {
        let fired = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&fired);
        let handler = move |_: Expired<u64>| {
            wait_for_whoever_has_stopped();
            count.fetch_add(1, Ordering::Relaxed);
        };
        let timer = Builder::new().shards(1).build_with(handler).unwrap();
        // The worker knows its arena, and blocks go round, before anybody stops.
        timer.schedule(Duration::ZERO, 0).unwrap();
        wait_until("it has fired", || fired.load(Ordering::Relaxed) == 1);
        churn(&timer, 20_000);
        let done = AtomicBool::new(false);
        expect_a_stop();
        let all_fired = std::thread::scope(|scope| {
            scope.spawn(|| {
                churn(&timer, 100_000);
                stop_at_the_next_call(call);
                while !done.load(Ordering::Relaxed) {
                    churn(&timer, 1000);
                }
            });
            let stops = holds_soon(has_stopped);
            for _ in 0..20 {
                timer.schedule(us(300), 0).unwrap();
                churn(&timer, 5000);
            }
            let all_fired = holds_soon(|| fired.load(Ordering::Relaxed) == 21);
            done.store(true, Ordering::Relaxed);
            go_on();
            stops && all_fired
        });
        assert!(
            all_fired,
            "beside a producer that stands in its call number {call}"
        );
    }
}
