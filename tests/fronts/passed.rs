//! What has passed is due at once, however long a tick is: what the models do not show of it.

use super::{MS, NOW, by_hand, event_loop, fronts, sorted, sorted_keys, standing};
use crate::support::setup::{HOUR, one_shard, recording, us};
use std::time::{Duration, Instant};
use tickwheel::{Drive, LocalTimer, MissedTicks, Period, Time, When};

#[test]
fn a_first_period_that_has_passed_is_due_at_once_whatever_the_tick() {
    let every_day = Period::fixed_rate(24 * HOUR, MissedTicks::Skip);
    let past = NOW - 4000 * MS;
    let firsts = [
        Duration::ZERO.into(),
        NOW.into(),
        past.into(),
        When::from(NOW + MS),
    ];
    let hours = |hours: [u32; 4]| hours.map(|hours| Some(Time::ZERO + hours * HOUR));
    for mut timer in fronts(HOUR) {
        let keys = firsts.map(|first| timer.arm_periodic(first, every_day));
        assert_eq!(keys.map(|key| timer.deadline(key)), hours([0, 0, 0, 1]));
        assert_eq!(sorted_keys(&timer.fire()), sorted(&keys[..3]));
        // The next one is counted from what was asked for, and rounded up.
        assert_eq!(keys.map(|key| timer.deadline(key)), hours([25, 25, 25, 1]));
        assert!(timer.move_to(keys[3], past.into()));
        assert_eq!(sorted_keys(&timer.fire()), [keys[3]]);
    }
    let timer = by_hand(HOUR, standing()).build().unwrap();
    let _ = timer.repeat(Duration::ZERO, every_day, || ()).unwrap();
    assert_eq!(timer.turn(), Ok(1));
}

#[test]
fn past_deadlines_are_due_immediately_on_every_front() {
    let past = NOW - 4000 * MS;
    let instant = Instant::now()
        .checked_sub(MS)
        .expect("the machine runs for longer");
    let mixed = || {
        let ahead = NOW + MS;
        let slack = When::from(past).with_slack(100 * MS);
        [
            When::from(Duration::ZERO),
            past.into(),
            slack,
            instant.into(),
            MS.into(),
            ahead.into(),
        ]
    };
    let timers = || mixed().into_iter().zip(0..);
    let mut timer = event_loop(HOUR, standing());
    for (when, id) in timers() {
        timer.remote().schedule(when, id).unwrap();
    }
    timer.remote().schedule(instant, 5).unwrap();
    assert_eq!(timer.poll(NOW, |_| ()).fired, 5);
    let (timer, _) = recording(by_hand(HOUR, standing()));
    for (when, id) in timers() {
        timer.schedule(when, id).unwrap();
        timer.schedule(when, id).unwrap();
    }
    timer.schedule(past, 5).unwrap();
    let moved = timer.schedule(HOUR, 6).unwrap();
    assert!(timer.reschedule(moved, past).is_moved());
    timer.schedule(instant, 7).unwrap();
    assert!(
        timer
            .schedule_handle(HOUR, 8)
            .unwrap()
            .reschedule(past)
            .is_moved()
    );
    assert_eq!((timer.turn(), timer.pending()), (Ok(12), 4));
}

#[test]
fn an_instant_in_the_past_is_due_immediately() {
    let (timer, _) = recording(one_shard().tick(HOUR).drive(Drive::Manual));
    for round in 0..1000 {
        let _ = timer.schedule(timer.now(), round).unwrap();
        let _ = timer.schedule(Instant::now(), round).unwrap();
        let _ = timer.schedule(timer.now() - MS, round).unwrap();
        assert_eq!((timer.turn(), timer.pending()), (Ok(3), 0));
    }
    let ahead = timer.schedule_handle(timer.now() + 60_000 * MS, 1).unwrap();
    assert_eq!((timer.turn(), ahead.is_pending()), (Ok(0), true));
}

/// 9 s are said to be now, so a poll that is told of an earlier time counts as one at 9 s.
#[test]
fn no_timer_is_early_when_a_loops_time_goes_back() {
    for deadline in [NOW, NOW - MS] {
        let mut lateness = Vec::new();
        let mut timer = event_loop(HOUR, standing());
        timer.schedule(NOW, deadline, 1).unwrap();
        timer.poll(NOW - 2 * MS, |expired| lateness.push(expired.lateness));
        let mut timer = LocalTimer::new(HOUR).unwrap();
        timer.schedule(NOW, deadline, 1).unwrap();
        timer.poll(NOW - 2 * MS, |expired| lateness.push(expired.lateness));
        assert_eq!(lateness, [NOW - Time::ZERO; 2]);
    }
}

/// The later calls of a periodic timer are counted from where it was moved, be it the tick to which it goes anyway.
#[test]
fn a_move_to_the_same_tick_counts_on_every_front() {
    let period = Period::fixed_rate(us(1500), MissedTicks::Burst);
    for mut timer in fronts(MS) {
        let key = timer.arm_periodic((NOW - us(500)).into(), period);
        assert!(timer.deadline(key) == Some(NOW) && timer.move_to(key, NOW.into()));
        assert_eq!(timer.fire().len(), 1);
        assert_eq!(timer.deadline(key), Some(NOW + 2 * MS));
    }
}
