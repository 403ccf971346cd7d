//! What Dubbo's copy of the hashed wheel checks beyond Netty's own suite.

use crate::support::setup::{
    HOUR, Setup, ms, one_shard, recording, reflexive, secs, set_of, wait_until,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use tickwheel::{BuildError, Builder, Cancel, StopError, Time, Timer, WheelKind};

/// The wheel that the reference's suite builds: 8 buckets, here of 1 ms.
fn dubbo() -> Builder {
    one_shard().wheel(WheelKind::Hashed { buckets: 8 })
}

#[test]
fn dubbo_refuses_bad_arguments() {
    let refused = |builder: Builder| builder.build().expect_err("a bad argument");
    let hashed = |buckets| dubbo().wheel(WheelKind::Hashed { buckets });
    assert_eq!(
        refused(dubbo().tick(Duration::ZERO)),
        BuildError::TickOutOfRange { tick: Duration::ZERO }
    );
    assert_eq!(refused(hashed(0)), BuildError::BucketsOutOfRange { buckets: 0 });
    let most = usize::MAX;
    assert_eq!(refused(hashed(most)), BuildError::BucketsOutOfRange { buckets: most });
    assert!(matches!(refused(dubbo().tick(Duration::MAX)), BuildError::TickOutOfRange { .. }));
    assert_eq!(refused(dubbo().max_pending(0)), BuildError::ZeroMaxPending);
    assert_eq!(refused(dubbo().shards(0)), BuildError::ShardsOutOfRange { shards: 0 });
}

#[test]
fn dubbo_creates_tasks_that_each_run_once() {
    let at = Setup::with_workers();
    let timer = dubbo().clock(at.clock.clone()).build().unwrap();
    let ran = Arc::new(AtomicU32::new(0));
    for n in 0..100 {
        let ran = Arc::clone(&ran);
        let task = move || {
            ran.fetch_add(1, Ordering::SeqCst);
        };
        timer.run_after(ms(n % 10), task).unwrap();
    }
    at.advance(&timer, ms(10));
    assert_eq!(ran.load(Ordering::SeqCst), 100);
    assert!(timer.stop().unwrap().is_empty());
}

#[test]
fn dubbo_tolerates_a_task_that_throws() {
    let (sender, receiver) = channel();
    let timer = dubbo().build().unwrap();
    timer.run_after(Duration::ZERO, || panic!("the task throws")).unwrap();
    timer.run_after(ms(2), move || sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(secs(20)).expect("the worker lives on");
    assert_eq!(timer.stats().panics(), 1);
    timer.stop().unwrap();
}

#[test]
fn dubbo_cancel_after_the_task_has_run_is_false() {
    let (timer, fired) = recording(dubbo());
    let timeout = timer.schedule(ms(1), 1).unwrap();
    wait_until("it has fired", || fired.len() == 1);
    assert_eq!(timeout.cancel(), Cancel::Lost);
    assert!(timeout.is_expired() && !timeout.is_cancelled());
    timer.stop().unwrap();
}

#[test]
fn dubbo_a_cancelled_task_does_not_run() {
    let at = Setup::with_workers();
    let (timer, fired) = recording(dubbo().clock(at.clock.clone()));
    let timeouts: Vec<_> = (0..20).map(|id| timer.schedule(ms(1), id).unwrap()).collect();
    assert!(timeouts.iter().step_by(2).all(|timeout| timeout.cancel().won()));
    at.advance(&timer, ms(1));
    assert_eq!(set_of(fired.ids()), (0..20).filter(|id| id % 2 == 1).collect());
    timer.stop().unwrap();
}

#[test]
fn dubbo_keeps_to_its_limit_of_pending_timers() {
    let (timer, _fired) = recording(dubbo().max_pending(8));
    for id in 0..8 {
        timer.schedule(HOUR, id).unwrap();
    }
    assert_eq!(timer.schedule(HOUR, 8).unwrap_err().into_payload(), 8);
    assert_eq!(timer.pending(), 8, "exactly the limit");
    timer.stop().unwrap();
}

#[test]
fn dubbo_runs_a_negative_delay_at_once() {
    let at = Setup::with_workers();
    let (timer, fired) = recording(dubbo().clock(at.clock.clone()));
    at.advance(&timer, secs(5));
    // A delay cannot be negative here; a deadline may lie in the past.
    timer.schedule(Time::ZERO + secs(4), 1).unwrap();
    timer.schedule_key(Time::ZERO, 2).unwrap();
    at.wait_idle(&timer);
    assert_eq!(set_of(fired.ids()), set_of([1, 2]));
    timer.stop().unwrap();
}

#[test]
fn dubbo_refuses_stop_inside_a_task() {
    let (sender, receiver) = channel();
    let timer = reflexive(dubbo(), move |timer: &Timer<u64>, _| {
        sender.send(timer.stop().map(|rest| rest.len())).unwrap();
    });
    timer.schedule(ms(1), 1).unwrap();
    let answer = receiver.recv_timeout(secs(20)).unwrap();
    assert_eq!(answer, Err(StopError::InsideHandler));
    timer.stop().unwrap();
}

#[test]
fn dubbo_says_whether_it_is_stopped() {
    let (timer, _fired) = recording(dubbo());
    assert!(!timer.is_stopped());
    timer.schedule(HOUR, 1).unwrap();
    assert!(!timer.is_stopped());
    assert_eq!(timer.stop().unwrap().len(), 1);
    assert!(timer.is_stopped());
    assert!(timer.clone().is_stopped(), "by any handle");
}

#[test]
fn dubbo_stop_returns_what_did_not_run() {
    let at = Setup::with_workers();
    let (timer, fired) = recording(dubbo().clock(at.clock.clone()));
    for id in 0..10 {
        timer.schedule(secs(id), id).unwrap();
    }
    at.advance(&timer, secs(4));
    assert_eq!(set_of(fired.ids()), (0..5).collect());
    let returned = timer.stop().unwrap();
    assert_eq!(set_of(returned.iter().map(|unfired| unfired.payload)), (5..10).collect());
    timer.schedule(secs(1), 11).unwrap_err();
}
