//! No memory for what grows with the number of timers: the call says so, and all that was accepted lives on.

use crate::allocator::refusing_from;
use tickwheel::{
    Builder, Drive, Expired, Key, ManualClock, MissedTicks, Period, ScheduleErrorKind,
};
use tickwheel::{ScheduleError, Time, Timer};

use std::time::Duration;

const DELAY: Duration = Duration::from_secs(1);
/// What a thread may have at a time. A table of a few hundred timers grows by more.
const ALLOWED: usize = 4096;

type Schedule = fn(&Timer<u64>, u64) -> Result<Key<u64>, ScheduleError<u64>>;

/// Schedules until there is no memory, at another size of the table each time.
fn refused_and_accepted(schedule: Schedule, before: u64) {
    let clock = ManualClock::new();
    let builder = Builder::new().shards(1).clock(clock.clone()).drive(Drive::Manual);
    let timer = builder.build_with(|_: Expired<u64>| ()).unwrap();
    let mut keys: Vec<_> = (0..before).map(|n| schedule(&timer, n).unwrap()).collect();
    keys.reserve(100_000);
    let mut next = before;
    let refused = refusing_from(ALLOWED, || {
        loop {
            match schedule(&timer, next) {
                Ok(key) => keys.push(key),
                Err(refused) => return refused,
            }
            next += 1;
            assert!(next < before + 100_000, "a table that grows without memory");
        }
    });
    assert_eq!(refused.kind(), &ScheduleErrorKind::OutOfMemory, "after {next} timers");
    assert_eq!(refused.into_payload(), next);
    assert_eq!(timer.pending() as u64, next, "the refused one does not count");
    // A cancelled timer's memory serves the next one.
    let last = keys.pop().unwrap();
    assert!(timer.cancel(last).won());
    keys.push(refusing_from(ALLOWED, || schedule(&timer, next)).unwrap());
    // With memory again, it grows.
    keys.extend((0..500).map(|n| schedule(&timer, n).unwrap()));
    assert_eq!(timer.pending(), keys.len());
    clock.set(Time::ZERO + DELAY);
    let fired: usize = std::iter::from_fn(|| Some(timer.turn().unwrap()).filter(|n| *n > 0)).sum();
    assert_eq!(fired, keys.len(), "all that were accepted fire");
}

#[test]
fn a_timer_for_which_there_is_no_memory_comes_back() {
    let _alone = crate::alone();
    let once: Schedule = |timer, n| timer.schedule_key(Time::ZERO + DELAY, n);
    let handles: Schedule =
        |timer, n| timer.schedule(Time::ZERO + DELAY, n).map(|held| held.detach());
    let again: Schedule = |timer, n| {
        let period = Period::fixed_rate(DELAY, MissedTicks::Skip).unwrap();
        timer.schedule_periodic(Time::ZERO + DELAY, period, n)
    };
    for schedule in [once, handles, again] {
        for before in [1, 100, 1000, 3000] {
            refused_and_accepted(schedule, before);
        }
    }
}
