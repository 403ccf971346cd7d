//! One timer, several threads: who ends it, when it fires after a move, who gets the last place.

use crate::support::ledger::Ledger;
use crate::support::random::Random;
use crate::support::setup::{HOUR, ms, one_shard, secs, stress, us, wait_until};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use tickwheel::{Expired, IdleStrategy, Key, ScheduleErrorKind, Timer, TimerHandle};

/// An engine that writes what fires into a ledger.
fn with_ledger(timers: u64) -> (Timer<u64>, Arc<Ledger>) {
    let ledger = Ledger::all_begun(timers);
    let fires = Arc::clone(&ledger);
    let timer = one_shard()
        .tick(us(10))
        .idle(IdleStrategy::SpinThenPark { spin: us(50) })
        .build_with(move |expired: Expired<u64>| fires.fired(expired.payload))
        .unwrap();
    (timer, ledger)
}

fn wait_for_all(timer: &Timer<u64>) {
    wait_until("no timer is pending", || timer.pending() == 0);
    timer.wait_idle();
}

#[test]
fn cancel_and_fire_have_one_winner() {
    const TIMERS: u64 = 40_000;
    for _ in 0..stress(1) {
        let (timer, ledger) = with_ledger(TIMERS);
        let mut random = Random::new(3);
        let cancel = |timeout: Result<TimerHandle<u64>, Key<u64>>| {
            let payload = match &timeout {
                Ok(timeout) => timeout.cancel().into_payload(),
                Err(key) => timer.cancel(*key).into_payload(),
            };
            if let Ok(timeout) = &timeout {
                assert_eq!(timeout.is_cancelled(), payload.is_some());
                assert_eq!(timeout.is_expired(), payload.is_none());
            }
            payload.into_iter().for_each(|id| ledger.cancelled(id));
        };
        for id in 0..TIMERS {
            let delay = us(random.below(30));
            let name = if id % 2 == 0 {
                Ok(timer.schedule(delay, id).unwrap())
            } else {
                Err(timer.schedule_key(delay, id).unwrap())
            };
            for _ in 0..random.below(200) {
                std::hint::spin_loop();
            }
            cancel(name);
        }
        wait_for_all(&timer);
        let ends = ledger.check();
        assert!(ends.fired > 0 && ends.cancelled > 0, "no race at all: {ends:?}");
        timer.stop().unwrap();
    }
}

#[test]
fn of_several_cancels_one_wins() {
    const TIMERS: u64 = 20_000;
    for _ in 0..stress(1) {
        let (timer, ledger) = with_ledger(TIMERS);
        // Every second one fires meanwhile, unless somebody is quicker.
        let delay = |id: u64| if id % 2 == 0 { us(200 + id) } else { HOUR };
        let timeouts: Vec<TimerHandle<u64>> =
            (0..TIMERS).map(|id| timer.schedule(delay(id), id).unwrap()).collect();
        let gate = Barrier::new(3);
        std::thread::scope(|scope| {
            for by_handle in [false, false, true] {
                let (timer, ledger, timeouts, gate) = (&timer, &ledger, &timeouts, &gate);
                scope.spawn(move || {
                    gate.wait();
                    for timeout in timeouts {
                        let answer =
                            if by_handle { timeout.cancel() } else { timer.cancel(timeout.key()) };
                        answer.into_payload().into_iter().for_each(|id| ledger.cancelled(id));
                        assert!(!timeout.is_pending());
                    }
                });
            }
        });
        wait_for_all(&timer);
        let ends = ledger.check();
        assert_eq!(timer.stats().cancelled(), ends.cancelled);
        assert!(ends.cancelled >= TIMERS / 2);
        timer.stop().unwrap();
    }
}

/// What the threads of a reschedule race know about each timer.
struct Moves {
    timer: Timer<u64>,
    ledger: Arc<Ledger>,
    keys: Vec<Key<u64>>,
    /// When each fired, in nanoseconds since `origin`; 0 if it has not.
    fired_at: Arc<Vec<AtomicU64>>,
    origin: Instant,
}

const MOVED_TIMERS: u64 = 4_000;

impl Moves {
    fn new() -> Self {
        let ledger = Ledger::all_begun(MOVED_TIMERS);
        let fired_at: Arc<Vec<AtomicU64>> =
            Arc::new((0..MOVED_TIMERS).map(|_| AtomicU64::new(0)).collect());
        let origin = Instant::now();
        let (fires, times) = (Arc::clone(&ledger), Arc::clone(&fired_at));
        let timer = one_shard()
            .tick(us(20))
            .build_with(move |expired: Expired<u64>| {
                let now = origin.elapsed().as_nanos() as u64;
                times[expired.payload as usize].store(now, Ordering::SeqCst);
                fires.fired(expired.payload);
            })
            .unwrap();
        let mut random = Random::new(11);
        let keys = (0..MOVED_TIMERS)
            .map(|id| timer.schedule_key(us(500 + random.below(4_000)), id).unwrap())
            .collect();
        Self { timer, ledger, keys, fired_at, origin }
    }

    /// Moves every timer a few times; returns the earliest time at which each may fire by its last move.
    fn mover(&self, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut not_before = vec![0; self.keys.len()];
        for _ in 0..4 {
            for (key, not_before) in self.keys.iter().zip(&mut not_before) {
                let delay = us(random.below(6_000));
                let earliest = (self.origin.elapsed() + delay).as_nanos() as u64;
                if self.timer.reschedule(*key, delay).moved() {
                    *not_before = earliest;
                }
            }
        }
        not_before
    }

    fn canceller(&self, seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..self.keys.len() / 2 {
            let key = self.keys[random.below(MOVED_TIMERS) as usize];
            self.timer
                .cancel(key)
                .into_payload()
                .into_iter()
                .for_each(|id| self.ledger.cancelled(id));
        }
    }

    fn check(&self, not_before: impl Fn(usize) -> u64) {
        wait_for_all(&self.timer);
        let ends = self.ledger.check();
        assert!(ends.fired > 0, "{ends:?}");
        for (id, fired_at) in self.fired_at.iter().enumerate() {
            let fired_at = fired_at.load(Ordering::SeqCst);
            let not_before = not_before(id);
            assert!(
                fired_at == 0 || fired_at >= not_before,
                "timer {id} was told it had moved and fired {} ns before its new deadline",
                not_before - fired_at
            );
        }
        self.timer.stop().unwrap();
    }
}

#[test]
fn a_moved_timer_never_fires_before_its_new_deadline() {
    for round in 0..stress(10) {
        let moves = Moves::new();
        let not_before = std::thread::scope(|scope| {
            let mover = scope.spawn(|| moves.mover(round + 1));
            scope.spawn(|| moves.canceller(round + 100));
            mover.join().unwrap()
        });
        moves.check(|id| not_before[id]);
    }
}

#[test]
fn of_two_movers_the_last_decides() {
    for round in 0..stress(10) {
        let moves = Moves::new();
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| moves.mover(2 * round + 1));
            let b = scope.spawn(|| moves.mover(2 * round + 2));
            scope.spawn(|| moves.canceller(round + 100));
            (a.join().unwrap(), b.join().unwrap())
        });
        // Either mover's last move may be the last of all; nothing earlier than both may count.
        moves.check(|id| a[id].min(b[id]));
    }
}

#[test]
fn moved_timers_are_not_early_while_handles_are_dropped() {
    const TIMERS: u64 = 10_000;
    for round in 0..stress(2) {
        let (timer, ledger) = with_ledger(TIMERS);
        let mut random = Random::new(round + 5);
        let timeouts: Vec<TimerHandle<u64>> =
            (0..TIMERS).map(|id| timer.schedule(us(random.below(20_000)), id).unwrap()).collect();
        let keys: Vec<Key<u64>> = timeouts.iter().map(TimerHandle::key).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(timeouts));
            scope.spawn(|| {
                for key in &keys {
                    timer.reschedule(*key, us(300));
                }
            });
            scope.spawn(|| {
                for key in keys.iter().rev().step_by(3) {
                    timer
                        .cancel(*key)
                        .into_payload()
                        .into_iter()
                        .for_each(|id| ledger.cancelled(id));
                }
            });
        });
        wait_for_all(&timer);
        ledger.check();
        timer.stop().unwrap();
    }
}

const LIMIT: usize = 64;

#[test]
fn the_limit_is_exact_under_contention() {
    let timer = one_shard()
        .shards(2)
        .routing(tickwheel::Routing::Spread)
        .max_pending(LIMIT)
        .build_with(|_: Expired<u64>| ())
        .unwrap();
    // Raised after a schedule, lowered before a cancel: never above what is really pending.
    let live = AtomicUsize::new(0);
    let refused = AtomicU64::new(0);
    let kept: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (timer, live, refused) = (&timer, &live, &refused);
                scope.spawn(move || contend(timer, live, refused, thread))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(refused.load(Ordering::SeqCst) > 0, "the limit was never reached");
    assert_eq!(timer.stats().rejected, refused.load(Ordering::SeqCst));
    assert_eq!(timer.pending(), kept);
    for free in kept..LIMIT {
        assert!(timer.schedule_key(HOUR, 0).is_ok(), "refused with {free} pending");
    }
    assert!(timer.schedule_key(HOUR, 0).is_err());
    assert_eq!(timer.stop().unwrap().len(), LIMIT);
}

/// Schedules and cancels around the limit; returns how many timers are left pending.
fn contend(timer: &Timer<u64>, live: &AtomicUsize, refused: &AtomicU64, thread: u64) -> usize {
    let mut random = Random::new(thread + 1);
    let mut mine: Vec<Key<u64>> = Vec::new();
    for n in 0..stress(30_000) {
        // A quarter of the limit each and a bit more, so that they meet at it all the time.
        if mine.len() < 20 && random.chance(60) {
            match timer.schedule_key(HOUR, n) {
                Ok(key) => {
                    let now = live.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= LIMIT, "{now} timers live at a limit of {LIMIT}");
                    mine.push(key);
                }
                Err(error) => {
                    let kind =
                        ScheduleErrorKind::TooManyPending { pending: LIMIT, max_pending: LIMIT };
                    assert_eq!((error.kind(), error.payload()), (&kind, &n));
                    refused.fetch_add(1, Ordering::SeqCst);
                }
            }
        } else if !mine.is_empty() {
            let key = mine.swap_remove(random.below(mine.len() as u64) as usize);
            live.fetch_sub(1, Ordering::SeqCst);
            assert!(timer.cancel(key).won());
        }
    }
    mine.len()
}

#[test]
fn a_limit_that_races_with_firing_comes_back_to_zero() {
    const TIMERS: u64 = 20_000;
    let ledger = Ledger::all_begun(TIMERS);
    let fires = Arc::clone(&ledger);
    let timer = one_shard()
        .tick(us(10))
        .max_pending(LIMIT)
        .build_with(move |expired: Expired<u64>| fires.fired(expired.payload))
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (timer, ledger) = (&timer, &ledger);
            scope.spawn(move || {
                for id in (thread..TIMERS).step_by(2) {
                    let delay = us(id % 40);
                    match timer.schedule_key(delay, id) {
                        Ok(key) if id % 3 == 0 => {
                            let payload = timer.cancel(key).into_payload();
                            payload.into_iter().for_each(|id| ledger.cancelled(id));
                        }
                        Ok(_) => {}
                        Err(error) => ledger.refused(error.into_payload()),
                    }
                }
            });
        }
    });
    wait_for_all(&timer);
    let ends = ledger.check();
    assert_eq!(timer.stats().rejected, ends.refused);
    for _ in 0..LIMIT {
        timer.schedule_key(HOUR, 0).expect("every place is free again");
    }
    assert!(timer.schedule_key(HOUR, 0).is_err());
    timer.stop().unwrap();
}

#[test]
fn a_short_timer_fires_although_the_worker_goes_to_sleep_at_that_moment() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let handler = move |expired: Expired<u64>| sender.send(expired.payload).unwrap();
    let timer = one_shard().tick(us(10)).build_with(handler).unwrap();
    for id in 0..stress(5_000) {
        // Now the worker is about to fall asleep, or has just done so.
        let delay = if id % 2 == 0 { Duration::ZERO } else { us(id % 60) };
        timer.schedule_key(delay, id).unwrap();
        assert_eq!(receiver.recv_timeout(secs(20)), Ok(id), "the wake-up was lost");
        if id % 500 == 0 {
            std::thread::sleep(ms(1));
        }
    }
    assert!(timer.stop().unwrap().is_empty());
}

/// Snapshots are taken while the engine counts: a part is never larger than what it is a part of.
#[test]
fn no_snapshot_shows_a_part_that_is_more_than_the_whole() {
    let timer = one_shard()
        .on_panic(|_| ())
        .on_slow_handler(HOUR, |_| ())
        .build_with(|_: Expired<u32>| std::panic::resume_unwind(Box::new("quietly")))
        .unwrap();
    std::thread::scope(|scope| {
        let over = Arc::new(AtomicBool::new(false));
        let (producer, ends) = (timer.clone(), Arc::clone(&over));
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                producer.schedule_key(Duration::ZERO, 1).unwrap();
                std::thread::yield_now();
            }
        });
        let looks = std::iter::repeat_with(|| timer.stats());
        let mut looks = looks.take_while(|stats| stats.fired() < stress(5_000));
        let wrong = looks.find(|stats| {
            let called = stats.shards[0].handler_time.count();
            stats.panics() > called
                || called > stats.lateness().count()
                || stats.lateness().count() > stats.fired()
                || stats.wakes() > stats.parks()
                || stats.cut_short() > stats.shards[0].turns
        });
        over.store(true, Ordering::Relaxed);
        assert!(wrong.is_none(), "{wrong:?}");
    });
    timer.stop().unwrap();
}
