//! What several threads do at once: stop and turn, take the last place, read the counters.
//!
//! Cancels and moves race in `stress` and in the loom models `moves`.

use crate::support::ledger::{Ends, Ledger};
use crate::support::random::Random;
use crate::support::setup::{Fired, HOUR, one_shard, spread, stress, us};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{Drive, Expired, Key, ScheduleErrorKind, Timer, TurnError};

/// Here a thread turns by hand what others schedule; `stress` stops engines with workers.
#[test]
fn a_stop_beside_turns_by_hand_loses_nothing() {
    const EACH: u64 = 300;
    let mut sum = [0; 4];
    for seed in 1..=stress(500) {
        let ledger = Ledger::all_begun(2 * EACH);
        let fires = Arc::clone(&ledger);
        let builder = one_shard().tick(us(10)).drive(Drive::Manual);
        let timer = builder
            .build_with(move |it: Expired<u64>| fires.fired(it.payload))
            .unwrap();
        let gate = Barrier::new(3);
        std::thread::scope(|scope| {
            for first in [0, EACH] {
                let (timer, ledger, gate) = (&timer, &ledger, &gate);
                scope.spawn(move || {
                    gate.wait();
                    for id in first..first + EACH {
                        match timer.schedule([Duration::ZERO, us(20), HOUR][id as usize % 3], id) {
                            Ok(key) if id % 4 == 0 => cancel(timer, key, ledger),
                            Ok(_) => {}
                            Err(error) => ledger.refused(error.into_payload()),
                        }
                    }
                });
            }
            scope.spawn(|| while timer.turn() != Err(TurnError::Stopped) {});
            gate.wait();
            let (start, pause) = (Instant::now(), us(Random::new(seed).below(250)));
            while start.elapsed() < pause {
                std::thread::yield_now();
            }
            timer
                .stop()
                .unwrap()
                .into_iter()
                .for_each(|unfired| ledger.returned(unfired.payload));
        });
        let Ends {
            fired,
            cancelled,
            returned,
            refused,
        } = ledger.check();
        let stats = timer.stats();
        let counted = [stats.fired, stats.cancelled, stats.returned, stats.rejected];
        assert_eq!(
            counted,
            [fired, cancelled, returned, refused],
            "the engine's own books agree"
        );
        assert_eq!(stats.scheduled, fired + cancelled + returned);
        assert_eq!(timer.pending(), 0);
        std::iter::zip(&mut sum, counted).for_each(|(sum, count)| *sum += count);
    }
    assert!(
        sum.iter().all(|count| *count > 0),
        "some kind of end never happened: {sum:?}"
    );
}

/// The handler of one of two shards blocks its turner: another one fires what is due on the other shard.
#[test]
fn a_turn_by_hand_passes_over_a_shard_that_another_thread_turns() {
    let ((enter, entered), (leave, may_leave)) = (channel(), channel::<()>());
    let (may_leave, (fired, log)) = (Mutex::new(may_leave), Fired::pair());
    let handler = move |expired: Expired<u64>| {
        if expired.payload == 0 {
            enter.send(()).unwrap();
            let _ = may_leave.lock().unwrap().recv();
        }
        log.push(expired);
    };
    let builder = one_shard().shards(2);
    let timer = builder.drive(Drive::Manual).build_with(handler).unwrap();
    spread(&timer, Duration::ZERO, 0);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| timer.turn());
        entered.recv().unwrap();
        (1..5).for_each(|id| _ = spread(&timer, Duration::ZERO, id));
        assert_eq!((timer.turn(), fired.len()), (Ok(2), 2));
        drop(leave);
        // It goes on to the other shard, where nothing is due any more.
        assert_eq!(first.join().unwrap(), Ok(1));
    });
    assert_eq!((timer.turn(), fired.len()), (Ok(2), 5));
    assert!(timer.stop().unwrap().is_empty());
}

fn cancel(timer: &Timer<u64>, key: Key<u64>, ledger: &Ledger) {
    timer
        .cancel(key)
        .into_payload()
        .into_iter()
        .for_each(|id| ledger.cancelled(id));
}

const LIMIT: usize = 64;

/// Each of four threads schedules up to a quarter of the limit and a bit more, so that they meet at it all the time.
#[test]
fn the_limit_is_exact_under_contention() {
    let builder = one_shard().shards(2).max_pending(LIMIT);
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    // Raised after a schedule, lowered before a cancel: never above what is really pending.
    let (live, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let contend = |seed| {
        let mut random = Random::new(seed);
        let mut mine: Vec<Key<u64>> = Vec::new();
        for n in 0..stress(30_000) {
            if mine.len() < 20 && random.chance(60) {
                match timer.schedule(HOUR, n) {
                    Ok(key) => {
                        assert!(
                            live.fetch_add(1, Ordering::SeqCst) < LIMIT,
                            "more than the limit"
                        );
                        mine.push(key);
                    }
                    Err(error) => {
                        let kind = ScheduleErrorKind::TooManyPending {
                            pending: LIMIT,
                            max_pending: LIMIT,
                        };
                        assert_eq!((error.kind(), error.payload()), (&kind, &n));
                        refused.fetch_add(1, Ordering::SeqCst);
                    }
                }
            } else if !mine.is_empty() {
                let key = mine.swap_remove(random.below(mine.len() as u64) as usize);
                live.fetch_sub(1, Ordering::SeqCst);
                assert!(timer.cancel(key).is_won());
            }
        }
    };
    std::thread::scope(|scope| {
        (1..=4).for_each(|seed| {
            _ = scope.spawn({
                let contend = &contend;
                move || contend(seed)
            })
        })
    });
    let refused = refused.into_inner() as u64;
    assert!(refused > 0, "the limit was never reached");
    let live = live.into_inner();
    assert_eq!((timer.stats().rejected, timer.pending()), (refused, live));
    assert!(
        (live..LIMIT).all(|_| timer.schedule(HOUR, 0).is_ok()),
        "there is room"
    );
    assert!(timer.schedule(HOUR, 0).is_err());
    assert_eq!(timer.stop().unwrap().len(), LIMIT);
}

/// Snapshots are taken while the engine counts: a part is never larger than what it is a part of.
#[test]
fn no_snapshot_shows_a_part_that_is_more_than_the_whole() {
    let timer = one_shard()
        .on_panic(|_| ())
        .on_slow_handler(HOUR, |_| ())
        .build_with(|_: Expired<u32>| std::panic::resume_unwind(Box::new("quietly")))
        .unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                timer.schedule(Duration::ZERO, 1).unwrap();
                std::thread::yield_now();
            }
        });
        let looks = std::iter::repeat_with(|| timer.stats());
        let mut looks = looks.take_while(|stats| stats.fired < stress(5_000));
        let wrong = looks.find(|stats| {
            let called = stats.shards[0].handler_time.count();
            stats.panics > called
                || called > stats.lateness.count()
                || stats.lateness.count() > stats.fired
                || stats.wakes > stats.parks
                || stats.cut_short > stats.shards[0].turns
        });
        over.store(true, Ordering::Relaxed);
        assert!(wrong.is_none(), "{wrong:?}");
    });
    timer.stop().unwrap();
}
