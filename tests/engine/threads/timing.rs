//! Real time: never early, woken in time, and asleep while there is nothing to do.

use crate::support::random::Random;
use crate::support::setup::{Fired, HOUR, ms, one_shard, recording, secs, us, wait_until};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{Builder, Clock, Expired, IdleStrategy, Key, MonotonicClock, Timer, WheelKind};

const IDLE: [IdleStrategy; 3] = [
    IdleStrategy::Park,
    IdleStrategy::SpinThenPark { spin: Duration::from_micros(200) },
    IdleStrategy::BusySpin,
];

/// Schedules timers of many delays and checks each against the time before its schedule.
fn none_is_early(builder: Builder, timers: u64, longest: Duration) {
    let clock = MonotonicClock::new();
    let (sender, receiver) = channel();
    let handler = move |expired: Expired<u64>| {
        assert!(expired.deadline <= clock.now(), "the clock itself has not come so far");
        sender.send((expired.payload, Instant::now())).unwrap();
    };
    let timer = builder.clock(clock).build_with(handler).unwrap();
    let mut random = Random::new(timers);
    let mut not_before = Vec::new();
    for id in 0..timers {
        let delay = match id % 4 {
            0 => Duration::from_nanos(random.below(longest.as_nanos() as u64)),
            1 => timer.tick() * random.below(3) as u32,
            2 => ms(random.below(longest.as_millis() as u64)),
            _ => us(random.below(5_000)),
        };
        let before = Instant::now();
        timer.schedule_key(delay, id).unwrap();
        not_before.push(before + delay);
        if id % 64 == 0 {
            std::thread::sleep(us(100));
        }
    }
    for _ in 0..timers {
        let (id, at) = receiver.recv_timeout(secs(20)).expect("no timer is lost");
        let earliest = not_before[id as usize];
        assert!(at >= earliest, "timer {id} fired {:?} early", earliest - at);
    }
    assert_eq!(timer.stats().panics(), 0);
    assert!(timer.stop().unwrap().is_empty());
}

#[test]
fn never_early_at_ticks_of_50_us() {
    for idle in IDLE {
        none_is_early(one_shard().tick(us(50)).idle(idle), 1500, ms(60));
    }
}

#[test]
fn never_early_at_ticks_of_1_ms() {
    for wheel in [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 16 }] {
        none_is_early(one_shard().wheel(wheel), 1500, ms(150));
    }
}

#[test]
fn never_early_at_ticks_of_10_ms() {
    none_is_early(one_shard().tick(ms(10)).shards(2), 1500, ms(150));
}

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

#[test]
fn wait_idle_returns_between_timers_of_a_running_clock() {
    let (timer, fired) = recording(one_shard());
    for id in 0..100 {
        timer.schedule(us(id * 50), id).unwrap();
    }
    std::thread::sleep(ms(7));
    timer.wait_idle();
    assert_eq!(fired.len(), 100);
    timer.stop().unwrap();
}

#[test]
fn lateness_is_measured_from_the_deadline() {
    let late = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&late);
    let clock = MonotonicClock::new();
    let (is_in, first_is_in) = channel();
    let (sender, deadlines) = channel();
    let deadlines = Mutex::new(deadlines);
    let timer = one_shard()
        .clock(clock)
        .build_with(move |expired: Expired<u64>| {
            seen.lock().unwrap().push(expired.lateness);
            if expired.payload == 0 {
                // Holds up the second timer, which is not due in the same turn, by 15 ms.
                is_in.send(()).unwrap();
                let deadline = deadlines.lock().unwrap().recv().unwrap();
                while clock.now() < deadline + ms(15) {
                    std::thread::sleep(ms(1));
                }
            }
        })
        .unwrap();
    timer.schedule(Duration::ZERO, 0).unwrap();
    first_is_in.recv().unwrap();
    sender.send(timer.schedule(ms(10), 1).unwrap().deadline()).unwrap();
    wait_until("both have fired", || late.lock().unwrap().len() == 2);
    assert!(late.lock().unwrap()[1] >= ms(15));
    assert!(timer.stats().lateness().max() >= ms(15));
    timer.stop().unwrap();
}

#[test]
fn nothing_fires_by_itself() {
    let (sender, receiver) = channel();
    let handler = move |expired: Expired<u64>| sender.send(expired.payload).unwrap();
    let timer = one_shard().build_with(handler).unwrap();
    timer.schedule(HOUR, 1).unwrap();
    timer.schedule(Duration::MAX, 2).unwrap();
    assert_eq!(receiver.recv_timeout(ms(50)), Err(RecvTimeoutError::Timeout));
    assert_eq!(timer.stop().unwrap().len(), 2);
}
