//! Real time: woken in time, and asleep while there is nothing to do.

use crate::support::setup::{Fired, HOUR, ms, one_shard, recording, secs, us, wait_until};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tickwheel::{Expired, IdleStrategy, Key, Timer, WheelKind};

const IDLE: [IdleStrategy; 3] = [
    IdleStrategy::Park,
    IdleStrategy::SpinThenPark { spin: Duration::from_micros(200) },
    IdleStrategy::BusySpin,
];

#[test]
fn an_earlier_timer_ends_the_sleep() {
    for idle in IDLE {
        let (sender, receiver) = channel();
        let handler = move |expired: Expired<u64>| sender.send(expired.payload).unwrap();
        let timer = one_shard().tick(us(100)).idle(idle).build_with(handler).unwrap();
        timer.schedule(HOUR, 0).unwrap();
        std::thread::sleep(ms(5));
        let start = Instant::now();
        timer.schedule(ms(2), 1).unwrap();
        let fired = receiver.recv_timeout(secs(20));
        assert_eq!(fired, Ok(1), "the worker slept on: {idle:?}");
        assert!(start.elapsed() >= ms(2));
        // As early as that, but by moving a timer that the worker has filed far away.
        let far = timer.schedule(HOUR, 2).unwrap();
        std::thread::sleep(ms(2));
        assert!(far.reschedule(ms(1)).moved());
        assert_eq!(receiver.recv_timeout(secs(20)), Ok(2), "{idle:?}");
        assert_eq!(timer.stop().unwrap().len(), 1);
    }
}

#[test]
fn an_idle_engine_does_not_wake_up() {
    const TIMERS: u64 = 100_000;
    let engines: Vec<(Timer<u64>, Fired)> =
        [(us(50), WheelKind::Hierarchical), (ms(1), WheelKind::Hashed { buckets: 512 })]
            .into_iter()
            .map(|(tick, wheel)| recording(one_shard().tick(tick).wheel(wheel)))
            .collect();
    for (timer, _) in &engines {
        for id in 0..TIMERS {
            timer.schedule_key(HOUR + us(id), id).unwrap();
        }
        timer.schedule_key(Duration::ZERO, TIMERS).unwrap();
        wait_until("all timers are filed", || timer.stats().shards[0].entries == TIMERS);
        timer.wait_idle();
    }
    let rounds = |(timer, _): &(Timer<u64>, Fired)| {
        let shard = timer.stats().shards[0].clone();
        [shard.turns, shard.parks, shard.wakes]
    };
    let before: Vec<_> = engines.iter().map(rounds).collect();
    // Ticks by the hundred.
    std::thread::sleep(ms(300));
    for (engine, before) in engines.iter().zip(before) {
        let after = rounds(engine);
        // On a busy machine the worker may still have been on its way to sleep at the first look.
        let each = after.iter().zip(before).all(|(after, before)| after - before <= 1);
        assert!(each, "turns, parks and wakes with nothing to do: {before:?}, then {after:?}");
    }
    for (timer, fired) in &engines {
        assert_eq!(fired.len(), 1);
        assert_eq!(timer.stop().unwrap().len() as u64, TIMERS);
    }
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
        let keys: Vec<Key<u64>> =
            (0..500).map(|id| timer.schedule_key(2 * HOUR, id).unwrap()).collect();
        for key in keys {
            assert!(timer.reschedule(key, 3 * HOUR).moved());
            assert!(timer.cancel(key).won());
        }
        std::thread::sleep(ms(2));
    }
    let after = timer.stats().shards[0].clone();
    let few = after.wakes - before.wakes <= 1 && after.turns - before.turns <= 1;
    assert!(few, "the first timer's may have been under way, {before:?}, then {after:?}");
    timer.stop().unwrap();
}
