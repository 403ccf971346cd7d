//! What a million cancelled one-hour timers leave behind: next to nothing, at any moment.

use crate::support::setup::{
    HOUR, ZOMBIE_CONSTANT, one_shard, recording, secs, stress, wait_until,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tickwheel::Key;

/// Far below what the cancelled timers would hold: 24 bytes of node and 16 of entry each.
const MOST_BYTES: u64 = 12 << 20;

/// Each producer cancels the oldest of its live timers and schedules another, again and again.
#[test]
fn a_million_cancelled_hour_long_timers_hold_bounded_memory() {
    for (producers, each) in [(1, 30_000), (1, 1), (3, 5_000)] {
        let (timer, _fired) = recording(one_shard());
        let live = producers * each;
        let check = || {
            let shard = &timer.stats().shards[0];
            let bound = 2 * live + ZOMBIE_CONSTANT;
            assert!(
                shard.entries <= bound,
                "{} entries for {live} timers",
                shard.entries
            );
            assert!(
                shard.held_bytes <= MOST_BYTES,
                "{} bytes held",
                shard.held_bytes
            );
        };
        let churn = || {
            let mut keys: VecDeque<Key<u64>> = (0..each)
                .map(|id| timer.schedule(HOUR, id).unwrap())
                .collect();
            for n in 0..stress(500_000) / producers {
                keys.push_back(timer.schedule(HOUR, n).unwrap());
                assert!(timer.cancel(keys.pop_front().unwrap()).is_won());
                if n % 1_000 == 0 {
                    check();
                }
            }
        };
        std::thread::scope(|scope| (0..producers).for_each(|_| _ = scope.spawn(churn)));
        timer.schedule(Duration::ZERO, 0).unwrap();
        wait_until("the inbox is read", || timer.pending() as u64 == live);
        check();
        let shard = &timer.stats().shards[0];
        assert!(
            shard.swept + shard.cancelled_in_inbox > 300_000,
            "they have died somewhere"
        );
        assert_eq!(timer.stop().unwrap().len() as u64, live);
    }
}

#[test]
fn a_cancel_storm_wakes_a_worker_that_would_sleep_for_an_hour() {
    const TIMERS: u64 = 200_000;
    for by_handle in [false, true] {
        let (timer, _fired) = recording(one_shard());
        let handles: Vec<_> = (0..TIMERS)
            .map(|id| timer.schedule_handle(HOUR, id).unwrap())
            .collect();
        timer.schedule(Duration::ZERO, 0).unwrap();
        wait_until("all are filed", || {
            timer.stats().shards[0].entries == TIMERS
        });
        let before = timer.stats().shards[0].held_bytes;
        for handle in handles {
            let cancel = if by_handle {
                handle.cancel()
            } else {
                timer.cancel(handle.detach())
            };
            assert!(cancel.is_won());
        }
        // Nothing else is scheduled, no time passes to speak of.
        wait_until("they are swept", || {
            timer.stats().shards[0].entries <= ZOMBIE_CONSTANT
        });
        assert!(timer.stats().shards[0].swept >= TIMERS - ZOMBIE_CONSTANT);
        // Only Linux takes the nodes' memory as well.
        let most = if cfg!(target_os = "linux") {
            before / 2
        } else {
            before - (1 << 20)
        };
        let start = Instant::now();
        wait_until("memory has gone back", || {
            timer.stats().shards[0].held_bytes < most
        });
        assert!(start.elapsed() < secs(3), "{:?}", start.elapsed());
        assert_eq!(timer.stop().unwrap().len(), 0);
    }
}
