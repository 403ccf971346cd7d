//! Periodic timers in a loop: what it is told of when to poll.

use crate::{MS, manual};
use std::time::Duration;
use tickwheel::{EventLoopTimer, Period, Time};

#[test]
fn a_loop_whose_handler_swaps_the_timer_comes_back_for_it() {
    let delay = Period::fixed_delay(10 * MS).unwrap();
    for (period, next) in [(delay, 23), (Period::from(10 * MS), 20)] {
        let next = Time::ZERO + MS * next;
        let ((mut timer, clock, _), (mut other, ..)) = (manual::<u64>(), manual::<u64>());
        let key = timer
            .schedule_periodic(Time::ZERO, 10 * MS, period, 1)
            .unwrap();
        let now = clock.advance(10 * MS);
        let polled = timer.poll_with(now, |timer, _| std::mem::swap(timer, &mut other));
        assert_eq!((polled.fired, other.pending()), (1, 1));
        std::mem::swap(&mut timer, &mut other);
        // It goes on when the timer is polled: a loop that asks first must not sleep on.
        let now = clock.advance(3 * MS);
        assert_eq!(timer.poll_timeout(now), Some(Duration::ZERO));
        assert!(timer.next_deadline().is_some_and(|next| next <= now));
        assert_eq!(timer.poll(now, |_| ()).fired, 0);
        assert_eq!(
            (timer.deadline(key), timer.next_deadline()),
            (Some(next), Some(next))
        );
        assert_eq!(timer.poll_timeout(now), Some(next - now));
        assert_eq!(timer.poll(next, |_| ()).fired, 1);
    }
}

/// The loop is told a time that its own clock has not come to, or has forgotten.
#[test]
fn a_call_that_ends_before_it_began_counts_from_its_beginning() {
    let (mut timer, clock, _) = manual::<u64>();
    let pause = Period::fixed_delay(10 * MS).unwrap();
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
    let (mut timer, clock, _) = manual::<u64>();
    timer
        .schedule_periodic(Time::ZERO, Duration::ZERO, Period::from(10 * MS), 1)
        .unwrap();
    let polled = timer.poll_with(clock.now(), |timer: &mut EventLoopTimer<u64>, _| {
        assert!(timer.pending() == 1 && timer.next_deadline().is_some());
        assert_eq!(timer.poll_timeout(clock.now()), Some(Duration::ZERO));
    });
    assert_eq!(
        (polled.fired, timer.next_deadline()),
        (1, Some(Time::ZERO + 10 * MS))
    );
}
