//! The engine on a clock that is turned by hand, with workers and without: what of the design's list "What must always
//! hold" needs no real time.
//!
//! The property shows invariants 1 to 4, 9 and 12: random operations, of handlers as well, against a sorted map. The
//! other tests show 6, 7 and 10: zombies, the work of a turn, and that the counters add up.

use crate::support::engine_manual;
use crate::support::properties::holds;
use crate::support::setup::{
    Fired, HOUR, Setup, ZOMBIE_CONSTANT, each_recording, each_setup, ms, recording, reflexive,
    spread,
};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;
use tickwheel::{Budget, Expired, Key, MissedTicks, Period, ShardStats, SlowHandler, Time, Timer};

#[test]
fn any_run_of_operations_fires_what_the_model_says() {
    holds(1024, 2048, engine_manual::check);
}

#[test]
fn keys_of_two_timers_have_two_hashes() {
    let (timer, _fired) = Setup::by_hand().recording();
    let state = RandomState::new();
    let [one, other] = [1, 2].map(|id| state.hash_one(timer.schedule(HOUR, id).unwrap()));
    assert_ne!(one, other);
}

/// Also when so many messages have come that their owner was asked to look at them.
#[test]
fn the_lag_counts_from_the_oldest_of_any_number_of_messages() {
    let at = Setup::by_hand();
    let (timer, _fired) = at.recording();
    for count in [1_000, 40_000] {
        for id in 0..count {
            timer.schedule(ms(1), id).unwrap();
        }
        at.clock.advance(ms(100));
        assert_eq!(timer.stats().lag, ms(99), "{count} timers");
        at.wait_idle(&timer);
        assert_eq!(timer.stats().lag, Duration::ZERO);
    }
    timer.stop().unwrap();
}

/// What has come before it does not hide what comes after.
#[test]
fn the_lag_counts_what_comes_after_a_turn_was_requested() {
    let many = |timer: &Timer<u64>| {
        (0..40_000).for_each(|id| _ = timer.schedule(HOUR, id).unwrap());
    };
    let driven = |timer: &Timer<u64>| drop(timer.drive_shard(0).unwrap());
    let at_once = |timer: &Timer<u64>| _ = timer.schedule(Time::ZERO, 1).unwrap();
    let requests: [fn(&Timer<u64>); 3] = [many, driven, at_once];
    for (nth, request) in requests.into_iter().enumerate() {
        let at = Setup::by_hand();
        let (timer, _fired) = at.recording();
        request(&timer);
        timer.schedule(ms(1), 7).unwrap();
        at.clock.advance(ms(100));
        assert_eq!(timer.stats().lag, ms(99), "request {nth}");
        at.wait_idle(&timer);
        assert_eq!(timer.stats().lag, Duration::ZERO);
        timer.stop().unwrap();
    }
}

/// Makes the owner insert everything that lies in the inbox.
fn insert_all(at: &Setup, timer: &Timer<u64>) {
    timer.schedule(Duration::ZERO, u64::MAX).unwrap();
    at.wait_idle(timer);
}

#[test]
fn timers_cancelled_in_the_inbox_never_reach_the_wheel() {
    each_recording(|at, timer, _fired| {
        for id in 0..10_000 {
            assert!(timer.schedule_handle(HOUR, id).unwrap().cancel().is_won());
        }
        insert_all(at, &timer);
        let shard = &timer.stats().shards[0];
        assert_eq!(
            (shard.cancelled_in_inbox, shard.entries, shard.swept),
            (10_000, 0, 0)
        );
        timer.stop().unwrap();
    });
}

/// Zombies that the bound allows stay: to look for them costs more than they do.
#[test]
fn a_request_for_a_turn_has_one_turn_look_for_zombies() {
    let at = Setup::by_hand();
    let (timer, _fired) = at.recording();
    let keys: Vec<_> = (0..20_000)
        .map(|id| timer.schedule(HOUR, id).unwrap())
        .collect();
    // Its message requests a turn, which takes the others as well.
    timer.schedule(Time::ZERO, 0).unwrap();
    assert_eq!(timer.turn(), Ok(1));
    assert!(keys[..19_000].iter().all(|key| timer.cancel(*key).is_won()));
    assert_eq!(timer.turn(), Ok(0));
    let shard = &timer.stats().shards[0];
    assert_eq!((shard.entries, shard.swept), (20_000, 0));
    timer.stop().unwrap();
}

#[test]
fn moving_a_deadline_again_and_again_holds_no_more_entries() {
    each_recording(|at, timer, fired| {
        let keys: Vec<Key<u64>> = (0..100)
            .map(|id| timer.schedule(HOUR, id).unwrap())
            .collect();
        for round in 0..2_000 {
            let delay = if round % 2 == 0 { 2 * HOUR } else { HOUR / 2 };
            assert!(
                keys.iter()
                    .all(|key| timer.reschedule(*key, delay).is_moved())
            );
            if round % 100 == 0 {
                insert_all(at, &timer);
                let entries = timer.stats().shards[0].entries;
                assert!(
                    entries <= 200 + ZOMBIE_CONSTANT,
                    "{entries} entries for 100 timers"
                );
            }
        }
        fired.ids();
        at.advance(&timer, HOUR / 2);
        assert_eq!(fired.ids().len(), 100);
        timer.stop().unwrap();
    });
}

/// However little is drained or fired at a time, and whatever comes due meanwhile.
#[test]
fn a_turn_by_hand_fires_what_was_due_when_it_began_and_nothing_else() {
    for (drain, fire) in [(1, 100), (4, 2), (5, 1), (100_000, 100_000)] {
        let at = Setup::by_hand();
        let (calls, clock) = (Arc::new(AtomicU64::new(0)), at.clock.clone());
        let count = Arc::clone(&calls);
        let budget = Budget::new().drain(drain).fire(fire);
        let timer = reflexive(
            at.builder().budget(budget),
            move |timer: &Timer<u64>, expired| {
                // Not for ever: a turn that does not end would not tell.
                if count.fetch_add(1, Ordering::SeqCst) < 1000 {
                    timer.schedule(Duration::ZERO, expired.payload).unwrap();
                }
                clock.advance(ms(100));
            },
        );
        for id in 0..5 {
            timer.schedule(Duration::ZERO, id).unwrap();
        }
        let period = Period::fixed_rate(ms(1), MissedTicks::Burst);
        timer.schedule_periodic(Duration::ZERO, period, 5).unwrap();
        timer.schedule(ms(1), 6).unwrap();
        for (turn, due) in [6, 8, 9].into_iter().enumerate() {
            assert_eq!(
                timer.turn(),
                Ok(due),
                "turn {turn} of {drain} messages, {fire} fires"
            );
        }
        timer.stop().unwrap();
    }
}

#[test]
fn due_timers_go_before_housekeeping() {
    each_setup(|at| {
        let seen = Arc::new(AtomicU64::new(u64::MAX));
        let note = Arc::clone(&seen);
        let budget = Budget::new().sweep(64);
        let timer = reflexive(
            at.builder().budget(budget),
            move |timer: &Timer<u64>, expired| {
                if expired.payload == 1 {
                    note.store(timer.stats().shards[0].entries, Ordering::SeqCst);
                }
            },
        );
        let doomed: Vec<Key<u64>> = (0..100_000)
            .map(|_| timer.schedule(HOUR, 0).unwrap())
            .collect();
        timer.schedule(ms(1), 1).unwrap();
        insert_all(at, &timer);
        // Fewer than it takes to call the owner about zombies, then the rest and the deadline at once.
        let (first, last) = doomed.split_at(60_000);
        assert!(first.iter().all(|key| timer.cancel(*key).is_won()));
        at.wait_idle(&timer);
        let left = timer.stats().shards[0].entries;
        if at.drive == tickwheel::Drive::Manual {
            assert!(last.iter().all(|key| timer.cancel(*key).is_won()));
        }
        at.advance(&timer, ms(1));
        assert_eq!(
            seen.load(Ordering::SeqCst),
            left,
            "fired before any of the sweep's pieces"
        );
        if at.drive == tickwheel::Drive::Manual {
            assert!(timer.stats().shards[0].entries < left, "then swept");
        }
        timer.stop().unwrap();
    });
}

#[test]
fn the_counters_of_all_shards_add_up() {
    each_setup(|at| {
        let (timer, _fired) = recording(at.builder().shards(3));
        let keys: Vec<Key<u64>> = (0..3000).map(|id| spread(&timer, ms(id), id)).collect();
        assert!(
            keys[2000..2600]
                .iter()
                .all(|key| timer.cancel(*key).is_won())
        );
        assert!(
            keys[2600..2660]
                .iter()
                .all(|key| timer.reschedule(*key, HOUR).is_moved())
        );
        at.advance(&timer, ms(999));
        let stats = timer.stats();
        assert_eq!(
            (stats.scheduled, stats.fired, stats.cancelled),
            (3000, 1000, 600)
        );
        assert_eq!(
            (stats.pending, stats.returned, stats.rejected),
            (1400, 0, 0)
        );
        assert_eq!(stats.lateness.count(), 1000);
        let sum = |of: fn(&ShardStats) -> u64| stats.shards.iter().map(of).sum::<u64>();
        assert_eq!(sum(|shard| shard.rescheduled), 60);
        assert_eq!(stats.parks, sum(|shard| shard.parks));
        assert_eq!(stats.wakes, sum(|shard| shard.wakes));
        for (n, shard) in stats.shards.iter().enumerate() {
            assert_eq!((shard.shard, shard.scheduled), (n, 1000));
            assert_eq!(
                shard.scheduled,
                shard.fired + shard.cancelled + shard.pending
            );
            assert_eq!(shard.lateness.count(), shard.fired);
            assert!(shard.fired > 300 && shard.turns > 0);
        }
        assert_eq!(timer.stop().unwrap().len(), 1400);
        let stats = timer.stats();
        assert_eq!((stats.returned, stats.pending), (1400, 0));
        assert_eq!(
            stats.scheduled,
            stats.fired + stats.cancelled + stats.returned
        );
    });
}

#[test]
fn a_handler_that_panics_and_is_slow_is_told_with_its_shard_and_timer() {
    let (at, told) = (Setup::by_hand(), Arc::new(Mutex::new(Vec::new())));
    let [panics, slow] = [(); 2].map(|()| Arc::clone(&told));
    let timer = at
        .builder()
        .shards(3)
        .on_panic(move |it| panics.lock().unwrap().push((it.shard, it.key)))
        .on_slow_handler(Duration::ZERO, move |it: &SlowHandler| {
            slow.lock().unwrap().push((it.shard, it.key));
        })
        .build_with(|_: Expired<u64>| std::panic::resume_unwind(Box::new("quietly")))
        .unwrap();
    let keys = [0, 1, 2].map(|id| spread(&timer, Duration::ZERO, id));
    assert_eq!(timer.turn(), Ok(3));
    let twice = keys.iter().flat_map(|key| [(key.shard(), key.to_raw()); 2]);
    assert_eq!(*told.lock().unwrap(), twice.collect::<Vec<_>>());
}

/// Within a turn, too: a handler that takes long makes those after it late.
#[test]
fn lateness_grows_with_the_handlers_of_a_turn() {
    let (at, (fired, log)) = (Setup::by_hand(), Fired::pair());
    let clock = at.clock.clone();
    let handler = move |expired| {
        log.push(expired);
        clock.advance(ms(1));
    };
    let timer = at.builder().build_with(handler).unwrap();
    (0..300).for_each(|id| _ = timer.schedule(Duration::ZERO, id).unwrap());
    assert_eq!(timer.turn(), Ok(300));
    // The clock is read once in a hundred calls at least.
    for (expired, exact) in fired.take().iter().zip((0..300).map(ms)) {
        let told = expired.lateness;
        assert!(
            told <= exact && exact - told < ms(100),
            "{told:?} of {exact:?}"
        );
    }
}

#[test]
fn the_lag_of_an_engine_is_that_of_its_latest_shard() {
    let at = Setup::by_hand();
    let (timer, _fired) = recording(at.builder().shards(3));
    let shards = [0, 1, 2].map(|id| spread(&timer, ms(10 + 30 * id), id).shard());
    assert_eq!(timer.stats().lag, Duration::ZERO);
    at.clock.advance(ms(100));
    let stats = timer.stats();
    assert_eq!(stats.lag, ms(90));
    let lags = shards.map(|shard| stats.shards[shard].lag);
    assert_eq!(lags, [ms(90), ms(60), ms(30)]);
    at.wait_idle(&timer);
    assert_eq!(timer.stats().lag, Duration::ZERO);
    timer.stop().unwrap();
}

/// Of what is left although it was due, not of what comes after it.
#[test]
fn the_lag_of_a_turn_that_was_cut_short_is_that_of_what_it_has_left() {
    let at = Setup::by_hand();
    let (timer, _fired) = recording(at.builder().budget(Budget::new().fire(2)));
    (1..=4).for_each(|id| _ = timer.schedule(ms(10 * id), id).unwrap());
    let mut shard = timer.drive_shard(0).unwrap();
    shard.turn(Waker::noop()).unwrap();
    at.clock.advance(ms(100));
    for lag in [90, 70] {
        assert_eq!(timer.stats().lag, ms(lag));
        shard.turn(Waker::noop()).unwrap();
    }
    assert_eq!(timer.stats().lag, Duration::ZERO);
    timer.stop().unwrap();
}

/// Also of timers that have come since the last turn.
#[test]
fn the_lag_grows_while_a_handler_holds_its_shard_up() {
    let at = Setup::by_hand();
    let (clock, (tell, lags)) = (at.clock.clone(), channel());
    let timer = reflexive(at.builder(), move |timer: &Timer<u64>, _| {
        clock.advance(ms(10));
        tell.send(timer.stats().lag).unwrap();
    });
    for due in [ms(1), Duration::ZERO] {
        (0..3).for_each(|id| _ = timer.schedule(due, id).unwrap());
        at.advance(&timer, due);
        assert_eq!(lags.try_iter().collect::<Vec<_>>(), [10, 20, 30].map(ms));
        assert_eq!(timer.stats().lag, Duration::ZERO);
    }
    timer.stop().unwrap();
}

#[test]
fn a_timer_that_a_handler_schedules_for_the_past_has_no_lag_before_the_next_turn() {
    let at = Setup::by_hand();
    let timer = reflexive(at.builder(), |timer: &Timer<u64>, expired| {
        if expired.payload == 0 {
            timer.schedule(Time::ZERO, 1).unwrap();
        }
    });
    timer.schedule(HOUR, 0).unwrap();
    at.advance(&timer, HOUR);
    assert_eq!((timer.stats().lag, timer.pending()), (Duration::ZERO, 1));
    at.clock.advance(ms(3));
    assert_eq!(timer.stats().lag, ms(3));
    at.wait_idle(&timer);
    assert_eq!((timer.stats().lag, timer.pending()), (Duration::ZERO, 0));
    timer.stop().unwrap();
}

/// An entry whose timer has ended is dropped in the inbox, in the log, in the wheel or by a sweep: once.
#[test]
fn every_entry_that_dies_is_counted_once() {
    for timers in [100, 20_000] {
        let at = Setup::by_hand();
        let (timer, _fired) = recording(at.builder());
        let keys: Vec<_> = (0..timers)
            .map(|id| timer.schedule(HOUR, id).unwrap())
            .collect();
        let cancel_each = |nth: usize| {
            let doomed = keys.iter().skip(nth).step_by(4);
            assert!(doomed.fold(true, |won, key| won & timer.cancel(*key).is_won()));
        };
        cancel_each(0);
        insert_all(&at, &timer);
        cancel_each(1);
        at.advance(&timer, HOUR);
        let shard = &timer.stats().shards[0];
        assert_eq!((shard.fired, shard.cancelled), (timers / 2 + 1, timers / 2));
        assert_eq!(shard.cancelled_in_inbox, timers / 4);
        assert_eq!(shard.dropped + shard.swept, timers / 4, "{timers}");
        assert_eq!((shard.entries, shard.zombies), (0, 0));
        timer.stop().unwrap();
    }
}

/// Its driver leaves while the engine runs: no worker takes over where there is none.
#[test]
fn a_shard_that_its_driver_leaves_is_turned_by_hand_again() {
    let at = Setup::by_hand();
    let (timer, fired) = recording(at.builder());
    timer.start().unwrap();
    drop(timer.drive_shard(0).unwrap());
    timer.schedule(Duration::ZERO, 1).unwrap();
    std::thread::sleep(ms(20));
    assert_eq!(fired.len(), 0);
    assert_eq!((timer.turn(), fired.len()), (Ok(1), 1));
}
