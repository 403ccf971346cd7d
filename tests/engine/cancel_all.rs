//! `Timer::cancel_all`: every kind of timer ends once, whatever else happens to it.

use crate::support::setup::{HOUR, ms, one_shard, rate, spread, us};
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use tickwheel::{Builder, Cancel, Drive, Expired, Pinning, ScheduleErrorKind, Timer, TimerState};

#[test]
fn cancel_all_ends_the_timers_of_all_shards_and_gives_their_permits_back() {
    let builder = Builder::new()
        .shards(3)
        .drive(Drive::Manual)
        .max_pending(12);
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    let handle = timer.schedule_handle(HOUR, 0).unwrap();
    let repeated = timer.schedule_periodic(HOUR, rate(ms(5)), 1).unwrap();
    for id in 2..12 {
        spread(&timer, HOUR, id);
    }
    let refused = timer.schedule(HOUR, 12).unwrap_err();
    assert!(matches!(
        refused.kind(),
        ScheduleErrorKind::TooManyPending { .. }
    ));

    let deadline = handle.deadline();
    let all = timer.cancel_all();
    let ids: BTreeSet<u64> = all.iter().map(|unfired| unfired.payload).collect();
    assert!(ids.into_iter().eq(0..12));
    let first = all.iter().find(|unfired| unfired.payload == 0).unwrap();
    assert_eq!((first.key, first.deadline), (handle.key(), deadline));
    assert_eq!(handle.state(), TimerState::Cancelled);
    assert!(!timer.is_pending(repeated));
    assert_eq!((timer.pending(), timer.stats().cancelled), (0, 12));
    assert!(timer.cancel_all().is_empty());
    for id in 0..12 {
        spread(&timer, HOUR, id);
    }
    assert_eq!(timer.stop().unwrap().len(), 12);
    assert!(timer.cancel_all().is_empty());
}

#[test]
fn a_sleep_of_the_engine_is_ready_when_its_answer_is_dropped() {
    let timer = one_shard().drive(Drive::Manual).build().unwrap();
    let mut sleep = timer.sleep(HOUR);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(sleep.poll_sleep(&mut cx).is_pending());
    let all = timer.cancel_all();
    assert_eq!(all.len(), 1);
    drop(all);
    let Poll::Ready(Err(error)) = sleep.poll_sleep(&mut cx) else {
        panic!("it ends with its timer");
    };
    assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
    assert!(sleep.poll_sleep(&mut cx).is_pending(), "armed anew");
}

/// Timers come due, are cancelled by key and by `cancel_all` at once: each has one end.
#[test]
fn each_timer_ends_once_while_others_fire_and_cancel() {
    const TIMERS: u64 = 20_000;
    let (done, fired) = channel();
    let builder = Builder::new().shards(2).pinning(Pinning::Off).tick(us(100));
    let timer: Timer<u64> = builder
        .build_with(move |expired: Expired<u64>| done.send(expired.payload).unwrap())
        .unwrap();
    let ends = |timer: &Timer<u64>| -> Vec<u64> {
        let all = timer.cancel_all();
        all.into_iter().map(|unfired| unfired.payload).collect()
    };
    let is_over = AtomicBool::new(false);
    let mut ended = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut mine = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                mine.extend(ends(&timer));
            }
            mine
        });
        let (mut mine, mut keys) = (Vec::new(), Vec::new());
        for id in 0..TIMERS {
            keys.push(timer.schedule(us(50 + id % 3_000), id).unwrap());
            if id % 3 == 0 {
                mine.extend(timer.cancel(keys[keys.len() / 2]).into_payload());
            }
        }
        is_over.store(true, Ordering::Relaxed);
        mine.extend(other.join().unwrap());
        mine
    });
    ended.extend(ends(&timer));
    // The handler's part in the channel goes with the engine.
    assert!(timer.stop().unwrap().is_empty());
    drop(timer);
    ended.extend(fired);
    ended.sort_unstable();
    assert!(ended.into_iter().eq(0..TIMERS), "each one, once");
}

/// What another thread cancels meanwhile does not keep it from the rest.
#[test]
fn cancel_all_passes_over_what_others_cancel_meanwhile() {
    const TIMERS: u64 = 4_000;
    let builder = one_shard().drive(Drive::Manual);
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    for _ in 0..20 {
        let keys: Vec<_> = (0..TIMERS)
            .map(|id| timer.schedule(HOUR, id).unwrap())
            .collect();
        let gate = Barrier::new(2);
        let (all, others) = thread::scope(|scope| {
            let other = scope.spawn(|| {
                gate.wait();
                // From the end, so that it meets a list that has been begun at the front.
                let cancelled = keys.iter().rev().step_by(2).map(|key| timer.cancel(*key));
                cancelled.filter(Cancel::is_won).count()
            });
            gate.wait();
            (timer.cancel_all().len(), other.join().unwrap())
        });
        assert_eq!((timer.pending(), all + others), (0, TIMERS as usize));
    }
}
