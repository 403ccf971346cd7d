//! After a burst the memory of its timers goes back to the system, and none of its keys ever means anything again.

use crate::support::random::Random;
use crate::support::setup::{HOUR, secs};
#[cfg(target_os = "linux")]
use crate::support::system::takes_pages_back;
use crate::{by_hand, engine};
use std::collections::HashSet;
use std::time::Duration;
use tickwheel::{Builder, EventLoopTimer, Expired, Key, ManualClock, Settings, Time, Timer};

#[cfg(not(target_os = "linux"))]
fn takes_pages_back() -> bool {
    false
}

fn schedule(timer: &Timer<u64>, count: u64) -> Vec<Key<u64>> {
    (0..count)
        .map(|n| timer.schedule(HOUR, n).unwrap())
        .collect()
}

fn cancel_all(timer: &Timer<u64>, keys: &[Key<u64>]) {
    for key in keys {
        assert!(timer.cancel(*key).is_won());
    }
}

fn held(timer: &Timer<u64>) -> u64 {
    timer.stats().shards[0].held_bytes
}

fn assert_stale(timer: &Timer<u64>, keys: &[Key<u64>]) {
    for key in keys {
        assert!(
            !timer.is_pending(*key) && timer.deadline(*key).is_none(),
            "{key} came alive"
        );
        assert!(
            !timer.reschedule(*key, Duration::ZERO).is_moved(),
            "{key} was moved"
        );
        assert!(!timer.cancel(*key).is_won(), "{key} was cancelled");
    }
}

/// Turns an engine once more when what a burst has used has been kept for long enough.
fn turn_later(timer: &Timer<u64>, clock: &ManualClock) {
    _ = clock.advance(secs(2));
    assert_eq!(timer.turn(), Ok(0));
}

/// Three bursts on the same nodes, whose memory is given back in between.
#[test]
fn keys_stay_stale_when_their_nodes_come_back_from_the_system() {
    let _alone = crate::alone();
    const BURST: u64 = 200_000;
    let clock = ManualClock::new();
    let timer = engine(&clock);
    let mut stale: Vec<Key<u64>> = Vec::new();
    for round in 0..3 {
        let keys = schedule(&timer, BURST);
        assert_eq!(timer.turn(), Ok(0));
        assert_stale(&timer, &stale);
        assert!(
            keys.iter().all(|key| timer.is_pending(*key)),
            "the stale keys touched nobody"
        );
        let full = held(&timer);
        cancel_all(&timer, &keys);
        assert_eq!(timer.turn(), Ok(0));
        assert!(held(&timer) >= full, "another burst may come");
        turn_later(&timer, &clock);
        if takes_pages_back() {
            assert!(
                held(&timer) < full / 2,
                "{} of {full} bytes are held",
                held(&timer)
            );
        }
        assert_stale(&timer, &keys);
        stale.extend(keys);
        let distinct: HashSet<_> = stale.iter().collect();
        assert_eq!(
            distinct.len() as u64,
            (round + 1) * BURST,
            "no key is handed out twice"
        );
    }
}

/// A turn knows ticks only.
#[test]
fn memory_of_a_burst_is_kept_until_the_next_tick_where_ticks_are_long() {
    let _alone = crate::alone();
    let clock = ManualClock::new();
    let builder = by_hand(&clock).tick(secs(10));
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    let keys = schedule(&timer, 200_000);
    assert_eq!(timer.turn(), Ok(0));
    let full = held(&timer);
    cancel_all(&timer, &keys);
    assert_eq!(timer.turn(), Ok(0));
    clock.set(Time::ZERO + secs(9));
    assert_eq!(timer.turn(), Ok(0));
    assert!(held(&timer) >= full, "another burst may come");
    clock.set(Time::ZERO + secs(10));
    assert_eq!(timer.turn(), Ok(0));
    if takes_pages_back() {
        assert!(held(&timer) < full / 2, "{} of {full}", held(&timer));
    }
}

/// A second burst takes most of what the first one has left, but not all of it: both are kept from the second one on.
#[test]
fn memory_of_a_burst_is_kept_anew_where_a_smaller_one_has_used_it() {
    let _alone = crate::alone();
    let clock = ManualClock::new();
    let timer = engine(&clock);
    let turn_at = |millis: u64| {
        clock.set(Time::ZERO + Duration::from_millis(millis));
        assert_eq!(timer.turn(), Ok(0));
    };
    let mut full = 0;
    for (burst, at) in [(300_000, 0), (200_000, 600)] {
        turn_at(at);
        let keys = schedule(&timer, burst);
        turn_at(at + 10);
        full = held(&timer).max(full);
        cancel_all(&timer, &keys);
        turn_at(at + 20);
    }
    turn_at(1500);
    assert!(held(&timer) >= full, "{} of {full}", held(&timer));
    turn_at(1700);
    if takes_pages_back() {
        assert!(held(&timer) < full / 2, "{} of {full}", held(&timer));
    }
}

/// What is kept after a burst counts in bytes where payloads are large.
#[test]
fn memory_of_large_payloads_is_given_back_as_well() {
    let _alone = crate::alone();
    const BURST: usize = 20_000;
    let clock = ManualClock::new();
    let builder = by_hand(&clock);
    let timer = builder.build_with(|_: Expired<[u8; 4096]>| ()).unwrap();
    let keys: Vec<_> = (0..BURST)
        .map(|_| timer.schedule(HOUR, [1; 4096]).unwrap())
        .collect();
    let held = || timer.stats().shards[0].held_bytes;
    assert!(
        held() > 4096 * BURST as u64,
        "nodes count before the first turn"
    );
    assert_eq!(timer.turn(), Ok(0));
    let full = held();
    assert!(full > 4096 * BURST as u64);
    assert!(keys.iter().all(|key| timer.cancel(*key).is_won()));
    assert_eq!(timer.turn(), Ok(0));
    _ = clock.advance(secs(2));
    assert_eq!(timer.turn(), Ok(0));
    if takes_pages_back() {
        assert!(held() < 16 << 20, "{} of {full} bytes are held", held());
    }
}

/// What remotes have used goes back by polls, what the loop itself has by `shrink_to_fit`.
#[test]
fn memory_of_a_loops_large_payloads_is_given_back_after_a_clear() {
    let _alone = crate::alone();
    for remotely in [true, false] {
        let settings = Settings::new().clock(ManualClock::new());
        let mut timer = EventLoopTimer::<[u8; 4096]>::with_waker(settings, || ()).unwrap();
        let remote = timer.remote();
        for _ in 0..10_000 {
            if remotely {
                remote.schedule(HOUR, [1; 4096]).unwrap();
            } else {
                timer.schedule(Time::ZERO, HOUR, [1; 4096]).unwrap();
            }
        }
        let poll_all = |timer: &mut EventLoopTimer<_>| while timer.poll(Time::ZERO, |_| ()).more {};
        poll_all(&mut timer);
        let full = timer.held_bytes();
        timer.clear();
        poll_all(&mut timer);
        while timer.poll(Time::ZERO + secs(2), |_| ()).more {}
        if !remotely {
            assert!(
                timer.held_bytes() > full / 2,
                "it is kept for the next burst"
            );
            timer.shrink_to_fit();
        }
        if takes_pages_back() || !remotely {
            let held = timer.held_bytes();
            assert!(held < full / 2, "{held} of {full}");
        }
    }
}

/// The loop's own pending timers, and their entries, do not keep the memory of its remotes' timers.
#[test]
fn memory_of_remotes_is_given_back_beside_many_timers_of_the_loop() {
    const BURST: u64 = 200_000;
    let _alone = crate::alone();
    let settings = Settings::new().clock(ManualClock::new());
    let mut timer = EventLoopTimer::<u64>::with_waker(settings, || ()).unwrap();
    let remote = timer.remote();
    let poll_all = |timer: &mut EventLoopTimer<_>, at: Time| while timer.poll(at, |_| ()).more {};
    for id in 0..2 * BURST {
        timer.schedule(Time::ZERO, HOUR, id).unwrap();
    }
    poll_all(&mut timer, Time::ZERO);
    let alone = timer.held_bytes();
    let keys: Vec<_> = (0..BURST)
        .map(|id| remote.schedule(HOUR, id).unwrap())
        .collect();
    assert!(keys.into_iter().all(|key| remote.cancel(key).is_won()));
    poll_all(&mut timer, Time::ZERO);
    let burst = timer.held_bytes() - alone;
    poll_all(&mut timer, Time::ZERO + secs(2));
    if takes_pages_back() {
        let left = timer.held_bytes().saturating_sub(alone);
        assert!(left < burst / 2, "{left} of {burst} bytes are left");
    }
}

/// The second one is over before the memory of the first has been given back.
#[test]
fn a_short_burst_within_a_trim_keeps_no_memory() {
    let _alone = crate::alone();
    if !takes_pages_back() {
        return;
    }
    let settings = Settings::new().clock(ManualClock::new());
    let mut timer = EventLoopTimer::<[u8; 4096]>::with_waker(settings, || ()).unwrap();
    let burst = |timer: &EventLoopTimer<_>, timers| {
        let remote = timer.remote();
        (0..timers).for_each(|_| _ = remote.schedule(HOUR, [1; 4096]).unwrap());
    };
    let poll_all = |timer: &mut EventLoopTimer<_>| while timer.poll(Time::ZERO, |_| ()).more {};
    burst(&timer, 10_000);
    poll_all(&mut timer);
    timer.clear();
    poll_all(&mut timer);
    let (full, later) = (timer.held_bytes(), Time::ZERO + secs(2));
    // Until the first region has gone, all other free nodes are in the owner's hands.
    while timer.held_bytes() + (1 << 20) > full {
        assert!(timer.poll(later, |_| ()).more);
    }
    burst(&timer, 5_500);
    timer.clear();
    for more in 2..6 {
        while timer.poll(Time::ZERO + secs(more), |_| ()).more {}
    }
    let held = timer.held_bytes();
    assert!(held < full / 2, "{held} of {full}");
}

#[cfg(target_os = "linux")]
mod resident {
    use super::*;
    use crate::allocator::refusing_from;
    use crate::children::in_a_process_of_its_own;
    use crate::churn;
    use crate::support::setup::ms;
    use rustix::param::page_size;
    use std::time::Instant;

    /// Five million take a debug build too long.
    const BURST: u64 = if cfg!(debug_assertions) {
        1_000_000
    } else {
        5_000_000
    };

    const PIECE: usize = 16 * 1024;

    /// Kilobytes of the process that lie in memory.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// What goes back lies between living timers, a region at a time: each of those keeps its payload.
    #[test]
    fn timers_beside_memory_that_goes_back_live_on() {
        /// Nodes that go back together.
        const REGION: u64 = 512;
        /// Nodes that the first one lacks.
        const LACKING: u64 = 64;
        if page_size() != 4096 || !takes_pages_back() {
            return;
        }
        let _alone = crate::alone();
        let clock = ManualClock::new();
        let timer = engine(&clock);
        let keys = schedule(&timer, 400 * REGION);
        assert_eq!(timer.turn(), Ok(0));
        let full = held(&timer);
        let lives = |n: &u64| n % 16 == 0 && matches!((n + LACKING) / REGION % 10, 0 | 2);
        let (living, ended): (Vec<_>, Vec<_>) =
            keys.into_iter().zip(0..).partition(|(_, n)| lives(n));
        let ended: Vec<_> = ended.into_iter().map(|(key, _)| key).collect();
        cancel_all(&timer, &ended);
        assert_eq!(timer.turn(), Ok(0));
        turn_later(&timer, &clock);
        assert!(held(&timer) < full / 5 * 4, "{} of {full}", held(&timer));
        for (key, n) in living {
            assert_eq!(timer.cancel(key).into_payload(), Some(n));
        }
    }

    /// What a trim needs itself is refused for a while.
    #[test]
    fn a_burst_goes_although_there_was_no_memory_at_its_end() {
        if !takes_pages_back()
            || in_a_process_of_its_own(a_burst_goes_although_there_was_no_memory_at_its_end, &[])
        {
            return;
        }
        let clock = ManualClock::new();
        let timer = engine(&clock);
        let keys = schedule(&timer, 200_000);
        let full = held(&timer);
        cancel_all(&timer, &keys);
        for _ in 0..2 {
            assert_eq!(refusing_from(4096, || timer.turn()), Ok(0));
            _ = clock.advance(secs(2));
        }
        assert!(held(&timer) >= full);
        (0..3).for_each(|_| turn_later(&timer, &clock));
        assert!(held(&timer) < full / 2, "{} of {full}", held(&timer));
    }

    #[test]
    fn a_burst_leaves_at_most_a_quarter_of_its_memory() {
        if takes_pages_back()
            && !in_a_process_of_its_own(a_burst_leaves_at_most_a_quarter_of_its_memory, &[])
        {
            burst(25, |_| ());
        }
    }

    #[test]
    fn a_burst_that_is_cancelled_at_random_leaves_at_most_a_third_of_its_memory() {
        let this = a_burst_that_is_cancelled_at_random_leaves_at_most_a_third_of_its_memory;
        if takes_pages_back() && !in_a_process_of_its_own(this, &[]) {
            // Two threads' magazines keep 248 rows of nodes, an eighth of a million.
            burst(33, |keys| {
                let mut random = Random::new(7);
                for at in (1..keys.len()).rev() {
                    keys.swap(at, random.below(at as u64 + 1) as usize);
                }
            });
        }
    }

    fn burst(most_left: u64, order: impl FnOnce(&mut Vec<Key<u64>>)) {
        let timer: Timer<u64> = Builder::new()
            .shards(1)
            .build_with(|_: Expired<u64>| ())
            .unwrap();
        // The keys are not what this is about: their memory is there before.
        let first = timer.schedule(HOUR, 0).unwrap();
        let mut keys = vec![first; BURST as usize];
        timer.wait_idle();
        let before = resident();
        // In pieces, so that what waits in the inbox does not depend on when the worker gets a processor.
        for piece in keys.chunks_mut(PIECE) {
            for key in piece {
                *key = timer.schedule(HOUR, 0).unwrap();
            }
            timer.wait_idle();
        }
        let full = resident();
        order(&mut keys);
        cancel_all(&timer, &keys);
        let growth = full - before;
        // What each thread's last cancels leave does not wake the worker.
        timer.wait_idle();
        let start = Instant::now();
        let left = loop {
            let left = resident().saturating_sub(before);
            if left <= growth * most_left / 100 || start.elapsed() > secs(20) {
                break left;
            }
            std::thread::sleep(ms(5));
        };
        assert!(start.elapsed() < secs(3), "after {:?}", start.elapsed());
        let held = held(&timer) / 1024;
        println!("resident: grew by {growth} KiB for {BURST} timers, {left} are left, {held} held");
        assert!(
            left <= growth * most_left / 100,
            "{left} of {growth} KiB are left"
        );
        assert!(
            timer.cancel(first).is_won(),
            "what lived through it all lives"
        );
    }

    #[test]
    fn a_backlog_of_messages_leaves_at_most_a_quarter_of_its_memory() {
        let this = a_backlog_of_messages_leaves_at_most_a_quarter_of_its_memory;
        if !takes_pages_back() || in_a_process_of_its_own(this, &[]) {
            return;
        }
        let timer = engine(&ManualClock::new());
        churn(&timer, 100_000);
        assert_eq!(timer.turn(), Ok(0));
        let before = resident();
        churn(&timer, 2_000_000);
        let growth = resident() - before;
        // Lies behind all of it, so that the allocator cannot shrink its heap.
        let last = vec![7; 10_000];
        assert_eq!(timer.turn(), Ok(0));
        let left = resident().saturating_sub(before);
        println!("resident: grew by {growth} KiB for two million messages, {left} are left");
        assert!(growth > 13_000, "a word per message");
        assert!(left <= growth / 4, "{left} of {growth} KiB are left");
        assert!(last.iter().all(|byte| *byte == 7));
    }
}
