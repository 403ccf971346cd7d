//! No memory for what grows with the number of timers: the call says so, and all that was accepted lives on.

use crate::allocator::{refuse_from, refusing_from};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel::{
    Builder, Drive, Expired, FixedTimer, Key, LocalTimer, ManualClock, MissedTicks, Settings,
};
use tickwheel::{Period, ScheduleError, ScheduleErrorKind, Time, Timer};

const DELAY: Duration = Duration::from_secs(1);
/// What a thread may have at a time: a block of the inbox. A table of a few hundred timers grows by more.
const ALLOWED: usize = 12 * 1024;
/// The same where a timer has no inbox.
const ALLOWED_LOCALLY: usize = 4096;

type Schedule = fn(&Timer<u64>, u64) -> Result<Key<u64>, ScheduleError<u64>>;

fn by_hand_builder(clock: &ManualClock) -> Builder {
    Builder::new().shards(1).clock(clock.clone()).drive(Drive::Manual)
}

fn by_hand(clock: &ManualClock) -> Timer<u64> {
    by_hand_builder(clock).build_with(|_: Expired<u64>| ()).unwrap()
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
    if crate::in_a_process_of_its_own() {
        return;
    }
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
    if crate::in_a_process_of_its_own() {
        return;
    }
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
    if crate::in_a_process_of_its_own() {
        return;
    }
    for before in [1, 100, 1000] {
        let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
        let count = refused_locally(|n| timer.schedule(Time::ZERO, DELAY, n), before);
        assert_eq!(timer.poll(Time::ZERO + DELAY, |_| ()).fired as u64, count);
        let mut fixed = FixedTimer::with_delay(DELAY);
        let count = refused_locally(|n| fixed.schedule(Time::ZERO, n), before);
        assert_eq!(fixed.poll(Time::ZERO + DELAY, |_| ()).fired as u64, count);
    }
}

#[test]
fn room_for_which_there_is_no_memory_is_not_made() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    let ms = Duration::from_millis(1);
    let (most, all) = (1 << 20, usize::MAX);
    refusing_from(most, || {
        let mut local = LocalTimer::with_capacity(ms, all).unwrap();
        let mut fixed = Settings::new().capacity(all).build_fixed(DELAY).unwrap();
        let mut built = Settings::new().capacity(all).build_local().unwrap();
        let mut built_fixed = Settings::new().capacity(all).build_fixed(ms).unwrap();
        local.reserve(all);
        for n in 0..100 {
            local.schedule(Time::ZERO, DELAY, n).unwrap();
            built.schedule(Time::ZERO, DELAY, n).unwrap();
            fixed.schedule(Time::ZERO, n).unwrap();
            built_fixed.schedule(Time::ZERO, n).unwrap();
        }
    });
}

/// The places of the first 64 threads come with the shard, those of later ones when they are needed.
#[test]
fn a_thread_without_a_place_gets_its_timer_back() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    const THREADS: usize = 70;
    let clock = ManualClock::new();
    let [elsewhere, timer] = [by_hand(&clock), by_hand(&clock)];
    // Free nodes for everybody.
    let keys: Vec<_> = (0..20_000).map(|n| timer.schedule_key(DELAY, n).unwrap()).collect();
    assert!(keys.iter().all(|key| timer.cancel(*key).won()));
    let (gate, refused) = (Barrier::new(THREADS), AtomicUsize::new(0));
    // The limit on mappings is the process's.
    let one_by_one = Mutex::new(());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // What the thread needs once, wherever it goes.
                elsewhere.schedule_key(DELAY, 0).unwrap();
                gate.wait();
                let turn = one_by_one.lock().unwrap();
                let answer = refusing_from(ALLOWED, || timer.schedule_key(DELAY, 7));
                drop(turn);
                if let Err(error) = answer {
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

/// What answers no error finds its place among those that the build has made.
#[test]
fn calls_that_return_no_error_need_no_memory() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    let clock = ManualClock::new();
    let [timer, elsewhere] = [by_hand(&clock), by_hand(&clock)];
    let mut events = Settings::new().build_with_waker::<u64>(|| ()).unwrap();
    let remote = events.remote();
    // What the thread needs once, wherever it goes.
    let key = elsewhere.schedule_key(DELAY, 0).unwrap();
    let refused = refusing_from(1024, || {
        assert!(!timer.cancel(key).won() && !timer.reschedule(key, DELAY).moved());
        assert!(!remote.cancel(key).won() && !remote.reschedule(key, DELAY).moved());
        timer.submitter().schedule(DELAY, 7).unwrap_err()
    });
    assert!(is_out_of_memory(&refused, 7));
    assert_eq!(events.poll(Time::ZERO, |_| ()).fired, 0);

    let closures: Timer = by_hand_builder(&clock).build().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let polled = refusing_from(1024, || closures.sleep(DELAY).poll_sleep(&mut cx));
    let Poll::Ready(Err(error)) = polled else { panic!("the sleep has a timer") };
    assert_eq!(error.kind(), &ScheduleErrorKind::OutOfMemory);
    // What a turn gathers to wake has its room, too; the wheel's is there from the timers before, and so is the block.
    (0..100).for_each(|_| _ = closures.run_after(DELAY, || ()).unwrap());
    clock.advance(DELAY);
    assert_eq!(closures.turn(), Ok(100));
    let mut sleeps: Vec<_> = (0..40).map(|_| closures.sleep(DELAY)).collect();
    sleeps.iter_mut().for_each(|sleep| assert!(sleep.poll_sleep(&mut cx).is_pending()));
    clock.advance(DELAY);
    assert_eq!(refusing_from(256, || closures.turn()), Ok(40));
}

/// Schedules a batch of so many timers, with less than `first` bytes at a time while they are collected and less than
/// `then` bytes after it; payloads are numbers from 0. What was accepted, refused, and left in the iterator.
fn batch_of(timer: &Timer<u64>, count: u64, first: usize, then: usize) -> [Vec<u64>; 3] {
    let delay = |n| DELAY + Duration::from_millis(n);
    let mut timers = (0..count).map(|n| (delay(n), n)).inspect(|(_, n)| {
        if n + 1 == count {
            refuse_from(then);
        }
    });
    let result = refusing_from(first, || timer.schedule_batch(&mut timers));
    let (accepted, refused) = match result {
        Ok(keys) => (keys, Vec::new()),
        Err(error) => {
            let (kind, accepted, refused) = error.into_parts();
            assert_eq!(kind, ScheduleErrorKind::OutOfMemory);
            (accepted, refused)
        }
    };
    let payload = |(deadline, n): (Time, u64)| {
        assert_eq!(deadline, Time::ZERO + delay(n));
        n
    };
    let accepted = accepted.iter().map(|key| timer.cancel(*key).into_payload().unwrap()).collect();
    let left = refusing_from(usize::MAX, || timers.map(|(_, n)| n).collect());
    [accepted, refused.into_iter().map(payload).collect(), left]
}

fn numbers(range: std::ops::Range<usize>) -> Vec<u64> {
    range.map(|n| n as u64).collect()
}

/// There may be no memory for what the timers of a batch need, nor for the lists that they are in.
#[test]
fn a_batch_for_which_there_is_no_memory_comes_back() {
    if crate::in_a_process_of_its_own() {
        return;
    }
    let timer = by_hand(&ManualClock::new());
    timer.schedule_key(DELAY, 0).unwrap();

    let nothing = batch_of(&timer, 1000, 1, 1);
    assert_eq!(nothing, [numbers(0..0), numbers(0..0), numbers(0..1000)], "no list to ask for");
    let no_keys = batch_of(&timer, 1000, usize::MAX, 1);
    assert_eq!(no_keys, [numbers(0..0), numbers(0..1000), numbers(0..0)]);
    assert_eq!((timer.pending(), timer.stats().rejected), (1, 1000));

    // An iterator that does not know its length: its list grows until it is too long.
    let mut unknown = (0..1000).filter(|_| true).map(|n| (DELAY, n));
    let error = refusing_from(2000, || timer.schedule_batch(&mut unknown)).unwrap_err();
    assert_eq!(error.kind(), &ScheduleErrorKind::OutOfMemory);
    let collected = error.into_refused().len();
    assert!((10..200).contains(&collected) && unknown.count() == 1000 - collected);
    assert_eq!((timer.pending(), timer.stats().rejected), (1, 1000 + collected as u64));

    // The lists are there, and at some timer a node is not, then a block of the inbox.
    for count in [1000, 2000] {
        let [accepted, refused, left] =
            batch_of(&timer, count, usize::MAX, count as usize * size_of::<Key<u64>>() + 1);
        let first_refused = accepted.len();
        assert!(first_refused > 100 && !refused.is_empty() && left.is_empty());
        assert_eq!(accepted, numbers(0..first_refused));
        assert_eq!(refused, numbers(first_refused..count as usize), "in their order");
        assert_eq!(timer.pending(), 1);
    }
    assert_eq!(batch_of(&timer, 5000, usize::MAX, usize::MAX)[0].len(), 5000);
}
