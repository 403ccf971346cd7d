//! When timers fire: never early, in order, at any uptime and after any jump.

use crate::support::setup::{
    HOUR, Setup, each_recording, each_setup_from, ms, one_shard, secs, sorted, us,
};
use std::time::Duration;
use tickwheel::{ManualClock, Time};

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn no_timer_fires_a_nanosecond_early_at_any_tick_or_delay() {
    let delays =
        [Duration::ZERO, NANO, us(1), us(999), ms(1), ms(7) + NANO, ms(64), secs(3), 5 * HOUR];
    for tick in [us(1), us(3), us(50), ms(1), ms(10), ms(512), HOUR] {
        each_setup_from(Time::from_nanos(1_234_567), |at| {
            let (timer, fired) = crate::support::setup::recording(at.builder().tick(tick));
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
fn a_deadline_is_a_time_and_a_past_one_is_due_at_once() {
    each_setup_from(Time::ZERO + secs(100), |at| {
        let (timer, fired) = at.recording();
        timer.schedule(Time::ZERO, 1).unwrap();
        timer.schedule_key(Time::ZERO + secs(100), 2).unwrap();
        timer.schedule(Time::ZERO + secs(100) + NANO, 3).unwrap();
        at.wait_idle(&timer);
        assert_eq!(fired.ids(), [1, 2]);
        at.advance(&timer, ms(1));
        assert_eq!(fired.ids(), [3]);
        let key = timer.schedule_key(HOUR, 4).unwrap();
        assert!(timer.reschedule(key, Time::ZERO).moved());
        at.wait_idle(&timer);
        assert_eq!(fired.ids(), [4]);
        timer.stop().unwrap();
    });
}

#[test]
fn a_burst_follows_deadline_order_tick_by_tick_and_its_lateness_is_reported() {
    const BURST: u64 = 100_000;
    each_recording(|at, timer, fired| {
        for id in 0..BURST {
            // In the order of scheduling the ticks run backwards.
            timer.schedule(ms(40 - id % 40), id).unwrap();
        }
        at.advance(&timer, ms(45));
        let expired = fired.take();
        assert_eq!(expired.len() as u64, BURST);
        for pair in expired.windows(2) {
            let ordered = (pair[0].deadline, pair[0].payload) < (pair[1].deadline, pair[1].payload);
            assert!(ordered, "{:?} before {:?}", pair[0], pair[1]);
        }
        let lateness = timer.stats().lateness();
        assert_eq!(lateness.count(), BURST);
        assert_eq!(lateness.max(), ms(44));
        assert!(lateness.percentile(0.0) >= ms(5));
        timer.stop().unwrap();
    });
}

#[test]
fn timers_of_one_tick_and_one_thread_fire_in_the_order_they_came() {
    each_recording(|at, timer, fired| {
        for id in 0..1000 {
            timer.schedule(ms(30), id).unwrap();
            if id == 500 {
                at.advance(&timer, NANO);
            }
        }
        at.advance(&timer, ms(31));
        // One nanosecond on, the later half is due a tick later.
        assert_eq!(fired.ids(), (0..1000).collect::<Vec<_>>());
        timer.stop().unwrap();
    });
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
fn several_engines_share_one_clock() {
    let at = Setup::with_workers();
    let engines: Vec<_> = (0..4).map(|_| at.recording()).collect();
    for (n, (timer, _)) in engines.iter().enumerate() {
        timer.schedule(ms(n as u64 + 1), n as u64).unwrap();
    }
    at.clock.advance(ms(2));
    for (n, (timer, fired)) in engines.iter().enumerate() {
        timer.wait_idle();
        let expected = if n < 2 { vec![n as u64] } else { vec![] };
        assert_eq!(fired.ids(), expected);
        timer.stop().unwrap();
    }
}

#[test]
fn every_shard_is_idle_before_wait_idle_returns() {
    let clock = ManualClock::new();
    let builder = one_shard().shards(3).routing(tickwheel::Routing::Spread).clock(clock.clone());
    let (timer, fired) = crate::support::setup::recording(builder);
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

#[test]
fn timers_that_fire_together_all_fire() {
    each_recording(|at, timer, fired| {
        for id in 0..10_000 {
            timer.schedule(us(id), id).unwrap();
        }
        at.advance(&timer, ms(20));
        assert_eq!(sorted(fired.ids()), (0..10_000).collect::<Vec<_>>());
        timer.stop().unwrap();
    });
}
