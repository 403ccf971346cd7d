//! What a million cancelled one-hour timers leave behind: next to nothing, at any moment.

use crate::support::setup::{HOUR, ZOMBIE_CONSTANT, one_shard, recording, stress, wait_until};
use std::collections::VecDeque;
use std::time::Duration;
use tickwheel::{Key, Timer, WheelKind};

/// Far below what the cancelled timers would hold: 24 bytes of node and 16 of entry each.
const MOST_BYTES: u64 = 12 << 20;

/// Cancels the oldest of `live` timers and schedules another, again and again.
fn churn(timer: &Timer<u64>, live: u64, pairs: u64) {
    let mut keys: VecDeque<Key<u64>> =
        (0..live).map(|id| timer.schedule_key(HOUR, id).unwrap()).collect();
    for n in 0..pairs {
        keys.push_back(timer.schedule_key(HOUR, n).unwrap());
        assert!(timer.cancel(keys.pop_front().unwrap()).won());
        if n % 1_000 == 0 {
            let shard = &timer.stats().shards[0];
            let bound = 2 * live + ZOMBIE_CONSTANT;
            assert!(shard.entries <= bound, "{} entries for {live} timers", shard.entries);
            assert!(shard.held_bytes <= MOST_BYTES, "{} bytes held", shard.held_bytes);
        }
    }
    assert_eq!(timer.pending() as u64, live);
}

#[test]
fn a_million_cancelled_hour_long_timers_hold_bounded_memory() {
    for (wheel, live) in
        [(WheelKind::Hierarchical, 30_000), (WheelKind::Hashed { buckets: 512 }, 1)]
    {
        let (timer, _fired) = recording(one_shard().wheel(wheel));
        churn(&timer, live, stress(500_000));
        timer.schedule(Duration::ZERO, 0).unwrap();
        wait_until("the inbox is read", || timer.pending() as u64 == live);
        let shard = &timer.stats().shards[0];
        assert!(shard.swept + shard.cancelled_in_inbox > 300_000, "they have died somewhere");
        timer.stop().unwrap();
    }
}

#[test]
fn several_producers_zombies_are_bounded_as_well() {
    const LIVE: u64 = 5_000;
    let (timer, _fired) = recording(one_shard());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut keys: VecDeque<Key<u64>> =
                    (0..LIVE).map(|id| timer.schedule_key(HOUR, id).unwrap()).collect();
                for n in 0..stress(100_000) {
                    keys.push_back(timer.schedule_key(HOUR, n).unwrap());
                    assert!(timer.cancel(keys.pop_front().unwrap()).won());
                }
            });
        }
        scope.spawn(|| {
            while timer.pending() < 3 * LIVE as usize || timer.stats().cancelled() < 250_000 {
                let shard = &timer.stats().shards[0];
                assert!(shard.entries <= 6 * LIVE + ZOMBIE_CONSTANT, "{}", shard.entries);
                assert!(shard.held_bytes <= MOST_BYTES, "{} bytes held", shard.held_bytes);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    });
    assert_eq!(timer.stop().unwrap().len() as u64, 3 * LIVE);
}

#[test]
fn a_cancel_storm_wakes_a_worker_that_would_sleep_for_an_hour() {
    const TIMERS: u64 = 200_000;
    for wheel in [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 64 }] {
        let (timer, _fired) = recording(one_shard().wheel(wheel));
        let keys: Vec<Key<u64>> =
            (0..TIMERS).map(|id| timer.schedule_key(HOUR, id).unwrap()).collect();
        timer.schedule(Duration::ZERO, 0).unwrap();
        wait_until("all are filed", || timer.stats().shards[0].entries == TIMERS);
        let before = timer.stats().shards[0].held_bytes;
        for key in keys {
            assert!(timer.cancel(key).won());
        }
        // Nothing else is scheduled, no time passes to speak of.
        wait_until("they are swept", || timer.stats().shards[0].entries <= ZOMBIE_CONSTANT);
        let shard = &timer.stats().shards[0];
        assert!(shard.swept >= TIMERS - ZOMBIE_CONSTANT);
        assert!(shard.held_bytes < before, "the wheel gives memory back");
        assert_eq!(timer.stop().unwrap().len(), 0);
    }
}
