//! Timers lost or ended twice between threads; counts, keys and queues that went wrong.

use crate::support::ledger::Ledger;
use crate::support::random::Random;
use crate::support::setup::{
    Fired, HOUR, Setup, ZOMBIE_CONSTANT, each_recording, each_setup, ms, one_shard, secs, sorted,
    stress, us, wait_until,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{Builder, Expired, Key, ScheduleErrorKind, Timer, executor_fn};

/// An engine that notes in the ledger what fires.
fn noting(ledger: &Arc<Ledger>, builder: Builder) -> Timer<u64> {
    let fires = Arc::clone(ledger);
    builder
        .build_with(move |expired: Expired<u64>| fires.fired(expired.payload))
        .unwrap()
}

/// Schedules a timer, or notes that it was refused.
fn schedule(timer: &Timer<u64>, ledger: &Ledger, delay: Duration, id: u64) {
    if let Err(error) = timer.schedule(delay, id) {
        assert_eq!(*error.kind(), ScheduleErrorKind::Stopped);
        ledger.refused(error.into_payload());
    }
}

/// Stops the engine and notes what it returns.
fn stop(timer: &Timer<u64>, ledger: &Ledger) {
    timer
        .stop()
        .unwrap()
        .into_iter()
        .for_each(|unfired| ledger.returned(unfired.payload));
}

#[test]
fn no_timer_is_lost_between_push_and_sleep() {
    let done = Arc::new(AtomicU64::new(0));
    let fires = Arc::clone(&done);
    let timer = one_shard()
        .tick(us(10))
        .build_with(move |expired: Expired<u64>| {
            fires.store(expired.payload, Ordering::Release);
            // The next push is on its way; lie down a little before, at, or after its arrival.
            for _ in 0..expired.payload * 7 % 61 {
                std::hint::spin_loop();
            }
        })
        .unwrap();
    // The sleep that a lost wake-up would last.
    timer.schedule(HOUR, u64::MAX).unwrap();
    let mut random = Random::new(1);
    for id in 1..=stress(20_000) {
        // This thread must not sleep itself: it would always come too late.
        for _ in 0..random.below(8) {
            std::hint::spin_loop();
        }
        timer.schedule(us(random.below(3)), id).unwrap();
        let (start, mut looks) = (Instant::now(), 0_u32);
        while done.load(Ordering::Acquire) != id {
            looks += 1;
            if looks % 10_000 == 0 {
                assert!(
                    start.elapsed() < secs(20),
                    "the wake-up for timer {id} was lost"
                );
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
    assert_eq!(timer.stop().unwrap().len(), 1);
}

/// In Netty a timer that is pushed while `stop` runs can vanish.
#[test]
fn unlike_netty_no_timer_is_lost_when_stop_races_with_producers() {
    const EACH: u64 = 150;
    for round in 0..stress(1_500) {
        let ledger = Ledger::all_begun(2 * EACH);
        let timer = noting(&ledger, one_shard().tick(us(20)));
        let go = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for producer in 0..2 {
                let (timer, ledger, go) = (&timer, &ledger, &go);
                scope.spawn(move || {
                    for id in producer * EACH..(producer + 1) * EACH {
                        let delay = if id % 3 == 0 { Duration::ZERO } else { HOUR };
                        schedule(timer, ledger, delay, id);
                        go.store(true, Ordering::Release);
                    }
                });
            }
            while !go.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            for _ in 0..Random::new(round).below(2_000) {
                std::hint::spin_loop();
            }
            stop(&timer, &ledger);
        });
        let ends = ledger.check();
        assert_eq!(timer.stats().scheduled, ends.fired + ends.returned);
    }
}

#[test]
fn a_cancel_may_race_the_hand_over_into_the_wheel() {
    const TIMERS: u64 = 100_000;
    let ledger = Ledger::all_begun(TIMERS);
    let timer = noting(&ledger, one_shard().tick(us(50)));
    let (keys, cancelled) = channel::<Key<u64>>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Cancels in the order of scheduling, right behind the owner that is filing them.
            for key in cancelled {
                timer
                    .cancel(key)
                    .into_payload()
                    .into_iter()
                    .for_each(|id| ledger.cancelled(id));
            }
        });
        for id in 0..TIMERS {
            // Due at once now and then: that makes the owner drain the inbox.
            let delay = if id % 64 == 0 { Duration::ZERO } else { HOUR };
            let key = timer.schedule(delay, id).unwrap();
            if id % 8 != 7 {
                keys.send(key).unwrap();
            }
        }
        drop(keys);
    });
    stop(&timer, &ledger);
    let ends = ledger.check();
    assert!(
        ends.cancelled > TIMERS / 2 && ends.returned == TIMERS / 8,
        "{ends:?}"
    );
    assert_eq!(timer.pending(), 0);
}

#[test]
fn cancelled_inside_the_tick_that_fires_it_counts_down_once() {
    each_setup(|at| {
        let keys = Arc::new(Mutex::new(Vec::<Key<u64>>::new()));
        let mine = Arc::clone(&keys);
        let builder = at.builder().max_pending(10);
        let timer = crate::support::setup::reflexive(builder, move |timer: &Timer<u64>, _| {
            for key in mine.lock().unwrap().drain(..) {
                timer.cancel(key);
                timer.cancel(key);
            }
        });
        for _ in 0..20 {
            let scheduled: Vec<Key<u64>> = (0..10)
                .map(|id| timer.schedule(ms(1), id).unwrap())
                .collect();
            timer
                .schedule(ms(1), 10)
                .expect_err("the limit still holds");
            *keys.lock().unwrap() = scheduled;
            at.advance(&timer, ms(1));
            assert_eq!(timer.pending(), 0);
        }
        let stats = timer.stats();
        assert_eq!(
            (stats.fired, stats.cancelled, stats.rejected),
            (20, 180, 20)
        );
    });
}

#[test]
fn a_stale_key_is_harmless_after_its_memory_is_used_again() {
    each_recording(|at, timer, fired| {
        let fired_key = timer.schedule(ms(1), 0).unwrap();
        at.advance(&timer, ms(1));
        assert_eq!(fired.ids(), [0]);
        let mut stale = vec![fired_key];
        // Sooner or later one of these lies where the first one lay; the cancelled ones are used again at once.
        for id in 1..2_000 {
            let key = timer.schedule(ms(1), id).unwrap();
            for stale in &stale {
                assert_ne!(key, *stale);
                assert!(!timer.cancel(*stale).is_won() && !timer.is_pending(*stale));
                assert!(!timer.reschedule(*stale, HOUR).is_moved());
            }
            if id % 2 == 0 {
                assert_eq!(timer.cancel(key).into_payload(), Some(id));
                stale.truncate(20);
                stale.push(key);
            }
        }
        at.advance(&timer, ms(1));
        assert_eq!(
            sorted(fired.ids()),
            (1..2_000).step_by(2).collect::<Vec<_>>()
        );
    });
}

#[test]
fn cancelled_five_minute_timeouts_do_not_pile_up() {
    each_recording(|at, timer, _fired| {
        // Ten seconds of 20 000 requests per second, each answered after 100 ms.
        let mut open = std::collections::VecDeque::new();
        for _ in 0..100 {
            for id in 0..2_000 {
                open.push_back(timer.schedule(secs(300), id).unwrap());
            }
            while open.len() > 2_000 {
                assert!(timer.cancel(open.pop_front().unwrap()).is_won());
            }
            // A timer that fires makes the owner read its inbox, so the others do reach the wheel.
            timer.schedule(Duration::ZERO, 0).unwrap();
            at.advance(&timer, ms(100));
            let shard = &timer.stats().shards[0];
            assert!(
                shard.entries <= 4_000 + ZOMBIE_CONSTANT,
                "{} entries",
                shard.entries
            );
            assert!(shard.held_bytes < 8 << 20, "{} bytes", shard.held_bytes);
        }
    });
}

#[test]
fn without_a_limit_there_is_none() {
    const TIMERS: u64 = 600_000;
    // Nobody turns, so nothing is drained: inbox and table have to take them all.
    let at = Setup::by_hand();
    let (timer, fired) = at.recording();
    (0..TIMERS).for_each(|id| _ = timer.schedule(ms(1 + id % 100), id).unwrap());
    assert_eq!(timer.pending() as u64, TIMERS);
    at.advance(&timer, ms(50));
    assert_eq!(fired.take().len() as u64, TIMERS / 2);
    assert_eq!(timer.stop().unwrap().len() as u64, TIMERS / 2);
}

#[test]
fn rejections_while_shutting_down_lose_nothing() {
    const TIMERS: u64 = 5_000;
    for _ in 0..stress(20) {
        let (rejected, log) = Fired::pair();
        let shutting_down = executor_fn(Err, move |expired| log.push(expired));
        let timer = one_shard().tick(us(10)).build_on(shutting_down).unwrap();
        let ledger = Ledger::all_begun(TIMERS);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..TIMERS).for_each(|id| schedule(&timer, &ledger, us(id % 300), id));
            });
            wait_until("the executor refuses", || rejected.len() > 0);
            stop(&timer, &ledger);
        });
        let refused_by_executor = rejected.ids();
        assert_eq!(
            timer.stats().shards[0].refused_by_executor,
            refused_by_executor.len() as u64
        );
        refused_by_executor
            .into_iter()
            .for_each(|id| ledger.fired(id));
        ledger.check();
    }
}
