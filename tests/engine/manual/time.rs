//! When timers fire: never early at any uptime, after any number of moves, on every shard.

use crate::support::setup::{
    HOUR, each_recording, each_setup_from, ms, one_shard, recording, secs, us,
};
use std::time::Duration;
use tickwheel::{ManualClock, Routing, Time};

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn no_timer_fires_a_nanosecond_early_at_any_tick_or_delay() {
    let delays =
        [Duration::ZERO, NANO, us(1), us(999), ms(1), ms(7) + NANO, ms(64), secs(3), 5 * HOUR];
    for tick in [us(1), us(3), us(50), ms(1), ms(10), ms(512), HOUR] {
        each_setup_from(Time::from_nanos(1_234_567), |at| {
            let (timer, fired) = recording(at.builder().tick(tick));
            for (id, delay) in delays.iter().enumerate() {
                let set = at.clock.now();
                let timeout = timer.schedule(*delay, id as u64).unwrap();
                let due = timeout.deadline();
                if delay.is_zero() {
                    assert!(due <= set);
                } else {
                    assert!(due >= set + *delay, "rounded down: {due:?} for {set:?} + {delay:?}");
                    assert!(due - (set + *delay) < tick, "rounded by more than a tick");
                    at.go_to(&timer, Time::from_nanos(due.as_nanos() - 1));
                    assert!(fired.ids().is_empty() && timeout.is_pending());
                }
                at.go_to(&timer, due);
                assert_eq!(fired.ids(), [id as u64], "tick {tick:?}, delay {delay:?}");
            }
            timer.stop().unwrap();
        });
    }
}

#[test]
fn a_timer_may_be_moved_more_often_than_its_hint_can_count() {
    each_recording(|at, timer, fired| {
        let timeout = timer.schedule(HOUR, 1).unwrap();
        for n in 0..1000 {
            assert!(timeout.reschedule(HOUR - ms(n)).moved());
            if n % 100 == 0 {
                at.wait_idle(&timer);
            }
        }
        at.go_to(&timer, Time::ZERO + (HOUR - ms(1000)));
        assert!(fired.ids().is_empty());
        at.advance(&timer, ms(1));
        assert_eq!(fired.ids(), [1]);
        at.advance(&timer, HOUR);
        assert!(fired.ids().is_empty());
        timer.stop().unwrap();
    });
}

#[test]
fn every_shard_is_idle_before_wait_idle_returns() {
    let clock = ManualClock::new();
    let builder = one_shard().shards(3).routing(Routing::Spread).clock(clock.clone());
    let (timer, fired) = recording(builder);
    for round in 0..200 {
        for id in 0..30 {
            timer.schedule(ms(1 + id % 3), round * 30 + id).unwrap();
        }
        for _ in 0..3 {
            clock.advance(ms(1));
            timer.wait_idle();
            assert_eq!(fired.ids().len(), 10, "in round {round}");
        }
    }
    assert!(timer.stop().unwrap().is_empty());
}
