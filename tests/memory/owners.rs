//! No memory for what a timer's own thread files: blocks of the log, chunks of the wheel.

use crate::allocator::refusing_from;
use crate::support::random::Random;
use std::time::Duration;
use tickwheel::wheel::{Entry, Hashed, Hierarchical, Wheel};
use tickwheel::{Key, ManualClock, MissedTicks, Period, Settings};
use tickwheel::{ScheduleError, ScheduleErrorKind, Time, WheelKind};

/// The wheels grow by 16 KiB and more at a time, the log by 8 KiB.
const ALLOWED: [usize; 3] = [1, 1024, 8 * 1024];
const KINDS: [WheelKind; 2] = [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 1 << 16 }];
/// Nodes that there is memory for.
const NODES: u64 = 20_000;

/// Overdue, recent, near and far ones, and one that never fires.
fn tick(random: &mut Random, hand: u64) -> u64 {
    let far = 7 + 7 * random.below(7);
    match random.below(6) {
        0 => random.below(hand + 1),
        1 => hand + 1 + random.below(64),
        2 => u64::MAX,
        _ => hand + random.below(1 << far),
    }
}

/// What a wheel refuses has left no trace in it, and what it has accepted comes out in time.
fn refused_by(mut wheel: impl Wheel, seed: u64) {
    let mut random = Random::new(seed);
    let (mut filed, mut due, mut refused) = (Vec::new(), Vec::with_capacity(100_000), 0);
    let mut changed = None;
    filed.reserve(100_000);
    for round in 0..40 {
        let allowed = [1, 2000, usize::MAX][random.below(3) as usize];
        let count = random.below(1000);
        refusing_from(allowed, || {
            for _ in 0..count {
                let deadline = tick(&mut random, wheel.hand());
                let entry = Entry { deadline, index: filed.len() as u32, mark: 7 };
                let before = (wheel.len(), wheel.next_deadline(), wheel.held_bytes());
                if wheel.try_insert(entry) {
                    filed.push(entry);
                } else {
                    refused += 1;
                    let after = (wheel.len(), wheel.next_deadline(), wheel.held_bytes());
                    if before != after || allowed == usize::MAX {
                        changed = Some((before, after));
                    }
                }
            }
        });
        // Not in there, where a panic has no memory either.
        assert_eq!(changed, None);
        if round % 4 == 3 {
            let far = 3 * random.below(9);
            let to = wheel.hand() + random.below(1 << far);
            while wheel.advance(to, 100, &mut due) {}
            assert!(due.iter().all(|entry| entry.deadline <= to));
            assert!(wheel.next_deadline().is_none_or(|next| next > to));
        }
    }
    assert!(refused > 300 && filed.len() > 3000, "{refused} refused, {} filed", filed.len());
    while wheel.advance(u64::MAX, 1000, &mut due) {}
    while wheel.has_backlog() {
        wheel.take_backlog(1000, &mut due);
    }
    assert_eq!(wheel.len(), 0);
    due.sort_unstable_by_key(|entry| entry.index);
    assert_eq!(due, filed);
}

#[test]
fn a_wheel_that_refuses_an_entry_stays_as_it_was() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    for seed in 0..4 {
        refused_by(Hierarchical::new(), seed);
        refused_by(Hashed::new(1 << 12), seed);
        refused_by(Hashed::new(64), seed);
    }
}

/// Schedules a timer with this delay.
type Schedule<'a> = &'a mut dyn FnMut(Duration, u64) -> Result<Key<u64>, ScheduleError<u64>>;

/// Schedules timers, farther and farther away, until there is no memory, and then with memory again; how many were
/// accepted.
fn until_refused(schedule: Schedule<'_>, before: u64, allowed: usize) -> usize {
    let ms = Duration::from_millis;
    (0..before).for_each(|n| _ = schedule(ms(n * 7), n).unwrap());
    let (mut accepted, mut refused) = (before as usize, 0);
    refusing_from(allowed, || {
        for n in before..NODES {
            match schedule(ms(n * 7), n) {
                Ok(_) => accepted += 1,
                Err(error) => {
                    assert_eq!(error.kind(), &ScheduleErrorKind::OutOfMemory);
                    assert_eq!(error.into_payload(), n);
                    refused += 1;
                }
            }
            if refused == 20 {
                break;
            }
        }
    });
    assert_eq!(refused, 20, "of {accepted}");
    // With memory again, it grows.
    (0..500).for_each(|n| _ = schedule(ms(n), n).unwrap());
    accepted + 500
}

/// Later than any of them.
const END: Time = Time::from_nanos(1 << 60);

#[test]
fn a_local_timer_whose_entry_finds_no_room_comes_back() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    for (kind, before) in KINDS.into_iter().flat_map(|kind| [(kind, 0), (kind, 5_000)]) {
        for allowed in ALLOWED {
            let capacity = NODES as usize + 2000;
            let mut timer = Settings::new().wheel(kind).capacity(capacity).build_local().unwrap();
            let schedule: Schedule<'_> = &mut |delay, n| timer.schedule(Time::ZERO, delay, n);
            let accepted = until_refused(schedule, before, allowed);
            assert_eq!(timer.pending(), accepted);
            let mut fired = 0;
            while timer.poll(END, |_| fired += 1).more {}
            assert_eq!(fired, accepted);
        }
    }
}

#[test]
fn a_timer_of_a_queue_without_room_comes_back() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    let second = Duration::from_secs(1);
    for allowed in ALLOWED {
        let mut timer =
            Settings::new().capacity(NODES as usize + 2000).build_fixed(second).unwrap();
        let accepted = until_refused(&mut |_, n| timer.schedule(Time::ZERO, n), 100, allowed);
        assert_eq!(timer.pending(), accepted);
        // A handler's own timers wait in a list until its poll is over.
        timer.schedule(Time::ZERO, 0).unwrap();
        let (now, mut refused) = (Time::ZERO + second, 0);
        let polled = refusing_from(1, || {
            timer.poll_with(now, |timer, _| {
                refused += timer.schedule(now, 1).unwrap_err().into_payload() as usize;
            })
        });
        assert!(refused > 100 && refused == polled.fired, "a list that grows without memory");
        let mut left = accepted + 1 - polled.fired;
        while timer.poll(END, |_| left -= 1).more {}
        assert_eq!((left, timer.pending()), (0, 0));
    }
}

#[test]
fn an_event_loops_timer_whose_entry_finds_no_room_comes_back() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    for (kind, before) in KINDS.into_iter().flat_map(|kind| [(kind, 0), (kind, 5_000)]) {
        for allowed in ALLOWED {
            let builder = Settings::new().wheel(kind).max_pending(NODES as usize + 2000);
            let clock = ManualClock::new();
            let mut timer = builder.clock(clock.clone()).build_with_waker(|| ()).unwrap();
            // Nodes that are free; their entries die before the wheel hears of them.
            let second = Duration::from_secs(1);
            let keys: Vec<Key<u64>> =
                (0..NODES + 1500).map(|n| timer.remote().schedule(second, n).unwrap()).collect();
            assert!(keys.into_iter().all(|key| timer.cancel(key).won()));
            let schedule: Schedule<'_> = &mut |delay, n| timer.schedule(Time::ZERO, delay, n);
            let accepted = until_refused(schedule, before, allowed);
            assert_eq!(timer.pending(), accepted);
            let stats = timer.stats();
            assert_eq!(
                stats.scheduled,
                NODES + 1500 + accepted as u64,
                "refused ones do not count"
            );
            let mut fired = 0;
            while timer.poll(END, |_| fired += 1).more {}
            assert_eq!((fired, timer.pending()), (accepted, 0));
            // Every permit is back.
            let again = |n| timer.schedule(Time::ZERO, second, n).is_ok();
            assert_eq!((0..NODES + 3000).map(again).filter(|ok| *ok).count() as u64, NODES + 2000);
        }
    }
}

#[test]
fn a_periodic_timer_whose_entry_finds_no_room_comes_back() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    let (second, mut payload) = (Duration::from_secs(1), 0);
    let period = Period::fixed_rate(second, MissedTicks::Skip).unwrap();
    let mut local = Settings::new().capacity(10).build_local().unwrap();
    let builder = Settings::new().clock(ManualClock::new());
    let mut of_a_loop = builder.build_with_waker(|| ()).unwrap();
    let key = of_a_loop.remote().schedule(second, 0).unwrap();
    assert!(of_a_loop.cancel(key).won());
    // Enough for the timer itself, and for nothing that its entry lies in.
    refusing_from(2000, || {
        let error = local.schedule_periodic(Time::ZERO, second, period, 8).unwrap_err();
        payload += error.into_payload();
        let error = of_a_loop.schedule_periodic(Time::ZERO, second, period, 9).unwrap_err();
        payload += error.into_payload();
    });
    assert_eq!((payload, local.pending(), of_a_loop.pending()), (17, 0, 0));
    local.schedule_periodic(Time::ZERO, second, period, 8).unwrap();
    of_a_loop.schedule_periodic(Time::ZERO, second, period, 9).unwrap();
    let now = Time::ZERO + second;
    assert_eq!((local.poll(now, |_| ()).fired, of_a_loop.poll(now, |_| ()).fired), (1, 1));
}
