//! `Timeout` and `Interval`.

use crate::rig::{Bell, Rig, block_on, poll};
use crate::support::setup::{HOUR, ms};
use std::future::{pending, poll_fn, ready};
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel::{Interval, MissedTicks, Period, Time, TimeoutError};

#[test]
fn what_is_ready_in_time_has_its_output() {
    let rig = Rig::new();
    let bell = Bell::new();
    assert_eq!(poll(&mut rig.timer.timeout(ms(5), ready(7)), &bell), Poll::Ready(Ok(7)));
    assert_eq!(poll(&mut rig.timer.timeout(ms(0), ready(7)), &bell), Poll::Ready(Ok(7)));
    assert_eq!(rig.timer.stats().scheduled(), 0, "ready at once: no timer");
    let mut polls = 0;
    let second = poll_fn(|_| {
        polls += 1;
        if polls == 2 { Poll::Ready(7) } else { Poll::Pending }
    });
    let mut timed = rig.timer.timeout(ms(5), second);
    assert!(poll(&mut timed, &bell).is_pending());
    rig.pass(HOUR);
    assert_eq!(poll(&mut timed, &bell), Poll::Ready(Ok(7)), "asked first, though it is late");
}

#[test]
fn what_is_not_ready_has_elapsed() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut timed = rig.timer.timeout(ms(5), pending::<()>());
    assert!(poll(&mut timed, &bell).is_pending());
    rig.pass(ms(4));
    assert!(poll(&mut timed, &bell).is_pending());
    std::pin::Pin::new(&mut timed).reset(ms(5));
    assert_eq!((rig.pass(ms(4)), bell.rings()), (0, 0));
    rig.pass(ms(1));
    let elapsed = poll(&mut timed, &bell);
    assert_eq!((elapsed, bell.rings()), (Poll::Ready(Err(TimeoutError::Elapsed)), 1));
    let _: &std::future::Pending<()> = timed.get_ref();
    drop(timed.into_inner());
    let mut stopped = rig.timer.timeout(ms(5), pending::<()>());
    rig.timer.stop().unwrap();
    let Poll::Ready(Err(error)) = poll(&mut stopped, &bell) else { panic!("no timer, no wait") };
    assert!(!error.is_elapsed() && matches!(error, TimeoutError::Sleep(_)));
}

#[test]
fn what_has_elapsed_is_not_polled_again_until_it_has_more_time() {
    let rig = Rig::new();
    let (bell, mut polls) = (Bell::new(), 0);
    let mut timed = rig.timer.timeout(
        ms(5),
        poll_fn(|_| {
            polls += 1;
            if polls == 3 { Poll::Ready(7) } else { Poll::Pending }
        }),
    );
    assert!(poll(&mut timed, &bell).is_pending());
    rig.pass(ms(5));
    for _ in 0..3 {
        assert_eq!(poll(&mut timed, &bell), Poll::Ready(Err(TimeoutError::Elapsed)));
    }
    std::pin::Pin::new(&mut timed).reset(ms(5));
    assert_eq!(poll(&mut timed, &bell), Poll::Ready(Ok(7)));
    drop(timed);
    assert_eq!(polls, 3);
}

#[test]
fn the_shared_engine_times_out() {
    let start = Instant::now();
    assert_eq!(block_on(tickwheel::timeout(ms(10), pending::<()>())), Err(TimeoutError::Elapsed));
    let until = start + ms(20);
    let timed = tickwheel::timeout_at(until, pending::<()>());
    assert_eq!(block_on(timed), Err(TimeoutError::Elapsed));
    assert!(Instant::now() >= until);
    assert_eq!(block_on(tickwheel::timeout(HOUR, async { 7 })), Ok(7));
}

fn at(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

/// The ticks that are ready now.
fn ticks(interval: &mut Interval) -> Vec<Time> {
    let mut ticks = Vec::new();
    while let Poll::Ready(tick) = poll(&mut Box::pin(interval.tick()), &Bell::new()) {
        ticks.push(tick.unwrap());
    }
    ticks
}

#[test]
fn a_rate_does_not_drift_and_each_policy_makes_up_its_way() {
    for (missed, late) in [
        (MissedTicks::Skip, vec![at(30)]),
        (MissedTicks::Delay, vec![at(30)]),
        (MissedTicks::Burst, vec![at(30), at(40), at(50), at(60)]),
    ] {
        let rig = Rig::new();
        let period = Period::fixed_rate(ms(10), missed).unwrap();
        let mut interval = rig.timer.interval(ms(10), period);
        assert_eq!(interval.period(), period);
        assert!(ticks(&mut interval).is_empty());
        rig.pass(ms(10));
        assert_eq!(ticks(&mut interval), [at(10)]);
        rig.pass(ms(14));
        assert_eq!(ticks(&mut interval), [at(20)], "late within its period");
        rig.pass(ms(41));
        assert_eq!(ticks(&mut interval), late, "{missed:?}: three are missed");
        let next = if missed == MissedTicks::Delay { at(75) } else { at(70) };
        rig.pass(ms(4));
        assert!(ticks(&mut interval).is_empty());
        rig.pass(next.saturating_duration_since(rig.timer.now()));
        assert_eq!(ticks(&mut interval), [next]);
    }
}

#[test]
fn a_pause_begins_when_the_next_tick_is_asked_for() {
    let rig = Rig::new();
    let mut interval = rig.timer.interval(Duration::ZERO, Period::fixed_delay(ms(10)).unwrap());
    let bell = Bell::new();
    assert!(poll(&mut Box::pin(interval.tick()), &bell).is_ready());
    rig.pass(ms(7));
    assert!(poll(&mut Box::pin(interval.tick()), &bell).is_pending());
    rig.pass(ms(9));
    assert!(poll(&mut Box::pin(interval.tick()), &bell).is_pending(), "a dropped tick is not lost");
    rig.pass(ms(1));
    assert_eq!(poll(&mut Box::pin(interval.tick()), &bell), Poll::Ready(Ok(at(17))));
    interval.reset(ms(3));
    assert!(poll(&mut Box::pin(interval.tick()), &bell).is_pending());
    rig.pass(ms(3));
    assert_eq!(poll(&mut Box::pin(interval.tick()), &bell), Poll::Ready(Ok(at(20))));
}

#[test]
fn the_shared_engine_ticks() {
    let start = Instant::now();
    let period = Period::fixed_rate(ms(5), MissedTicks::Skip).unwrap();
    let mut interval = tickwheel::interval(period);
    for _ in 0..3 {
        block_on(interval.tick()).unwrap();
    }
    assert!(start.elapsed() >= ms(10));
    let first = Instant::now() + ms(5);
    block_on(tickwheel::interval_at(first, period).tick()).unwrap();
    assert!(Instant::now() >= first);
}
