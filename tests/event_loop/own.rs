//! A loop's own timers beside those of its remotes: what is common to both kinds.

use crate::{HOUR, MS, manual};
use std::collections::HashSet;
use std::time::Duration;
use tickwheel::{
    Budget, EventLoopTimer, Key, Period, RemoteKey, ScheduleErrorKind, Settings, Time,
};

/// Schedules `id`, odd ones as the loop's own.
fn arm(timer: &mut EventLoopTimer<u64>, delay: Duration, id: u64) -> Key<u64> {
    if id % 2 == 1 {
        timer.schedule(Time::ZERO, delay, id).unwrap()
    } else {
        timer.remote().schedule(delay, id).unwrap().into()
    }
}

#[test]
fn both_kinds_fire_tick_by_tick_within_one_budget() {
    const TIMERS: u64 = 2_000;
    const BUDGET: usize = 7;
    let (mut timer, clock, _) = manual();
    timer.set_budget(Budget::new().fire(BUDGET));
    // All ticks of half a second, in disorder; both kinds have each of them.
    for id in 0..TIMERS {
        arm(&mut timer, MS * (1 + (id / 2 * 379 % 500) as u32), id);
    }
    let (mut deadlines, mut kinds) = (Vec::new(), [0; 2]);
    clock.advance(HOUR);
    loop {
        let mut most = 0;
        let polled = timer.poll(clock.now(), |it| {
            deadlines.push(it.deadline);
            kinds[it.payload as usize % 2] += 1;
            assert_eq!(it.shard, 1 - it.payload as usize % 2);
            most += 1;
        });
        assert!(polled.fired == most && most <= BUDGET);
        if !polled.more {
            break;
        }
    }
    assert!(deadlines.is_sorted());
    assert_eq!(kinds, [TIMERS / 2; 2]);
}

/// What a handler schedules or pulls in fires in a later poll, whichever kind it is.
#[test]
fn what_a_handler_does_waits_for_the_next_poll() {
    let (mut timer, clock, _) = manual();
    let later = [1, 2].map(|id| arm(&mut timer, HOUR, id));
    arm(&mut timer, Duration::ZERO, 0);
    let now = clock.now();
    let polled = timer.poll_with(now, |timer, _| {
        for key in later {
            assert!(timer.reschedule(now, key, Duration::ZERO).is_moved());
        }
        for id in [3, 4] {
            arm(timer, Duration::ZERO, id);
        }
        assert_eq!(timer.poll(now, |_| panic!("a poll in a poll")).fired, 0);
    });
    assert_eq!(polled.fired, 1);
    assert_eq!(timer.poll_timeout(now), Some(Duration::ZERO));
    let mut fired = Vec::new();
    while timer.poll(now, |it| fired.push(it.payload)).more {}
    fired.sort_unstable();
    assert_eq!(fired, [1, 2, 3, 4]);
}

#[test]
fn one_limit_holds_for_both_kinds_together() {
    let settings = Settings::new().clock(tickwheel::ManualClock::new());
    let mut timer = EventLoopTimer::with_waker(settings.max_pending(2), || ()).unwrap();
    let remote = timer.remote();
    let full = |kind: ScheduleErrorKind| match kind {
        ScheduleErrorKind::TooManyPending {
            pending,
            max_pending,
        } => (pending, max_pending) == (2, 2),
        _ => false,
    };
    let own = timer.schedule(Time::ZERO, HOUR, 1).unwrap();
    let theirs = remote.schedule(Duration::ZERO, 2).unwrap();
    let is_full = |timer: &mut EventLoopTimer<u64>| {
        let own = timer.schedule(Time::ZERO, HOUR, 7).unwrap_err();
        let period = Period::from(HOUR);
        let periodic = timer
            .schedule_periodic(Time::ZERO, HOUR, period, 7)
            .unwrap_err();
        let theirs = remote.schedule(HOUR, 7).unwrap_err();
        let errors = [own, periodic, theirs];
        errors
            .into_iter()
            .all(|error| *error.payload() == 7 && full(error.into_kind()))
    };
    assert!(is_full(&mut timer));
    // A cancel, a fire and a drain give the permit back, to whichever kind comes next.
    assert!(timer.cancel(own).is_won());
    let period = Period::from(HOUR);
    let beat = remote.schedule_periodic(HOUR, period, 3).unwrap();
    assert!(is_full(&mut timer));
    assert_eq!(
        timer
            .poll(Time::ZERO, |it| assert_eq!(it.key, theirs.into()))
            .fired,
        1
    );
    timer.schedule(Time::ZERO, Duration::ZERO, 4).unwrap();
    assert!(is_full(&mut timer));
    assert_eq!(timer.poll(Time::ZERO, |_| ()).fired, 1);
    assert!(remote.cancel(beat).is_won());
    timer
        .schedule_periodic(Time::ZERO, Duration::ZERO, period, 5)
        .unwrap();
    remote.schedule(HOUR, 6).unwrap();
    // A periodic timer keeps its permit.
    assert_eq!(timer.poll(Time::ZERO, |_| ()).fired, 1);
    assert!(is_full(&mut timer));
    assert_eq!(timer.drain().count(), 2);
    timer.schedule(Time::ZERO, HOUR, 8).unwrap();
    remote.schedule(HOUR, 9).unwrap();
    assert!(is_full(&mut timer));
}

#[test]
fn a_loop_lists_drains_and_closes_both_kinds() {
    let (mut timer, ..) = manual();
    let keys: HashSet<_> = (0..10).map(|id| arm(&mut timer, HOUR, id)).collect();
    let listed: HashSet<_> = timer.keys().map(|(key, _)| key).collect();
    assert_eq!(listed, keys);
    let drained: HashSet<_> = timer.drain().map(|unfired| unfired.key).collect();
    assert_eq!(drained, keys);
    (0..10).for_each(|id| _ = arm(&mut timer, HOUR, id));
    timer.clear();
    assert!(timer.is_empty() && timer.stats().cancelled == 20);
    let keys: HashSet<_> = (0..10).map(|id| arm(&mut timer, HOUR, id)).collect();
    let remote = timer.remote();
    assert_eq!((remote.pending(), remote.stats().pending), (10, 10));
    let closed: HashSet<_> = timer.close().into_iter().map(|it| it.key).collect();
    assert_eq!(closed, keys);
    assert_eq!((remote.pending(), remote.stats().returned), (0, 10));
    assert!(remote.schedule(HOUR, 1).is_err());
}

/// The other kind's own calls see what the loop has done, and a key of the loop's own is no remote's.
#[test]
fn a_loop_cancels_moves_and_asks_about_both_kinds() {
    let (mut timer, clock, wakes) = manual();
    let (remote, now) = (timer.remote(), clock.now());
    let keys: Vec<_> = (0..4).map(|id| arm(&mut timer, HOUR, id)).collect();
    timer.poll(now, |_| panic!("nothing is due"));
    let theirs = |key: Key<u64>| RemoteKey::from_raw(key.to_raw());
    for (key, id) in keys.iter().zip(0..) {
        assert_eq!(theirs(*key).is_some(), id % 2 == 0);
        assert!(timer.reschedule(now, *key, 2 * MS).is_moved());
        assert_eq!(timer.deadline(*key), Some(now + 2 * MS));
        assert!(theirs(*key).is_none_or(|key| remote.deadline(key) == Some(now + 2 * MS)));
    }
    assert_eq!(timer.poll_timeout(now), Some(2 * MS));
    for (key, id) in keys[..2].iter().zip(0..) {
        assert_eq!(timer.cancel(*key).into_payload(), Some(id));
        assert!(!timer.is_pending(*key) && !timer.cancel(*key).is_won());
        assert!(!timer.reschedule(now, *key, MS).is_moved());
        assert!(theirs(*key).is_none_or(|key| !remote.is_pending(key)));
    }
    assert_eq!(timer.poll(now + MS, |_| ()).fired, 0);
    assert_eq!(timer.poll(now + 2 * MS, |_| ()).fired, 2);
    let stats = timer.stats();
    assert_eq!((stats.rescheduled, stats.cancelled, stats.fired), (4, 2, 2));
    assert_eq!(wakes.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[test]
fn a_loop_takes_both_kinds_to_another_thread() {
    let (mut timer, clock, _) = manual();
    let keys: Vec<_> = (0..4).map(|id| arm(&mut timer, MS, id)).collect();
    let other = std::thread::spawn(move || {
        for key in &keys[..2] {
            assert!(timer.cancel(*key).is_won());
        }
        arm(&mut timer, MS, 5);
        let mut fired = Vec::new();
        timer.poll(clock.advance(MS), |it| fired.push(it.payload));
        fired.sort_unstable();
        (timer, fired)
    });
    let (timer, fired) = other.join().unwrap();
    assert_eq!((fired, timer.pending()), (vec![2, 3, 5], 0));
}
