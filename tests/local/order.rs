//! The order in which a `LocalTimer` fires: by deadlines, and within a tick in the order of scheduling, whether
//! an entry has been in the log, in which ring of the wheel, or in both.

use crate::support::random::Random;
use std::collections::VecDeque;
use std::time::Duration;
use tickwheel::{Key, Settings, Time};

const MS: u64 = 1_000_000;

/// What is pending, oldest first: key, deadline in ticks, number.
type Pending = VecDeque<(Key<u64>, u64, u64)>;

/// Keeps about `population` timers for `ticks` ticks and checks every one that fires.
fn run(population: usize, ticks: u64, seed: u64) {
    let mut timer = Settings::new().build_local().unwrap();
    let mut random = Random::new(seed);
    let (mut pending, mut number) = (Pending::new(), 0);
    let (mut fired_in_all, mut cancelled) = (0, 0);
    for now in 1..=ticks {
        let time = Time::from_nanos(now * MS);
        while pending.len() < population {
            // Round deadlines, so that many timers share a tick though they were scheduled far apart.
            let delay = match random.below(4) {
                0 => 1 + random.below(70),
                1 => 200 - now % 200,
                2 => 1_000 - now % 1_000,
                _ => 1 + random.below(3_000),
            };
            let key = timer
                .schedule(time, Duration::from_millis(delay), number)
                .unwrap();
            pending.push_back((key, now + delay, number));
            number += 1;
        }
        for _ in 0..random.below(1 + population as u64 / 8) {
            let (key, _, payload) = pending
                .remove(random.below(pending.len() as u64) as usize)
                .unwrap();
            assert_eq!(timer.cancel(key).into_payload(), Some(payload));
            cancelled += 1;
        }
        // Sometimes late, so that several ticks are due at once.
        if random.below(3) != 0 {
            let mut fired = Vec::new();
            while timer
                .poll(time, |expired| fired.push((expired.key, expired.payload)))
                .more
            {}
            let mut due: Vec<_> = pending
                .iter()
                .filter(|(_, deadline, _)| *deadline <= now)
                .collect();
            due.sort_by_key(|(_, deadline, number)| (*deadline, *number));
            assert!(
                fired
                    .iter()
                    .copied()
                    .eq(due.iter().map(|(key, _, number)| (*key, *number)))
            );
            fired_in_all += fired.len();
            pending.retain(|(_, deadline, _)| *deadline > now);
        }
        assert_eq!(timer.pending(), pending.len());
    }
    assert!(
        fired_in_all > population && cancelled > population,
        "{fired_in_all} {cancelled}"
    );
}

#[test]
fn timers_fire_in_the_order_of_deadlines_and_calls() {
    for (seed, population, ticks) in [
        // Few timers, which never leave the log together; a log that grows for its timers; more than a log keeps.
        (1, 40, 20_000),
        (2, 1_500, 3_000),
        (3, 12_000, 400),
    ] {
        run(population, ticks, seed);
    }
}
