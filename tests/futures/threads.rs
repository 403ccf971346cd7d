//! Polls, waker changes, drops and stops that race with the workers.

use crate::rig::{Bell, Rig, poll};
use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, stress, us, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tickwheel::__internal::{has_engine, poll_on, sleep_anywhere};
use tickwheel::{Builder, Drive, Pinning, Sleep, SleepError, Timer};

/// Every sleep is woken at the waker that it was polled with last, when it fires and when a stop ends it.
#[test]
fn no_wake_is_lost_while_wakers_change() {
    for round in 0..stress(40) {
        let timer = Builder::new()
            .shards(2)
            .pinning(Pinning::Off)
            .tick(us(100))
            .build()
            .unwrap();
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let timer = &timer;
                scope.spawn(move || {
                    let mut random = Random::new(1000 * round + seed);
                    while let Ok(()) = sleep_once(timer, &mut random) {}
                });
            }
            std::thread::sleep(ms(round % 20));
            assert!(timer.stop().unwrap().len() <= 3);
        });
        let stats = timer.stats();
        let ended = stats.fired + stats.cancelled + stats.returned;
        assert_eq!((timer.pending(), stats.scheduled), (0, ended));
    }
}

/// Each thread arms its sleep on its home, and one of the two is not where its future was counted.
#[test]
fn an_engine_of_two_shards_is_freed_after_its_last_future() {
    let hold = Arc::new(());
    let held = Arc::clone(&hold);
    let builder = || Builder::new().shards(2).drive(Drive::Manual);
    let timer = builder().on_panic(move |_| _ = &held).build().unwrap();
    let armed = || {
        let mut sleep = timer.sleep(HOUR);
        assert!(poll(&mut sleep, &Bell::new()).is_pending());
        sleep
    };
    let here = armed();
    let there = std::thread::scope(|scope| scope.spawn(armed).join().unwrap());
    let scheduled: Vec<_> = timer.stats().shards.iter().map(|it| it.scheduled).collect();
    assert_eq!(scheduled, [1, 1]);
    drop(timer);
    let frees_others = || drop(builder().build().unwrap());
    frees_others();
    assert_eq!(Arc::strong_count(&hold), 2, "its futures are left");
    drop((here, there));
    wait_until("it is freed", || {
        frees_others();
        Arc::strong_count(&hold) == 1
    });
}

/// A sleep without an engine of its own holds the one that it waits on by the node of its timer, and no longer.
#[test]
fn an_engine_is_freed_after_the_last_timer_that_holds_it() {
    let stays_armed: [fn(&mut Sleep<SleepError>); 4] = [
        |_| (),
        |sleep| assert!(poll(sleep, &Bell::new()).is_pending(), "another waker"),
        |sleep| sleep.reset(2 * HOUR),
        |sleep| _ = sleep.now(),
    ];
    for change in stays_armed {
        let hold = Arc::new(());
        let held = Arc::clone(&hold);
        let builder = || Builder::new().shards(1).drive(Drive::Manual);
        let timer = builder().on_panic(move |_| _ = &held).build().unwrap();
        let frees_others = || drop(builder().build().unwrap());
        let is_freed = || {
            frees_others();
            Arc::strong_count(&hold) == 1
        };
        let bell = Bell::new();
        let arm = |sleep: &mut Sleep<SleepError>| {
            let waker = Waker::from(Arc::clone(&bell));
            assert!(poll_on(sleep, &timer, &mut Context::from_waker(&waker)).is_pending());
            assert!(has_engine(sleep) && !sleep.is_elapsed());
        };
        let [mut dropped, mut told, mut cancelled] = [HOUR; 3].map(|it| sleep_anywhere(it.into()));
        assert!(
            ![&dropped, &told, &cancelled]
                .map(has_engine)
                .contains(&true)
        );
        for sleep in [&mut dropped, &mut told, &mut cancelled] {
            arm(sleep);
            change(sleep);
        }
        // Between two timers it has none, and each arming takes one.
        cancelled.cancel();
        assert!(!has_engine(&cancelled));
        arm(&mut cancelled);
        cancelled.cancel();
        drop(timer);
        assert!(!is_freed());
        assert!(matches!(poll(&mut told, &bell), Poll::Ready(Err(_))));
        assert!(!has_engine(&told) && !is_freed());
        drop(dropped);
        wait_until("it is freed", is_freed);
        assert!(told.deadline() > told.now() && !cancelled.is_elapsed());
    }
}

/// Sleeps at most a millisecond, or an hour, which a stop ends.
fn sleep_once(timer: &Timer, random: &mut Random) -> Result<(), SleepError> {
    let mut any = || {
        if random.chance(3) {
            HOUR
        } else {
            us(random.below(800))
        }
    };
    let (first, delay) = (any(), any());
    let mut start = Instant::now();
    let mut sleep = timer.sleep(delay);
    if random.chance(60) {
        sleep.reset(first);
        let _ = poll(&mut sleep, &Bell::new());
        start = Instant::now();
        sleep.reset(delay);
    }
    if random.chance(20) {
        return Ok(());
    }
    loop {
        let last = Bell::new();
        let polled = match poll(&mut sleep, &last) {
            // Others poll anew until about when the timer fires.
            Poll::Pending if start.elapsed() < delay && random.chance(98) => continue,
            Poll::Pending => {
                wait_until("the last waker is woken", || last.rings() > 0);
                poll(&mut sleep, &last)
            }
            ready => ready,
        };
        let Poll::Ready(ended) = polled else {
            panic!("woken, and not ready")
        };
        assert!(ended.is_err() || start.elapsed() >= delay, "early");
        return ended;
    }
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
