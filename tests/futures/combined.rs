//! `Timeout` and `Interval`.

use crate::children::in_a_process_of_its_own;
use crate::rig::{Bell, Rig, poll};
use crate::support::setup::{HOUR, ms};
use std::future::{pending, poll_fn, ready};
use std::task::Poll;
use tickwheel::{
    Elapsed, Interval, MissedTicks, Period, ScheduleErrorKind, Sleep, SleepError, Time,
    TimeoutError,
};

#[test]
fn a_future_that_is_ready_in_time_returns_its_output() {
    let rig = Rig::new();
    let bell = Bell::new();
    assert_eq!(
        poll(&mut rig.timer.timeout(ms(5), ready(7)), &bell),
        Poll::Ready(Ok(7))
    );
    assert_eq!(
        poll(&mut rig.timer.timeout(ms(0), ready(7)), &bell),
        Poll::Ready(Ok(7))
    );
    assert_eq!(rig.timer.stats().scheduled, 0, "ready at once: no timer");
    let mut polls = 0;
    let second = poll_fn(|_| {
        polls += 1;
        if polls == 2 {
            Poll::Ready(7)
        } else {
            Poll::Pending
        }
    });
    let mut timed = rig.timer.timeout(ms(5), second);
    assert!(poll(&mut timed, &bell).is_pending());
    rig.pass(HOUR);
    assert_eq!(
        poll(&mut timed, &bell),
        Poll::Ready(Ok(7)),
        "asked first, though it is late"
    );
}

#[test]
fn a_future_that_is_not_ready_elapses() {
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
    assert_eq!(
        (elapsed, bell.rings()),
        (Poll::Ready(Err(TimeoutError::Elapsed)), 1)
    );
    let _: &std::future::Pending<()> = timed.get_ref();
    drop(timed.into_inner());
    let mut stopped = rig.timer.timeout(ms(5), pending::<()>());
    rig.timer.stop().unwrap();
    let Poll::Ready(Err(error)) = poll(&mut stopped, &bell) else {
        panic!("no timer, no wait")
    };
    assert!(matches!(error, TimeoutError::Sleep(_)));
}

#[test]
fn an_elapsed_timeout_polls_its_future_only_after_a_reset() {
    let rig = Rig::new();
    let (bell, mut polls) = (Bell::new(), 0);
    let mut timed = rig.timer.timeout(
        ms(5),
        poll_fn(|_| {
            polls += 1;
            if polls == 3 {
                Poll::Ready(7)
            } else {
                Poll::Pending
            }
        }),
    );
    assert!(poll(&mut timed, &bell).is_pending());
    rig.pass(ms(5));
    for _ in 0..3 {
        assert_eq!(
            poll(&mut timed, &bell),
            Poll::Ready(Err(TimeoutError::Elapsed))
        );
    }
    std::pin::Pin::new(&mut timed).reset(ms(5));
    assert_eq!(poll(&mut timed, &bell), Poll::Ready(Ok(7)));
    drop(timed);
    assert_eq!(polls, 3);
}

#[test]
fn an_elapsed_timeout_stays_elapsed() {
    let (bell, mut polls) = (Bell::new(), 0);
    let mut timed = tickwheel::timeout(
        ms(0),
        poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        }),
    );
    for _ in 0..2 {
        assert_eq!(poll(&mut timed, &bell), Poll::Ready(Err(Elapsed)));
    }
    drop(timed);
    assert_eq!(polls, 1);
}

fn at(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

/// The ticks that are ready now.
fn ticks(interval: &mut Interval<SleepError>) -> Vec<Time> {
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
        let mut interval = rig.timer.interval_at(ms(10), ms(10)).missed_ticks(missed);
        assert_eq!(interval.period(), Period::fixed_rate(ms(10), missed));
        assert!(ticks(&mut interval).is_empty());
        rig.pass(ms(10));
        assert_eq!(ticks(&mut interval), [at(10)]);
        rig.pass(ms(14));
        assert_eq!(ticks(&mut interval), [at(20)], "late within its period");
        rig.pass(ms(41));
        assert_eq!(ticks(&mut interval), late, "{missed:?}: three are missed");
        let next = if missed == MissedTicks::Delay {
            at(75)
        } else {
            at(70)
        };
        rig.pass(ms(4));
        assert!(ticks(&mut interval).is_empty());
        rig.pass(next.saturating_duration_since(rig.timer.now()));
        assert_eq!(ticks(&mut interval), [next]);
    }
}

#[test]
fn a_pause_begins_when_the_next_tick_is_asked_for() {
    let rig = Rig::new();
    let mut interval = rig.timer.interval(Period::fixed_delay(ms(10)));
    let bell = Bell::new();
    assert!(poll(&mut Box::pin(interval.tick()), &bell).is_ready());
    rig.pass(ms(7));
    assert!(poll(&mut Box::pin(interval.tick()), &bell).is_pending());
    rig.pass(ms(9));
    assert!(
        poll(&mut Box::pin(interval.tick()), &bell).is_pending(),
        "a dropped tick is not lost"
    );
    rig.pass(ms(1));
    assert_eq!(
        poll(&mut Box::pin(interval.tick()), &bell),
        Poll::Ready(Ok(at(17)))
    );
    interval.reset_after(ms(3));
    assert!(poll(&mut Box::pin(interval.tick()), &bell).is_pending());
    rig.pass(ms(3));
    assert_eq!(
        poll(&mut Box::pin(interval.tick()), &bell),
        Poll::Ready(Ok(at(20)))
    );
}

#[test]
fn a_reset_counts_the_later_ticks_from_there() {
    let rig = Rig::new();
    let mut interval = rig.timer.interval(ms(10));
    assert_eq!(ticks(&mut interval), [at(0)]);
    rig.pass(ms(7));
    interval.reset();
    rig.pass(ms(9));
    assert!(ticks(&mut interval).is_empty());
    rig.pass(ms(1));
    assert_eq!(ticks(&mut interval), [at(17)]);
    rig.pass(ms(4));
    interval.reset_immediately();
    rig.pass(ms(0));
    assert_eq!(ticks(&mut interval), [at(21)]);
    interval.reset_after(ms(3));
    rig.pass(ms(12));
    assert_eq!(ticks(&mut interval), [at(24)]);
    rig.pass(ms(1));
    assert_eq!(ticks(&mut interval), [at(34)]);
}

/// A sleep that has panicked may be asked again.
#[test]
fn the_free_futures_panic_where_others_return_an_error() {
    if in_a_process_of_its_own(the_free_futures_panic_where_others_return_an_error, &[]) {
        return;
    }
    let message = |poll: &mut dyn FnMut()| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)).unwrap_err();
        *panic.downcast::<String>().unwrap()
    };
    let mut armed: Sleep<SleepError> = tickwheel::sleep(HOUR).into();
    assert!(poll(&mut armed, &Bell::new()).is_pending());
    tickwheel::global().unwrap().stop().unwrap();
    let stopped = Poll::Ready(Err(SleepError::from(ScheduleErrorKind::Stopped)));
    assert_eq!(poll(&mut armed, &Bell::new()), stopped);
    let bell = Bell::new();
    let mut sleep = tickwheel::sleep(HOUR);
    let mut timeout = tickwheel::timeout(HOUR, pending::<()>());
    let mut interval = tickwheel::interval_at(HOUR, HOUR);
    for message in [
        message(&mut || _ = poll(&mut sleep, &bell)),
        message(&mut || _ = poll(&mut timeout, &bell)),
        message(&mut || _ = poll(&mut Box::pin(interval.tick()), &bell)),
    ] {
        assert!(
            message.contains("the shared engine") && message.contains("stopped"),
            "{message}"
        );
    }
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert_eq!(sleep.poll_sleep(&mut cx), stopped);
    assert_eq!(
        poll(&mut tickwheel::timeout(HOUR, ready(7)), &bell),
        Poll::Ready(Ok(7))
    );
}
