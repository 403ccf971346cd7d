//! No memory for what grows with the number of timers: the call says so, and all that was accepted lives on.

use crate::allocator::refusing_from;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tickwheel::{Builder, Drive, Expired, FixedTimer, Key, LocalTimer, ManualClock, MissedTicks};
use tickwheel::{Period, ScheduleError, ScheduleErrorKind, Time, Timer};

const DELAY: Duration = Duration::from_secs(1);
/// What a thread may have at a time: a block of the inbox. A table of a few hundred timers grows by more.
const ALLOWED: usize = 12 * 1024;
/// The same where a timer has no inbox.
const ALLOWED_LOCALLY: usize = 4096;

type Schedule = fn(&Timer<u64>, u64) -> Result<Key<u64>, ScheduleError<u64>>;

fn by_hand(clock: &ManualClock) -> Timer<u64> {
    let builder = Builder::new().shards(1).clock(clock.clone()).drive(Drive::Manual);
    builder.build_with(|_: Expired<u64>| ()).unwrap()
}

/// Schedules until there is no memory, at another size of the table each time.
fn refused_and_accepted(schedule: Schedule, before: u64) {
    let clock = ManualClock::new();
    let timer = by_hand(&clock);
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

fn is_out_of_memory(refused: &ScheduleError<u64>, payload: u64) -> bool {
    refused.kind() == &ScheduleErrorKind::OutOfMemory && *refused.payload() == payload
}

/// The cycle of a periodic timer is a box of its own.
#[test]
fn a_periodic_timer_without_a_cycle_comes_back() {
    let _alone = crate::alone();
    let period = Period::fixed_rate(DELAY, MissedTicks::Skip).unwrap();
    let clock = ManualClock::new();
    let timer = by_hand(&clock);
    let mut local = LocalTimer::new(Duration::from_millis(1)).unwrap();
    for n in 0..100 {
        timer.schedule_periodic(DELAY, period, n).unwrap();
        local.schedule_periodic(Time::ZERO, DELAY, period, n).unwrap();
    }
    let refused = refusing_from(1, || {
        let error = local.schedule_periodic(Time::ZERO, DELAY, period, 8).unwrap_err();
        local.schedule(Time::ZERO, DELAY, 9).unwrap();
        (timer.schedule_periodic(DELAY, period, 7).unwrap_err(), error)
    });
    assert!(is_out_of_memory(&refused.0, 7) && is_out_of_memory(&refused.1, 8));
    timer.schedule_periodic(DELAY, period, 7).unwrap();
    local.schedule_periodic(Time::ZERO, DELAY, period, 8).unwrap();
    assert_eq!((timer.pending(), local.pending()), (101, 102));
    clock.set(Time::ZERO + DELAY);
    assert_eq!((timer.turn(), local.poll(Time::ZERO + DELAY, |_| ()).fired), (Ok(101), 102));
}

/// As [`refused_and_accepted`], for timers of one thread: schedules until `schedule` refuses.
fn refused_locally(
    mut schedule: impl FnMut(u64) -> Result<Key<u64>, ScheduleError<u64>>,
    before: u64,
) -> u64 {
    (0..before).for_each(|n| _ = schedule(n).unwrap());
    let refused = refusing_from(ALLOWED_LOCALLY, || {
        (before..100_000)
            .find_map(|n| schedule(n).err())
            .expect("a table that grows without memory")
    });
    let accepted = *refused.payload();
    assert!(is_out_of_memory(&refused, accepted));
    (0..500).for_each(|n| _ = schedule(n).unwrap());
    accepted + 500
}

#[test]
fn a_timer_of_one_thread_for_which_there_is_no_memory_comes_back() {
    let _alone = crate::alone();
    for before in [1, 100, 1000] {
        let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
        let count = refused_locally(|n| timer.schedule(Time::ZERO, DELAY, n), before);
        assert_eq!(timer.poll(Time::ZERO + DELAY, |_| ()).fired as u64, count);
        let mut fixed = FixedTimer::new(DELAY);
        let count = refused_locally(|n| fixed.schedule(Time::ZERO, n), before);
        assert_eq!(fixed.poll(Time::ZERO + DELAY, |_| ()).fired as u64, count);
    }
}

/// The places of the first 64 threads come with the shard's first timer, those of later ones when they are needed.
#[test]
fn a_thread_without_a_place_gets_its_timer_back() {
    let _alone = crate::alone();
    const THREADS: usize = 70;
    let clock = ManualClock::new();
    let [elsewhere, timer] = [by_hand(&clock), by_hand(&clock)];
    // Free nodes for everybody.
    let keys: Vec<_> = (0..20_000).map(|n| timer.schedule_key(DELAY, n).unwrap()).collect();
    assert!(keys.iter().all(|key| timer.cancel(*key).won()));
    let (gate, refused) = (Barrier::new(THREADS), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // What the thread needs once, wherever it goes.
                elsewhere.schedule_key(DELAY, 0).unwrap();
                gate.wait();
                if let Err(error) = refusing_from(ALLOWED, || timer.schedule_key(DELAY, 7)) {
                    assert!(is_out_of_memory(&error, 7), "{error}");
                    refused.fetch_add(1, Ordering::SeqCst);
                }
                gate.wait();
                timer.schedule_key(DELAY, 8).unwrap();
            });
        }
    });
    let refused = refused.into_inner();
    assert!((6..20).contains(&refused), "{refused} threads have no place");
    assert_eq!(timer.pending(), 2 * THREADS - refused);
}
