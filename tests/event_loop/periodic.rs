//! Periodic timers in a loop: what it is told of when to poll.

use crate::support::breakable::Breakable;
use crate::{HOUR, MS, manual};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tickwheel::{EventLoopTimer, Period, Settings, Time, TimerTask};

/// The loop is told a time that its own clock has not come to, or has forgotten.
#[test]
fn a_call_that_ends_before_it_began_counts_from_its_beginning() {
    let (mut timer, clock, _) = manual::<u64>();
    let pause = Period::fixed_delay(10 * MS);
    let key = timer
        .schedule_periodic(Time::ZERO, Duration::ZERO, pause, 1)
        .unwrap();
    let told = clock.now() + 100 * MS;
    assert_eq!(timer.poll(told, |_| ()).fired, 1);
    assert_eq!(timer.deadline(key), Some(told + 10 * MS));
    assert_eq!(timer.poll(told + 9 * MS, |_| ()).fired, 0);
    assert_eq!(timer.poll(told + 10 * MS, |_| ()).fired, 1);
}

#[test]
fn in_a_periodic_call_there_is_a_next_deadline() {
    for remotely in [false, true] {
        let (mut timer, clock, _) = manual::<u64>();
        let (now, period) = (Duration::ZERO, Period::from(10 * MS));
        if remotely {
            _ = timer.remote().schedule_periodic(now, period, 1).unwrap();
        } else {
            _ = timer.schedule_periodic(Time::ZERO, now, period, 1).unwrap();
        }
        let next = Time::ZERO + 10 * MS;
        let polled = timer.poll_with(clock.now(), |timer: &mut EventLoopTimer<u64>, _| {
            assert_eq!(timer.pending(), 1);
            assert_eq!(timer.next_deadline(), Some(next));
        });
        assert_eq!((polled.fired, timer.next_deadline()), (1, Some(next)));
    }
}

/// A second panic, on the way of the handler's, would end the process.
#[test]
fn a_call_whose_end_the_clock_does_not_tell_counts_from_its_poll() {
    let clock = Breakable::default();
    let settings = Settings::new().clock(clock.clone());
    let mut timer: EventLoopTimer<u64> = EventLoopTimer::with_waker(settings, || ()).unwrap();
    let pause = Period::fixed_delay(10 * MS);
    let key = timer
        .schedule_periodic(Time::ZERO, Duration::ZERO, pause, 1)
        .unwrap();
    clock.set_broken(true);
    assert_eq!(timer.poll(Time::ZERO, |_| ()).fired, 1);
    let now = Time::ZERO + 10 * MS;
    assert_eq!(timer.deadline(key), Some(now));
    let poll = || timer.poll(now, |_| panic!("the handler"));
    assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
    let next = Some(now + 10 * MS);
    assert_eq!((timer.deadline(key), timer.pending()), (next, 1));
    clock.set_broken(false);
}

/// A closure that is called again and again, given by the loop and by another thread: its state stays with it.
#[test]
fn closures_repeat_on_the_loop_whoever_schedules_them() {
    let (mut timer, clock, _) = manual::<TimerTask>();
    let (told, calls) = std::sync::mpsc::channel();
    let counting = |name: &'static str| {
        let (told, mut calls) = (told.clone(), 0);
        move || {
            calls += 1;
            told.send((name, calls)).unwrap();
        }
    };
    let own = timer.repeat(clock.now(), MS, 10 * MS, counting("own"));
    let remote = timer.remote();
    let other = remote.repeat(2 * MS, Period::fixed_delay(10 * MS), counting("other"));
    for _ in 0..25 {
        clock.advance(MS);
        timer.poll(clock.now(), |expired| expired.payload.run());
    }
    let expected = [1, 2, 3].map(|n| [("own", n), ("other", n)]);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), expected.concat());
    assert!(timer.cancel(own.unwrap()).is_won() && timer.cancel(other.unwrap()).is_won());
    clock.advance(HOUR);
    assert_eq!(timer.poll(clock.now(), |_| ()).fired, 0);
}

/// A payload that cannot be cloned for a call.
struct Stubborn;

impl Clone for Stubborn {
    fn clone(&self) -> Self {
        panic!("a payload's Clone");
    }
}

#[test]
fn a_call_that_is_left_out_counts_as_none() {
    for remotely in [false, true] {
        let (mut timer, clock, _) = manual::<Stubborn>();
        let remote = timer.remote();
        let (first, period) = (Duration::ZERO, Period::from(10 * MS));
        if remotely {
            _ = remote.schedule_periodic(first, period, Stubborn).unwrap();
            remote.schedule(first, Stubborn).unwrap();
        } else {
            _ = timer
                .schedule_periodic(clock.now(), first, period, Stubborn)
                .unwrap();
            timer.schedule(clock.now(), first, Stubborn).unwrap();
        }
        assert_eq!(timer.poll(clock.now(), |_| ()).fired, 1, "the other timer");
        assert_eq!(timer.poll(clock.advance(10 * MS), |_| ()).fired, 0);
        let stats = timer.stats();
        assert_eq!((stats.fired, stats.panics, stats.pending), (1, 2, 1));
    }
}
