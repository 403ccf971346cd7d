//! What handlers and moves do to a `LocalTimer`, beyond what the model and the tests of all loop timers
//! (`tests/fronts/loops.rs`) show.

use std::time::Duration;
use tickwheel::{Budget, LocalTimer, Settings, Time, WheelKind};

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

fn for_ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn timers<T>() -> [LocalTimer<T>; 2] {
    [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 16 }]
        .map(|kind| Settings::new().wheel(kind).build_local().unwrap())
}

/// One call of a handler that moves a timer to and fro, to deadlines that have come.
#[test]
fn moves_within_one_handler_leave_a_bounded_number_of_entries() {
    for mut timer in timers() {
        timer.schedule(ms(0), ms(10), 0).unwrap();
        let moved = timer.schedule(ms(0), ms(9_000), 1).unwrap();
        let polled = timer.poll_with(ms(10), |timer, expired| {
            assert_eq!(expired.payload, 0);
            for _ in 0..150_000 {
                assert!(timer.reschedule(ms(10), moved, ms(10)).moved());
                assert!(timer.reschedule(ms(10), moved, ms(9_000)).moved());
            }
            assert!(timer.held_bytes() < 3 << 20, "{} bytes", timer.held_bytes());
        });
        assert_eq!((polled.fired, timer.pending()), (1, 1));
        assert_eq!(timer.deadline(moved), Some(ms(9_000)));
    }
}

/// What leaves the log counts against the budget, but never takes all of it.
#[test]
fn the_smallest_budget_makes_headway_beside_a_log_that_fills_and_empties() {
    let mut timer = LocalTimer::new(for_ms(1)).unwrap();
    timer.set_budget(Budget::new().fire(1));
    let mut fired = 0;
    // So far apart that all of the log is due each time.
    for round in 0..1_000 {
        for _ in 0..20 {
            timer.schedule(ms(round * 100), for_ms(70), ()).unwrap();
        }
        fired += timer.poll(ms(round * 100), |_| ()).fired;
    }
    assert!(fired >= 700, "only {fired} in 1000 polls");
}

/// A regression: with a far timer in the log, what a handler scheduled for now was kept back there, too, and
/// fired in the same poll.
#[test]
fn a_handlers_timer_for_now_waits_beside_a_young_far_timer() {
    for mut timer in timers() {
        timer.schedule(ms(0), for_ms(100_000), ()).unwrap();
        timer.schedule(ms(0), for_ms(10), ()).unwrap();
        for now in [ms(500), ms(501), ms(600), ms(5_000)] {
            let polled = timer.poll_with(now, |timer, _| {
                timer.schedule(now, Duration::ZERO, ()).unwrap();
            });
            assert_eq!(polled.fired, 1);
        }
        assert_eq!(timer.pending(), 2);
    }
}

/// The hint that tells a timer's entries apart has eight bits; it comes round here.
#[test]
fn a_timer_that_is_moved_earlier_hundreds_of_times_fires_once() {
    for mut timer in timers() {
        let key = timer.schedule(ms(0), for_ms(10_000), ()).unwrap();
        for n in 1..=1_000 {
            assert!(timer.reschedule(ms(0), key, for_ms(10_000 - n * 3)).moved());
            assert!(timer.reschedule(ms(0), key, for_ms(10_000 - n)).moved());
        }
        assert_eq!(timer.poll(ms(8_999), |_| ()).fired, 0);
        assert_eq!(timer.poll(ms(9_000), |_| ()).fired, 1);
        assert_eq!(timer.poll(ms(20_000), |_| ()).fired, 0);
        assert_eq!(timer.next_deadline(), None);
    }
}
