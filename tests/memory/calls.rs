//! Every call but those that `docs/LIMITS.md` lists lets the process live where memory is refused, be it from its first
//! piece of memory on or from a later one.
//!
//! Each test has a process of its own, because a call that ends the process ends all tests of it. The last line on its
//! standard error names the call.

use crate::allocator::refusing_after;
use crate::children::in_a_process_of_its_own;
use crate::support::breakable::Breakable;
use crate::support::setup::{HOUR, one_shard, secs, wait_until};
use std::task::{Context, Waker};
use std::time::Duration;
use tickwheel::{
    Budget, Builder, Drive, EventLoopTimer, Expired, LocalTimer, ManualClock, Pinning, Remote,
    ScheduleErrorKind, Settings, Time, Timer,
};

/// Runs a call while memory is refused.
type Refused<'a> = &'a dyn Fn(&mut dyn FnMut());

/// The most pieces of memory that a call gets.
const MOST_PIECES: u64 = 4;

/// Names a call, and makes it for each number of pieces that it gets.
fn refused_at_each_piece(name: &str, case: impl Fn(Refused<'_>)) {
    for pieces in 0..MOST_PIECES {
        eprintln!("{name}, after {pieces} pieces of memory");
        case(&|call| refusing_after(pieces, call));
    }
}

struct Engines {
    clock: ManualClock,
    numbers: Timer<u64>,
    closures: Timer,
}

fn engines(shards: usize, drive: Drive) -> Engines {
    let clock = ManualClock::new();
    let builder = || {
        let builder = Builder::new().shards(shards).pinning(Pinning::Off);
        builder.clock(clock.clone()).drive(drive)
    };
    let numbers = builder().build_with(|_: Expired<u64>| ()).unwrap();
    let closures = builder().build().unwrap();
    // What a thread needs once, wherever it goes; and its first block of the inbox.
    assert!(numbers.cancel(numbers.schedule(HOUR, 0).unwrap()).is_won());
    assert!(
        closures
            .cancel(closures.run_after(HOUR, || ()).unwrap())
            .is_won()
    );
    Engines {
        clock,
        numbers,
        closures,
    }
}

type EngineCase = (&'static str, fn(&Engines, Refused<'_>));

/// Calls of an engine of numbers.
const OF_ENGINES: [EngineCase; 12] = [
    ("schedule", |it, refused| {
        refused(&mut || (0..3000).for_each(|n| drop(it.numbers.schedule(HOUR, n))));
    }),
    ("schedule_handle and a handle's", |it, refused| {
        let handle = it.numbers.schedule_handle(HOUR, 0).unwrap();
        refused(&mut || {
            drop(it.numbers.schedule_handle(HOUR, 0));
            _ = (handle.state(), handle.deadline(), handle.key());
            assert!(handle.reschedule(2 * HOUR).is_moved());
            assert!(handle.cancel().is_won());
        });
        let (kept, guarded) = (
            it.numbers.schedule_handle(HOUR, 0).unwrap(),
            it.numbers.schedule_handle(HOUR, 0).unwrap(),
        );
        let mut parts = Some((kept, guarded.cancel_on_drop()));
        refused(&mut || {
            if let Some((kept, guarded)) = parts.take() {
                drop((kept.detach(), guarded));
            }
        });
    }),
    ("schedule_periodic", |it, refused| {
        refused(&mut || drop(it.numbers.schedule_periodic(HOUR, secs(1), 0)));
    }),
    ("cancel", |it, refused| {
        let keys = (0..3000).map(|n| it.numbers.schedule(HOUR, n).unwrap());
        let keys: Vec<_> = keys.collect();
        let periodic = it.numbers.schedule_periodic(HOUR, secs(1), 0).unwrap();
        refused(&mut || {
            assert!(keys.iter().all(|key| it.numbers.cancel(*key).is_won()));
            assert!(it.numbers.cancel(periodic).is_won());
        });
    }),
    ("reschedule", |it, refused| {
        let key = it.numbers.schedule(HOUR, 0).unwrap();
        refused(&mut || {
            for n in 0..3000 {
                let earlier = HOUR - Duration::from_millis(n);
                assert!(it.numbers.reschedule(key, earlier).is_moved());
            }
        });
    }),
    ("what only reads", |it, refused| {
        let key = it.numbers.schedule(HOUR, 0).unwrap();
        refused(&mut || {
            assert!(it.numbers.is_pending(key) && it.numbers.deadline(key).is_some());
            assert_eq!(it.numbers.pending(), 1);
            _ = (it.numbers.now(), it.numbers.tick(), it.numbers.state());
            assert!(!it.numbers.is_stopped());
            // Yes or no, as its worker has it.
            _ = it.numbers.is_turning(key.shard());
        });
    }),
    ("clones and weak ones", |it, refused| {
        refused(&mut || {
            let weak = it.numbers.clone().downgrade();
            assert!(weak.clone().upgrade().is_some());
        });
    }),
    ("start, turn and wait_idle", |it, refused| {
        it.numbers.schedule(Duration::ZERO, 0).unwrap();
        refused(&mut || {
            it.numbers.start().unwrap();
            _ = it.numbers.turn().is_ok();
            it.numbers.wait_idle();
        });
        assert_eq!(it.numbers.pending(), 0);
    }),
    ("stats", |it, refused| {
        it.numbers.schedule(Duration::ZERO, 0).unwrap();
        refused(&mut || {
            let stats = it.numbers.stats();
            assert_eq!(stats.scheduled, 2);
            let sum: u64 = stats.shards.iter().map(|it| it.scheduled).sum();
            assert!(sum == 2 || stats.shards.is_empty());
            assert_eq!(stats.lateness.since(&stats.lateness).count(), 0);
        });
        assert_eq!(it.numbers.stats().shards.len(), it.numbers.shards());
    }),
    (
        "cancel_all and stop with nothing to return",
        |it, refused| {
            refused(&mut || {
                assert!(it.numbers.cancel_all().is_empty());
                assert!(it.numbers.stop().unwrap().is_empty());
                let refusal = it.numbers.schedule(HOUR, 0).unwrap_err();
                assert_eq!(refusal.kind(), &ScheduleErrorKind::Stopped);
            });
        },
    ),
    ("a move of the clock", |it, refused| {
        it.numbers.schedule(secs(1), 0).unwrap();
        refused(&mut || _ = it.clock.advance(secs(2)));
    }),
    ("giving memory back", |it, refused| {
        let keys = (0..40_000).map(|n| it.numbers.schedule(HOUR, n).unwrap());
        let keys: Vec<_> = keys.collect();
        _ = it.numbers.turn().is_ok();
        it.numbers.wait_idle();
        refused(&mut || {
            assert!(keys.iter().all(|key| it.numbers.cancel(*key).is_won()));
            for _ in 0..4 {
                it.clock.advance(secs(1));
                _ = it.numbers.turn().is_ok();
                it.numbers.wait_idle();
            }
        });
    }),
];

#[test]
fn calls_of_an_engine_let_the_process_live_without_memory() {
    if in_a_process_of_its_own(calls_of_an_engine_let_the_process_live_without_memory, &[]) {
        return;
    }
    for drive in [Drive::Workers, Drive::Manual] {
        for shards in [1, 3] {
            for (name, case) in OF_ENGINES {
                let name = format!("{name}, {shards} shards, {drive:?}");
                refused_at_each_piece(&name, |refused| case(&engines(shards, drive), refused));
            }
        }
    }
}

/// Calls of an engine of closures, which are what futures wait by.
#[cfg(feature = "futures")]
const OF_FUTURES: [EngineCase; 4] = [
    ("a closure of three words", |it, refused| {
        refused(&mut || drop(it.closures.run_after(HOUR, || ())));
    }),
    ("a sleep", |it, refused| {
        let mut sleep = it.closures.sleep(HOUR);
        refused(&mut || {
            let mut first = it.closures.sleep(HOUR);
            _ = first.poll_sleep(&mut Context::from_waker(Waker::noop()));
            drop(first);
            _ = sleep.poll_sleep(&mut Context::from_waker(Waker::noop()));
            sleep.reset(Duration::ZERO);
            _ = sleep.poll_sleep(&mut Context::from_waker(Waker::noop()));
            sleep.cancel();
        });
    }),
    ("an interval", |it, refused| {
        let mut interval = it.closures.interval(secs(1));
        refused(&mut || {
            _ = interval.poll_tick(&mut Context::from_waker(Waker::noop()));
            interval.reset_after(HOUR);
            _ = interval.poll_tick(&mut Context::from_waker(Waker::noop()));
        });
    }),
    ("sleeps that end", |it, refused| {
        let mut sleeps: Vec<_> = (0..300).map(|_| it.closures.sleep(secs(1))).collect();
        let mut poll_all = || {
            let mut cx = Context::from_waker(Waker::noop());
            let ended = |it: &mut tickwheel::Sleep<_>| it.poll_sleep(&mut cx).is_ready();
            sleeps.iter_mut().map(ended).filter(|ended| *ended).count()
        };
        assert_eq!(poll_all(), 0);
        it.clock.advance(HOUR);
        refused(&mut || {
            _ = it.closures.turn().is_ok();
            it.closures.wait_idle();
            assert_eq!(poll_all(), 300);
        });
    }),
];

#[cfg(feature = "futures")]
#[test]
fn futures_let_the_process_live_without_memory() {
    if in_a_process_of_its_own(futures_let_the_process_live_without_memory, &[]) {
        return;
    }
    for drive in [Drive::Workers, Drive::Manual] {
        for (name, case) in OF_FUTURES {
            refused_at_each_piece(name, |refused| case(&engines(1, drive), refused));
        }
    }
}

/// A thread of the user's turns the shard.
#[test]
fn a_driver_lets_the_process_live_without_memory() {
    if in_a_process_of_its_own(a_driver_lets_the_process_live_without_memory, &[]) {
        return;
    }
    refused_at_each_piece("a turn of a driver", |refused| {
        let it = engines(1, Drive::Workers);
        refused(&mut || assert!(it.closures.drive_shard(0).is_ok()));
        let mut driver = it.numbers.drive_shard(0).unwrap();
        it.numbers.schedule(Duration::ZERO, 0).unwrap();
        refused(&mut || _ = driver.turn(Waker::noop()).unwrap());
        assert_eq!(it.numbers.pending(), 0);
    });
}

/// The error of each refused timer carries the text of the failure.
#[test]
fn a_failed_shard_refuses_and_counts_without_memory() {
    if in_a_process_of_its_own(a_failed_shard_refuses_and_counts_without_memory, &[]) {
        return;
    }
    let clock = Breakable::default();
    let timer = one_shard().clock(clock.clone());
    let timer = timer.build_with(|_: Expired<u64>| ()).unwrap();
    let far = Time::ZERO + HOUR;
    timer.schedule(far, 0).unwrap();
    clock.set_broken(true);
    // It wakes a worker that rests; one that does not rest may have failed by now.
    let _ = timer.schedule(Time::ZERO, 0);
    wait_until("the worker has failed", || timer.schedule(far, 0).is_err());
    clock.set_broken(false);
    refused_at_each_piece("calls of a failed shard", |refused| {
        refused(&mut || {
            let refusal = timer.schedule(far, 7).unwrap_err();
            let is_of_worker = matches!(refusal.kind(), ScheduleErrorKind::WorkerFailed { .. });
            assert!(is_of_worker && refusal.into_payload() == 7);
            let shards = timer.stats().shards;
            assert!(
                shards
                    .iter()
                    .all(|it| it.failure.as_deref() == Some("the clock"))
            );
        });
    });
}

type LoopCase = (
    &'static str,
    fn(&mut EventLoopTimer<u64>, &Remote<u64>, Refused<'_>),
);

const OF_LOOPS: [LoopCase; 6] = [
    ("schedules", |timer, remote, refused| {
        refused(&mut || {
            (0..3000).for_each(|n| drop(timer.schedule(Time::ZERO, HOUR, n)));
            (0..3000).for_each(|n| drop(remote.schedule(HOUR, n)));
            drop(timer.schedule_periodic(Time::ZERO, HOUR, secs(1), 0));
            drop(remote.schedule_periodic(HOUR, secs(1), 0));
        });
    }),
    ("cancels and moves", |timer, remote, refused| {
        let own = timer.schedule(Time::ZERO, HOUR, 0).unwrap();
        let theirs = remote.schedule(HOUR, 0).unwrap();
        refused(&mut || {
            for delay in [9, 8] {
                _ = timer.reschedule(Time::ZERO, own, secs(delay));
                _ = timer.reschedule(Time::ZERO, theirs, secs(delay));
                _ = remote.reschedule(theirs, secs(delay - 2));
            }
            assert!(timer.cancel(theirs).is_won() && timer.cancel(own).is_won());
            assert!(!remote.cancel(theirs).is_won());
        });
    }),
    ("what only reads", |timer, remote, refused| {
        let own = timer.schedule(Time::ZERO, HOUR, 0).unwrap();
        let theirs = remote.schedule(HOUR, 0).unwrap();
        refused(&mut || {
            assert!(timer.is_pending(own) && remote.is_pending(theirs));
            assert_eq!(timer.deadline(theirs), remote.deadline(theirs));
            assert!(timer.deadline(own).is_some());
            assert_eq!((timer.pending(), remote.pending()), (2, 2));
            _ = (timer.now(), remote.now(), remote.time_of(HOUR));
            _ = (timer.held_bytes(), timer.next_deadline(), timer.tick());
            _ = timer.poll_timeout(Time::ZERO).max(Some(Duration::ZERO));
            _ = timer.poll_timeout_ms(Time::ZERO).max(0);
            timer.set_budget(Budget::new());
        });
    }),
    ("stats", |timer, remote, refused| {
        refused(&mut || assert_eq!(timer.stats().scheduled, remote.stats().scheduled));
    }),
    ("polls", |timer, _, refused| {
        timer.schedule(Time::ZERO, secs(1), 0).unwrap();
        refused(&mut || {
            let mut fired = timer.poll(Time::ZERO, |_| ()).fired;
            fired += timer.poll_with(Time::ZERO + HOUR, |_, _| ()).fired;
            fired += timer.expired(Time::ZERO + HOUR).count();
            assert_eq!(fired, 1);
        });
    }),
    ("clear, reserve and remotes", |timer, remote, refused| {
        timer.schedule(Time::ZERO, HOUR, 0).unwrap();
        refused(&mut || {
            timer.clear();
            timer.reserve(100_000);
            drop((timer.remote(), remote.clone()));
        });
    }),
];

#[test]
fn calls_of_a_loop_let_the_process_live_without_memory() {
    if in_a_process_of_its_own(calls_of_a_loop_let_the_process_live_without_memory, &[]) {
        return;
    }
    for (name, case) in OF_LOOPS {
        refused_at_each_piece(name, |refused| {
            let settings = Settings::new().clock(ManualClock::new());
            let mut timer = EventLoopTimer::with_waker(settings, || ()).unwrap();
            let remote = timer.remote();
            let key = remote.schedule(HOUR, 0).unwrap();
            assert!(timer.cancel(key).is_won());
            case(&mut timer, &remote, refused);
        });
    }
}

#[test]
fn calls_of_a_local_timer_let_the_process_live_without_memory() {
    if in_a_process_of_its_own(
        calls_of_a_local_timer_let_the_process_live_without_memory,
        &[],
    ) {
        return;
    }
    refused_at_each_piece("calls of a local timer", |refused| {
        let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
        let key = timer.schedule(Time::ZERO, HOUR, 0).unwrap();
        refused(&mut || {
            (0..3000).for_each(|n| drop(timer.schedule(Time::ZERO, HOUR, n)));
            drop(timer.schedule_periodic(Time::ZERO, HOUR, secs(1), 0));
            assert!(timer.reschedule(Time::ZERO, key, 2 * HOUR).is_moved());
            assert!(timer.get(key).is_some() && timer.get_mut(key).is_some());
            assert!(timer.iter().count() == timer.pending() && timer.keys().count() > 0);
            _ = (timer.next_deadline(), timer.held_bytes(), timer.capacity());
            timer.shrink_to_fit();
            assert!(timer.cancel(key).is_won());
            timer.poll(Time::ZERO + HOUR, |_| ());
            timer.clear();
            assert_eq!(timer.drain().count(), 0);
        });
    });
}

/// The first reading of the machine's clock in a process needs memory, and a wake reads it.
#[test]
fn the_first_move_of_a_clock_needs_no_memory() {
    if in_a_process_of_its_own(the_first_move_of_a_clock_needs_no_memory, &[]) {
        return;
    }
    let it = engines(1, Drive::Manual);
    refusing_after(0, || _ = it.clock.advance(secs(1)));
}
