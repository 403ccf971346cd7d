//! The first timers of a shard while memory is refused: each one that was accepted fires, and the process lives.
//!
//! Each test has a process of its own, as in `refused`.

use crate::allocator::refusing_from;
use crate::children::in_a_process_of_its_own;
use crate::support::setup::{HOUR, ms, one_shard, rate, secs};
use crate::{by_hand, engine, holds_soon};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tickwheel::{EventLoopTimer, Expired, ManualClock, Settings, Time, Timer};

/// What a thread may have at a time: nothing, small blocks of the inbox, less than the log or the wheel needs.
const ALLOWED: [usize; 4] = [1, 1024, 4 * 1024, 12 * 1024];
/// As many as a shard keeps room for.
const MOST: u64 = 100;

/// Delays in ms of the timer with a number: due before the log keeps them, at the edge of that, each in a bucket of its
/// own, far away, and mixed.
const DELAYS: [fn(u64) -> u64; 6] = [
    |_| 1,
    |n| 60 + n % 9,
    |n| n * 7,
    |n| n * 65_537,
    |_| 3_600_000,
    |n| [3_600_000, 1, 1_000][n as usize % 3],
];
/// When a shard takes its turns, and in the end beyond all delays.
const TURNS: [&[u64]; 3] = [
    &[10_000_000],
    &[0, 1, 70, 2_000, 10_000_000],
    &[1_000, 3_599_000, 10_000_000],
];

/// One way for the first timers to come and go.
#[derive(Clone, Copy, Debug)]
struct Case {
    allowed: usize,
    /// Timers that were scheduled and cancelled with memory: their nodes are free, and a block of the inbox is open.
    before: u64,
    delays: fn(u64) -> u64,
    turns: &'static [u64],
}

impl Case {
    /// Schedules until one is refused; how many were accepted.
    fn accept(&self, mut schedule: impl FnMut(Duration, u64) -> bool) -> usize {
        let accepts = |n: &u64| schedule(ms((self.delays)(*n)), *n);
        (0..MOST).take_while(accepts).count()
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (allowed, before) in ALLOWED.into_iter().zip([1, 7, 60, 200]) {
        for (delays, turns) in DELAYS
            .into_iter()
            .flat_map(|delays| TURNS.into_iter().map(move |turns| (delays, turns)))
        {
            cases.push(Case {
                allowed,
                before,
                delays,
                turns,
            });
        }
    }
    cases
}

fn at(ms_since: u64) -> Time {
    Time::ZERO + ms(ms_since)
}

/// What every thread needs once, wherever it goes.
fn call_for_the_first_time() {
    engine(&ManualClock::new()).schedule(HOUR, 0).unwrap();
}

fn free_nodes_of(timer: &Timer<u64>, before: u64) {
    let keys: Vec<_> = (0..before)
        .map(|n| timer.schedule(HOUR, n).unwrap())
        .collect();
    keys.into_iter()
        .for_each(|key| assert!(timer.cancel(key).is_won()));
}

fn event_loop(case: Case, clock: &ManualClock) -> EventLoopTimer<u64> {
    let settings = Settings::new().clock(clock.clone());
    let mut timer = EventLoopTimer::with_waker(settings, || ()).unwrap();
    let keys: Vec<_> = (0..case.before)
        .map(|n| timer.remote().schedule(HOUR, n).unwrap())
        .collect();
    keys.into_iter()
        .for_each(|key| assert!(timer.cancel(key).is_won()));
    timer
}

#[test]
fn an_engines_first_timers_fire_without_memory() {
    if in_a_process_of_its_own(an_engines_first_timers_fire_without_memory, &[]) {
        return;
    }
    call_for_the_first_time();
    let mut most = 0;
    for case in cases() {
        let clock = ManualClock::new();
        let builder = by_hand(&clock);
        let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
        free_nodes_of(&timer, case.before);
        let (accepted, fired) = refusing_from(case.allowed, || {
            let accepted = case.accept(|delay, n| timer.schedule(delay, n).is_ok());
            let turn = |time: &u64| {
                clock.set(at(*time));
                timer.turn().unwrap()
            };
            (accepted, case.turns.iter().map(turn).sum::<usize>())
        });
        assert_eq!(fired, accepted, "{case:?}");
        most = most.max(accepted);
    }
    assert_eq!(most as u64, MOST, "they get as far as the promise");
}

#[test]
fn a_workers_first_timers_fire_without_memory() {
    if in_a_process_of_its_own(a_workers_first_timers_fire_without_memory, &[]) {
        return;
    }
    call_for_the_first_time();
    for case in cases().into_iter().step_by(5) {
        let clock = ManualClock::new();
        let fired = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&fired);
        let builder = one_shard().clock(clock.clone());
        let timer = builder
            .build_with(move |_: Expired<u64>| _ = count.fetch_add(1, Ordering::SeqCst))
            .unwrap();
        free_nodes_of(&timer, case.before);
        timer.wait_idle();
        let all_fired = refusing_from(case.allowed, || {
            let accepted = case.accept(|delay, n| timer.schedule(delay, n).is_ok());
            case.turns.iter().for_each(|time| _ = clock.set(at(*time)));
            holds_soon(|| fired.load(Ordering::SeqCst) == accepted)
        });
        assert!(all_fired, "{case:?}");
    }
}

#[test]
fn a_loops_first_timers_fire_without_memory() {
    if in_a_process_of_its_own(a_loops_first_timers_fire_without_memory, &[]) {
        return;
    }
    call_for_the_first_time();
    for case in cases() {
        // The loop's own timers, remotes', and both by turns.
        for of_remote in [|_| false, |_| true, |n: u64| n % 2 == 0] {
            let clock = ManualClock::new();
            let mut timer = event_loop(case, &clock);
            let remote = timer.remote();
            let (accepted, fired) = refusing_from(case.allowed, || {
                let accepted = case.accept(|delay, n| {
                    if of_remote(n) {
                        remote.schedule(delay, n).is_ok()
                    } else {
                        timer.schedule(Time::ZERO, delay, n).is_ok()
                    }
                });
                let mut fired = 0;
                for time in case.turns {
                    clock.set(at(*time));
                    fired += timer.poll(at(*time), |_| ()).fired;
                }
                (accepted, fired)
            });
            assert_eq!(fired, accepted, "{case:?}");
        }
    }
}

/// The first entry of the shard is a second one of its timer.
#[test]
fn a_timer_that_is_moved_earlier_fires_without_memory() {
    if in_a_process_of_its_own(a_timer_that_is_moved_earlier_fires_without_memory, &[]) {
        return;
    }
    call_for_the_first_time();
    for case in cases() {
        for by_remote in [false, true] {
            let clock = ManualClock::new();
            let mut timer = event_loop(case, &clock);
            let remote = timer.remote();
            let keys: Vec<_> = (0..3)
                .map(|n| remote.schedule(2 * HOUR, n).unwrap())
                .collect();
            let fired = refusing_from(case.allowed, || {
                for (n, key) in keys.iter().enumerate() {
                    let delay = ms((case.delays)(n as u64));
                    let moved = if by_remote {
                        remote.reschedule(*key, delay)
                    } else {
                        timer.reschedule(Time::ZERO, *key, delay)
                    };
                    assert!(moved.is_moved());
                }
                let mut fired = 0;
                for time in case.turns {
                    clock.set(at(*time));
                    fired += timer.poll(at(*time), |_| ()).fired;
                }
                fired
            });
            assert_eq!(fired, 3, "{case:?}");
        }
    }
}

/// Its entry lies behind its deadline then, which a loop that is alone must find out.
#[test]
fn a_timer_whose_move_found_no_memory_fires_where_its_loop_moves_it_alone() {
    if in_a_process_of_its_own(
        a_timer_whose_move_found_no_memory_fires_where_its_loop_moves_it_alone,
        &[],
    ) {
        return;
    }
    call_for_the_first_time();
    let settings = Settings::new().clock(ManualClock::new());
    let mut timer = EventLoopTimer::with_waker(settings, || ()).unwrap();
    let remote = timer.remote();
    // They fill the remote's first block.
    let keys: Vec<_> = (0..8).map(|n| remote.schedule(HOUR, n).unwrap()).collect();
    assert_eq!(timer.poll(Time::ZERO, |_| ()).fired, 0);
    let moved = refusing_from(1, || remote.reschedule(keys[0], ms(10)).is_moved());
    drop(remote);
    assert!(moved && timer.reschedule(Time::ZERO, keys[0], ms(20)).is_moved());
    assert_eq!(timer.poll(at(10), |_| ()).fired, 0);
    assert_eq!(timer.poll(at(20), |_| ()).fired, 1);
}

/// What a handler moves to now waits for the next turn, in a list of its own.
#[test]
fn a_handler_moves_a_timer_to_now_without_memory() {
    if in_a_process_of_its_own(a_handler_moves_a_timer_to_now_without_memory, &[]) {
        return;
    }
    let settings = Settings::new().clock(ManualClock::new());
    let mut timer = EventLoopTimer::with_waker(settings, || ()).unwrap();
    let later: Vec<_> = (0..50)
        .map(|n| timer.schedule(Time::ZERO, HOUR, n).unwrap())
        .collect();
    timer.schedule(Time::ZERO, ms(1), 99).unwrap();
    let (moved, fired) = refusing_from(1, || {
        let mut moved = 0;
        let first = timer.poll_with(at(5), |timer, _| {
            for key in &later {
                moved += u32::from(timer.reschedule(at(5), *key, Duration::ZERO).is_moved());
            }
        });
        (moved, first.fired + timer.poll(at(6), |_| ()).fired)
    });
    assert_eq!((moved, fired), (50, 51));
}

#[test]
fn periodic_timers_go_on_without_memory() {
    if in_a_process_of_its_own(periodic_timers_go_on_without_memory, &[]) {
        return;
    }
    call_for_the_first_time();
    for (allowed, period) in ALLOWED
        .into_iter()
        .flat_map(|allowed| [ms(3), secs(1), HOUR].map(|period| (allowed, period)))
    {
        let clock = ManualClock::new();
        let builder = by_hand(&clock);
        let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
        for n in 0..20 {
            timer.schedule_periodic(period, rate(period), n).unwrap();
        }
        let fired = refusing_from(allowed, || {
            let turn = |_| {
                clock.advance(period);
                timer.turn().unwrap()
            };
            (0..50).map(turn).sum::<usize>()
        });
        assert_eq!(fired, 50 * 20, "{allowed} {period:?}");
    }
}
