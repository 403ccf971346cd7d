//! Polls, waker changes, drops and stops that race with the workers.

use crate::rig::{Bell, Rig, block_on, poll};
use crate::support::random::Random;
use crate::support::setup::{ms, stress, us, wait_until};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel::{Builder, ManualClock, Pinning, ScheduleErrorKind, Timer};

fn engine() -> Timer {
    Builder::new().shards(2).pinning(Pinning::Off).tick(us(100)).build().unwrap()
}

/// Every sleep is woken at the waker that it was polled with last, whichever thread that was.
#[test]
fn no_wake_is_lost_while_wakers_change() {
    let timer = engine();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let timer = &timer;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..stress(300) {
                    let start = Instant::now();
                    let delay = us(random.below(800));
                    let mut sleep = timer.sleep(delay);
                    let mut last = Bell::new();
                    // Ends about when the timer fires.
                    while start.elapsed() < delay && poll(&mut sleep, &last).is_pending() {
                        last = Bell::new();
                    }
                    if poll(&mut sleep, &last).is_pending() {
                        wait_until("the last waker is woken", || last.rings() == 1);
                    }
                    assert_eq!(poll(&mut sleep, &last), Poll::Ready(Ok(())));
                    assert!(start.elapsed() >= delay, "early");
                }
            });
        }
    });
    assert_eq!(timer.pending(), 0);
    let stats = timer.stats();
    assert_eq!(stats.scheduled(), stats.fired());
}

/// A sleep whose time has come is reset while it fires: by its worker or by the reset, its task is woken.
#[test]
fn no_wake_is_lost_to_a_reset() {
    let (rig, rounds) = (Rig::new(), stress(10_000));
    let (begun, turned) = (AtomicU64::new(0), AtomicU64::new(0));
    let reached = |word: &AtomicU64, round| word.load(Ordering::SeqCst) >= round;
    let lost = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                while !reached(&begun, round) {
                    std::hint::spin_loop();
                }
                rig.timer.turn().unwrap();
                turned.store(round, Ordering::SeqCst);
            }
        });
        let is_lost = |round: &u64| {
            let bell = Bell::new();
            let mut sleep = rig.timer.sleep(ms(2));
            assert!(poll(&mut sleep, &bell).is_pending());
            rig.clock.advance(ms(5));
            let now = rig.timer.now();
            begun.store(*round, Ordering::SeqCst);
            while !reached(&turned, *round) {
                sleep.reset(now);
            }
            rig.timer.turn().unwrap();
            bell.rings() == 0
        };
        (1..=rounds).filter(is_lost).count()
    });
    assert_eq!(lost, 0, "of {rounds}");
}

#[test]
fn a_stop_wakes_everybody_who_sleeps_or_changes_wakers() {
    for round in 0..stress(40) {
        let timer = engine();
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let timer = &timer;
                scope.spawn(move || {
                    let mut random = Random::new(1000 * round + seed);
                    let mut sleep = timer.sleep(Duration::from_secs(3600));
                    let mut last = Bell::new();
                    let answer = loop {
                        let answer = poll(&mut sleep, &last);
                        if answer.is_ready() {
                            break answer;
                        }
                        if random.chance(2) {
                            wait_until("the stop wakes", || last.rings() > 0);
                            continue;
                        }
                        last = Bell::new();
                    };
                    let Poll::Ready(Err(error)) = answer else { panic!("an hour has passed") };
                    assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
                });
            }
            std::thread::sleep(us(200 * (round % 5)));
            let returned = timer.stop().unwrap();
            assert!(returned.len() <= 3);
        });
        let stats = timer.stats();
        assert_eq!((timer.pending(), stats.fired()), (0, 0));
        assert_eq!(stats.scheduled(), stats.returned() + stats.cancelled());
    }
}

#[test]
fn many_threads_sleep_reset_and_drop() {
    let timer = engine();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let timer = &timer;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..stress(200) {
                    let mut sleep = timer.sleep(us(random.below(2_000)));
                    let _ = poll(&mut sleep, &Bell::new());
                    match random.below(3) {
                        0 => drop(sleep),
                        1 => {
                            let start = Instant::now();
                            let delay = us(random.below(1_000));
                            sleep.reset(delay);
                            block_on(&mut sleep).unwrap();
                            assert!(start.elapsed() >= delay, "early after a reset");
                        }
                        _ => block_on(sleep).unwrap(),
                    }
                }
            });
        }
    });
    assert_eq!(timer.pending(), 0);
}

/// Time stands until the test moves it, though the engine has workers and the waiter a thread of its own.
#[test]
fn a_manual_clock_drives_other_threads() {
    let clock = ManualClock::new();
    let timer = Builder::new().shards(2).pinning(Pinning::Off).clock(clock.clone());
    let timer = timer.build().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| block_on(timer.sleep(Duration::from_secs(3600))).unwrap());
        wait_until("it sleeps", || timer.pending() == 1);
        clock.advance(Duration::from_secs(3600) - ms(1));
        timer.wait_idle();
        assert_eq!(timer.stats().fired(), 0);
        clock.advance(ms(1));
        waiter.join().unwrap();
    });
    assert_eq!(timer.stats().fired(), 1);
}
