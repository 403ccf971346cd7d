//! Timers of each kind that are gone hold no memory: blocks of the inbox, magazines, entries, what threads had there.

use crate::allocator::held;
#[cfg(target_os = "linux")]
use crate::allocator::mapped;
use crate::support::loop_timer::LoopTimer;
use crate::support::setup::{HOUR, ms, one_shard, secs};
use crate::{churn, holds_soon};
use std::time::Duration;
use tickwheel::{EventLoopTimer, Expired, Key, LocalTimer, ManualClock, Settings, Time, Timer};

/// What rounds may leave together. The smallest of the pieces that a round could leave are larger, and each round would.
const LEFT: usize = 16 * 1024;
/// The same of what is mapped, of which the allocator takes as it likes. Each round could leave 300 KiB of entries.
const LEFT_MAPPED: usize = 4 << 20;
/// More than a few blocks of the inbox hold, and magazines.
const TIMERS: u64 = 10_000;

/// That of other systems is not asked for.
#[cfg(not(target_os = "linux"))]
const fn mapped() -> usize {
    0
}

/// Runs rounds after two that may leave what the process keeps.
fn leaves_nothing(what: &str, round: impl Fn()) {
    (0..2).for_each(|_| round());
    let before = held();
    (0..8).for_each(|_| round());
    let left = || held().saturating_sub(before);
    assert!(holds_soon(|| left() < LEFT), "{what}: {} bytes", left());
}

/// The same of what is mapped, where no thread begins: the allocator maps 64 MiB for one now and then.
fn leaves_nothing_mapped(what: &str, round: impl Fn()) {
    leaves_nothing(what, &round);
    let before = mapped();
    (0..40).for_each(|_| round());
    let left = mapped().saturating_sub(before);
    assert!(left < LEFT_MAPPED, "{what}: {left} bytes mapped");
}

/// Two threads schedule and cancel, and leave many timers; one of them ends before the engine.
fn use_up(timer: &Timer<u64>) {
    let schedule = || -> Vec<Key<u64>> {
        churn(timer, TIMERS);
        let key = |n| timer.schedule(HOUR, n).unwrap();
        (0..TIMERS).map(key).collect()
    };
    let keys = std::thread::scope(|scope| {
        let other = scope.spawn(schedule);
        schedule();
        other.join().unwrap()
    });
    for (key, n) in keys.into_iter().zip(0..) {
        match n % 4 {
            0 => assert!(timer.cancel(key).is_won()),
            1 => assert!(timer.reschedule(key, secs(60)).is_moved()),
            2 => assert!(timer.reschedule(key, Duration::ZERO).is_moved()),
            _ => {}
        }
    }
    timer.wait_idle();
}

#[test]
fn an_engine_that_is_gone_holds_no_memory() {
    let _alone = crate::alone();
    let builder = || one_shard().shards(2);
    leaves_nothing("stopped", || {
        let timer = builder().build_with(|_: Expired<u64>| ()).unwrap();
        use_up(&timer);
        assert!(timer.stop().unwrap().len() > TIMERS as usize);
    });
    leaves_nothing("dropped", || {
        use_up(&builder().build_with(|_: Expired<u64>| ()).unwrap());
    });
}

/// Cancels a quarter of the timers, fires what is due, and leaves the rest.
fn use_up_alone<L: LoopTimer<Payload = u64>>(mut timer: L, keys: &[Key<u64>]) {
    for (key, n) in keys.iter().zip(0..) {
        if n % 4 == 0 {
            assert!(timer.cancel(*key).is_won());
        }
    }
    let _ = timer.poll(Time::ZERO + secs(30), |_| ());
    assert!(timer.pending() > TIMERS as usize / 2);
}

#[test]
fn a_loop_s_timer_that_is_gone_holds_no_memory() {
    let _alone = crate::alone();
    let due = |n: u64| if n % 8 == 1 { secs(20) } else { HOUR };
    leaves_nothing_mapped("LocalTimer", || {
        let mut timer = LocalTimer::new(ms(1)).unwrap();
        let keys: Vec<_> = (0..TIMERS)
            .map(|n| timer.schedule(Time::ZERO, due(n), n).unwrap())
            .collect();
        use_up_alone(timer, &keys);
    });
    leaves_nothing("EventLoopTimer", || {
        let settings = Settings::new().clock(ManualClock::new());
        let mut timer: EventLoopTimer<u64> = EventLoopTimer::with_waker(settings, || ()).unwrap();
        let remote = timer.remote();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let keys: Vec<_> = (0..TIMERS)
                    .map(|n| remote.schedule(HOUR, n).unwrap())
                    .collect();
                for key in keys.iter().step_by(2) {
                    assert!(remote.cancel(*key).is_won());
                }
            });
        });
        let keys: Vec<_> = (0..TIMERS)
            .map(|n| timer.schedule(Time::ZERO, due(n), n).unwrap())
            .collect();
        use_up_alone(timer, &keys);
    });
}
