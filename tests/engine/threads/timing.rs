//! Real time: woken in time, and asleep while there is nothing to do.

use crate::support::setup::{HOUR, ms, one_shard, recording, secs, spread, us, wait_until};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tickwheel::{Drive, Expired, IdleStrategy, Key, ManualClock};

const IDLE: [IdleStrategy; 4] = [
    IdleStrategy::Park,
    IdleStrategy::SpinThenPark {
        spin: Duration::from_micros(200),
    },
    IdleStrategy::SpinThenPark { spin: HOUR },
    IdleStrategy::BusySpin,
];

#[test]
fn an_earlier_timer_ends_the_sleep() {
    for idle in IDLE {
        let (sender, receiver) = channel();
        let handler = move |expired: Expired<u64>| sender.send(expired.payload).unwrap();
        let timer = one_shard()
            .tick(us(100))
            .idle(idle)
            .build_with(handler)
            .unwrap();
        timer.schedule(HOUR, 0).unwrap();
        let spins = match idle {
            IdleStrategy::SpinThenPark { spin } => spin == HOUR,
            idle => idle == IdleStrategy::BusySpin,
        };
        wait_until("the worker sleeps", || spins || timer.stats().parks > 0);
        let start = Instant::now();
        timer.schedule(ms(2), 1).unwrap();
        let fired = receiver.recv_timeout(secs(20));
        assert_eq!(fired, Ok(1), "the worker slept on: {idle:?}");
        assert!(start.elapsed() >= ms(2));
        // As early as that, but by moving a timer that the worker has filed far away.
        let far = timer.schedule(HOUR, 2).unwrap();
        std::thread::sleep(ms(2));
        assert!(timer.reschedule(far, ms(1)).is_moved());
        assert_eq!(receiver.recv_timeout(secs(20)), Ok(2), "{idle:?}");
        assert_eq!(timer.stats().parks == 0, spins, "{idle:?}");
        assert_eq!(timer.stop().unwrap().len(), 1);
    }
}

/// That no timer is left ends a spin in a drain only.
#[test]
fn a_worker_that_spins_takes_no_turn_where_nothing_is_pending() {
    let spinning = IdleStrategy::SpinThenPark { spin: ms(50) };
    let (timer, _fired) = recording(one_shard().idle(spinning));
    timer.start().unwrap();
    wait_until("the worker sleeps", || timer.stats().parks > 0);
    let taken = timer.stats().shards[0].turns;
    assert!(taken <= 2, "{taken} turns");
    timer.stop().unwrap();
}

#[test]
fn a_worker_that_spins_takes_no_turn_before_something_is_due() {
    let spinning = IdleStrategy::SpinThenPark { spin: HOUR };
    let (timer, _fired) = recording(one_shard().idle(spinning));
    timer.schedule(HOUR, 0).unwrap();
    timer.wait_idle();
    let turns = || timer.stats().shards[0].turns;
    let before = turns();
    std::thread::sleep(ms(100));
    let taken = turns() - before;
    assert!(taken <= 2, "{taken} turns; the last one may be under way");
    timer.stop().unwrap();
}

#[test]
fn a_later_timer_does_not_wake_the_worker() {
    let (timer, _fired) = recording(one_shard());
    timer.schedule(HOUR, 0).unwrap();
    timer.wait_idle();
    wait_until("the worker sleeps", || timer.stats().shards[0].parks > 0);
    let before = timer.stats().shards[0].clone();
    for _ in 0..10 {
        // All rounds together are fewer than make the inbox call by itself.
        let keys: Vec<Key<u64>> = (0..500)
            .map(|id| timer.schedule(2 * HOUR, id).unwrap())
            .collect();
        for key in keys {
            assert!(timer.reschedule(key, 3 * HOUR).is_moved());
            assert!(timer.cancel(key).is_won());
        }
        std::thread::sleep(ms(2));
    }
    let after = timer.stats().shards[0].clone();
    let few = after.wakes - before.wakes <= 1 && after.turns - before.turns <= 1;
    assert!(
        few,
        "the first timer's may have been under way, {before:?}, then {after:?}"
    );
    timer.stop().unwrap();
}

#[test]
fn every_shard_is_idle_before_wait_idle_returns() {
    let clock = ManualClock::new();
    let builder = one_shard().shards(3).clock(clock.clone());
    let (timer, fired) = recording(builder);
    for round in 0..200 {
        for id in 0..30 {
            spread(&timer, ms(1 + id % 3), round * 30 + id);
        }
        for _ in 0..3 {
            clock.advance(ms(1));
            timer.wait_idle();
            assert_eq!(fired.ids().len(), 10, "in round {round}");
        }
    }
    assert!(timer.stop().unwrap().is_empty());
}

/// A turn that reads a full inbox first takes longer than its one call, which does nothing.
#[test]
fn the_time_of_a_handler_is_without_that_of_the_inbox() {
    let is_apart = |_| {
        let timer = one_shard()
            .drive(Drive::Manual)
            .on_slow_handler(HOUR, |_| ())
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        timer.schedule(Duration::ZERO, 0).unwrap();
        for id in 0..100_000 {
            timer.schedule(HOUR, id).unwrap();
        }
        let start = Instant::now();
        assert_eq!(timer.turn(), Ok(1));
        let turn = start.elapsed();
        timer.stats().shards[0].handler_time.max() < turn / 4
    };
    // The thread may be kept waiting in the call, but not each time.
    assert!((0..5).any(is_apart));
}
