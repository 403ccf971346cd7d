//! What handlers may do to a `LocalTimer` or `FixedTimer`, and what becomes of payloads and keys.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tickwheel::{Budget, BuildError, Cancel, FixedTimer, LocalTimer, Settings, Time, WheelKind};

/// So many timers in one poll.
fn fire(timers: usize) -> Budget {
    Budget::new().fire(timers)
}

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

fn schedule_all(timer: &mut LocalTimer<i32>, at: Time, payloads: std::ops::Range<i32>) {
    for payload in payloads {
        timer.schedule(Time::ZERO, at, payload).unwrap();
    }
}

#[test]
fn a_handler_that_schedules_zero_delays_for_ever_starves_nobody() {
    for mut timer in timers() {
        timer.schedule(ms(5), Duration::ZERO, "again").unwrap();
        timer.schedule(Time::ZERO, ms(5), "other").unwrap();
        for round in 0..100 {
            let now = ms(5 + round);
            let polled = timer.poll_with(now, |timer, expired| {
                if expired.payload == "again" {
                    timer.schedule(now, Duration::ZERO, "again").unwrap();
                }
            });
            assert_eq!(polled.fired, if round == 0 { 2 } else { 1 });
            assert!(!polled.more, "what a handler schedules does not count as left over");
            assert_eq!(timer.poll_timeout(now), Some(Duration::ZERO), "but it is due at once");
        }
    }
}

#[test]
fn a_fixed_timer_without_delay_starves_nobody() {
    let mut timer = FixedTimer::with_delay(Duration::ZERO);
    timer.schedule(ms(5), ()).unwrap();
    for round in 0..100 {
        let now = ms(5 + round);
        let polled = timer.poll_with(now, |timer, _| {
            timer.schedule(now, ()).unwrap();
        });
        assert_eq!((polled.fired, polled.more), (1, false));
        assert_eq!(timer.poll_timeout(now), Some(Duration::ZERO));
    }
}

/// The other timer's ticks are longer: the number of a tick that has come in the one is far off in the other.
#[test]
fn a_poll_ends_when_its_handler_swaps_the_timer() {
    for mut timer in timers() {
        let mut other = LocalTimer::new(Duration::from_secs(1)).unwrap();
        schedule_all(&mut timer, ms(1_000), 0..3);
        schedule_all(&mut other, ms(600_000), 10..13);
        let polled = timer.poll_with(ms(1_000), |timer, expired| {
            assert_eq!(expired.payload, 0, "a timer of the other one is not due");
            std::mem::swap(timer, &mut other);
            // Its poll is still under way, wherever it lies.
            assert_eq!(other.poll(ms(1_000), |_| ()).fired, 0);
        });
        assert_eq!(polled.fired, 1);
        assert_eq!((timer.pending(), other.pending()), (3, 2));
        assert_eq!(timer.poll(ms(599_999), |_| ()).fired, 0);
        assert_eq!(timer.poll(ms(600_000), |_| ()).fired, 3);
        assert_eq!(other.next_deadline(), Some(ms(1_000)));
        // Swapped back, and in the place where its poll began.
        std::mem::swap(&mut timer, &mut other);
        assert_eq!(timer.poll(ms(1_000), |_| ()).fired, 2);
    }
}

#[test]
fn a_poll_goes_on_when_its_handler_puts_the_timer_back() {
    for mut timer in timers() {
        schedule_all(&mut timer, ms(1), 0..3);
        let polled = timer.poll_with(ms(1), |timer, _| {
            let mut other = LocalTimer::new(for_ms(1)).unwrap();
            std::mem::swap(timer, &mut other);
            std::mem::swap(timer, &mut other);
        });
        assert_eq!((polled.fired, timer.pending()), (3, 0));
    }
}

#[test]
fn a_handler_may_drop_its_timer() {
    let mut timer = LocalTimer::new(for_ms(1)).unwrap();
    schedule_all(&mut timer, ms(1), 0..3);
    let polled = timer.poll_with(ms(1), |timer, _| {
        *timer = LocalTimer::new(for_ms(1)).unwrap();
        timer.schedule(ms(1), ms(0), 7).unwrap();
    });
    assert_eq!((polled.fired, timer.pending()), (1, 1));
    assert_eq!(timer.poll(ms(1), |expired| assert_eq!(expired.payload, 7)).fired, 1);
}

#[test]
fn a_poll_of_a_fixed_timer_ends_when_its_handler_swaps_it() {
    let (mut timer, mut other) =
        (FixedTimer::with_delay(for_ms(10)), FixedTimer::with_delay(for_ms(9)));
    for n in 0..3 {
        timer.schedule(ms(0), n).unwrap();
        other.schedule(ms(0), 10 + n).unwrap();
    }
    let polled = timer.poll_with(ms(10), |timer, expired| {
        assert_eq!(expired.payload, 0, "those of the other one are due in a poll of their own");
        std::mem::swap(timer, &mut other);
    });
    assert_eq!((polled.fired, timer.pending(), other.pending()), (1, 3, 2));
    assert_eq!(timer.poll(ms(10), |_| ()).fired, 3);
    assert_eq!(other.poll(ms(10), |_| ()).fired, 2);
}

/// What a handler of a `FixedTimer` schedules comes after what is due, before what is scheduled later.
#[test]
fn a_fixed_timer_keeps_the_order_of_what_handlers_schedule() {
    let mut timer = FixedTimer::with_delay(Duration::ZERO);
    for n in 0..3 {
        timer.schedule(ms(5), n).unwrap();
    }
    timer.set_budget(fire(1));
    let polled = timer.poll_with(ms(5), |timer, _| {
        timer.schedule(ms(5), 3).unwrap();
        timer.schedule(ms(6), 4).unwrap();
    });
    assert!(polled.fired == 1 && polled.more);
    timer.schedule(ms(6), 5).unwrap();
    timer.set_budget(Budget::new());
    let mut fired = Vec::new();
    assert_eq!(timer.poll(ms(6), |expired| fired.push(expired.payload)).fired, 5);
    assert_eq!(fired, [1, 2, 3, 4, 5]);
}

#[test]
fn a_deadline_that_has_passed_is_due_in_the_next_poll_whatever_the_tick() {
    let hour = |n: u64| ms(n * 3_600_000);
    let at = |minutes: u64| ms(minutes * 60_000);
    for kind in [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 16 }] {
        let mut timer = Settings::new().tick(for_ms(3_600_000)).wheel(kind).build_local().unwrap();
        assert_eq!(timer.poll(at(90), |_| ()).fired, 0);
        timer.schedule(at(90), at(70), 0).unwrap();
        timer.schedule(at(0), at(90), 1).unwrap();
        let moved = timer.schedule(at(90), hour(9), 2).unwrap();
        assert!(timer.reschedule(at(90), moved, at(80)).moved());
        timer.schedule(at(90), at(91), 3).unwrap();
        assert_eq!(timer.poll_timeout(at(90)), Some(Duration::ZERO));
        assert_eq!(timer.poll(at(90), |expired| assert!(expired.payload < 3)).fired, 3);
        assert_eq!(timer.next_deadline(), Some(hour(2)));
    }
}

/// 90 minutes is said to be now, so a poll that is told of an earlier time counts as one at 90 minutes.
#[test]
fn a_deadline_of_now_is_not_early_if_the_clock_goes_back() {
    let at = |minutes: u64| ms(minutes * 60_000);
    for deadline in [at(90), at(70)] {
        let mut timer = LocalTimer::new(for_ms(3_600_000)).unwrap();
        timer.schedule(at(90), deadline, 0).unwrap();
        let mut lateness = None;
        timer.poll(at(60), |expired| lateness = Some(expired.lateness));
        assert_eq!(lateness, Some(at(90) - at(60)));
    }
}

#[test]
fn at_the_end_of_the_scale_only_a_delay_of_zero_is_due() {
    for mut timer in timers() {
        timer.schedule(Time::MAX, for_ms(1), 1).unwrap();
        timer.schedule(Time::MAX, Time::MAX, 2).unwrap();
        timer.schedule(Time::MAX, Duration::ZERO, 3).unwrap();
        assert_eq!(timer.poll(Time::MAX, |expired| assert_eq!(expired.payload, 3)).fired, 1);
    }
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

#[test]
fn a_panic_in_a_handler_leaves_the_timer_usable() {
    for mut timer in timers() {
        schedule_all(&mut timer, ms(1), 0..4);
        let mut fired = Vec::new();
        let poll = |timer: &mut LocalTimer<i32>, fired: &mut Vec<i32>| {
            catch_unwind(AssertUnwindSafe(|| {
                timer.poll(ms(1), |expired| {
                    fired.push(expired.payload);
                    assert_ne!(expired.payload, 1, "the handler panics");
                })
            }))
        };
        assert!(poll(&mut timer, &mut fired).is_err());
        assert_eq!((timer.pending(), timer.next_deadline()), (2, Some(ms(1))));
        // Not inside a poll any more: what is due now need not wait for a second one.
        timer.schedule(Time::ZERO, ms(0), 8).unwrap();
        assert_eq!(poll(&mut timer, &mut fired).unwrap().fired, 3);
        fired.sort_unstable();
        assert_eq!(fired, [0, 1, 2, 3, 8]);
    }
}

#[test]
fn a_panic_in_a_handler_of_a_fixed_timer_leaves_it_usable() {
    let mut timer = FixedTimer::with_delay(for_ms(1));
    for n in 0..3 {
        timer.schedule(ms(0), n).unwrap();
    }
    let panicked =
        catch_unwind(AssertUnwindSafe(|| timer.poll(ms(1), |_| panic!("the handler panics"))));
    assert!(panicked.is_err());
    assert_eq!((timer.pending(), timer.next_deadline()), (2, Some(ms(1))));
    assert_eq!(timer.poll(ms(1), |_| ()).fired, 2);
}

#[test]
fn a_forgotten_drain_leaves_the_timers_that_it_has_not_come_to() {
    let mut fixed = FixedTimer::with_delay(for_ms(10));
    for n in 0..3 {
        fixed.schedule(ms(0), n).unwrap();
    }
    let mut drain = fixed.drain();
    assert!(drain.next().is_some());
    std::mem::forget(drain);
    assert_eq!((fixed.pending(), fixed.next_deadline()), (2, Some(ms(10))));
    assert_eq!((fixed.poll(ms(10), |_| ()).fired, fixed.next_deadline()), (2, None));
    for mut timer in timers() {
        schedule_all(&mut timer, ms(10), 0..3);
        timer.poll(ms(5), |_| ());
        let mut drain = timer.drain();
        assert!(drain.next().is_some());
        std::mem::forget(drain);
        assert_eq!((timer.pending(), timer.next_deadline()), (2, Some(ms(10))));
        assert_eq!((timer.poll(ms(10), |_| ()).fired, timer.next_deadline()), (2, None));
    }
}

#[test]
fn a_stale_key_never_touches_the_timer_that_follows() {
    for mut timer in timers() {
        let mut stale = Vec::new();
        // One node, used again and again.
        for n in 0..1000 {
            let key = timer.schedule(ms(0), for_ms(10), n).unwrap();
            for old in &stale {
                assert_eq!(timer.cancel(*old), Cancel::Lost);
                assert!(!timer.reschedule(ms(0), *old, for_ms(1)).moved());
                assert_eq!((timer.get(*old), timer.deadline(*old)), (None, None));
            }
            assert_eq!((timer.get(key), timer.pending()), (Some(&n), 1));
            assert_eq!(timer.cancel(key), Cancel::Won(n));
            if n % 100 == 0 {
                stale.push(key);
            }
        }
        // Zombies of earlier timers come due before their node's present timer, and must not fire it.
        let key = timer.schedule(ms(0), for_ms(20), 7777).unwrap();
        assert_eq!(timer.poll(ms(19), |_| ()).fired, 0);
        assert!(timer.is_pending(key));
        assert_eq!(timer.poll(ms(20), |_| ()).fired, 1);
    }
}

/// What leaves the log counts against the budget, but never takes all of it.
#[test]
fn the_smallest_budget_makes_headway_beside_a_log_that_fills_and_empties() {
    let mut timer = LocalTimer::new(for_ms(1)).unwrap();
    timer.set_budget(fire(1));
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

#[test]
fn mistaken_settings_are_refused() {
    assert_eq!(
        LocalTimer::<()>::new(Duration::ZERO).unwrap_err(),
        BuildError::TickOutOfRange { tick: Duration::ZERO }
    );
    let build = |kind| Settings::new().wheel(kind).build_local::<()>().map(drop);
    assert_eq!(
        build(WheelKind::Hashed { buckets: 0 }),
        Err(BuildError::BucketsOutOfRange { buckets: 0 })
    );
    let limited = Settings::new().max_pending(0).build_local::<()>().map(drop);
    assert_eq!(limited, Err(BuildError::ZeroMaxPending));
}

#[test]
fn timeouts_are_exact_and_rounded_up_to_milliseconds() {
    let mut timer = LocalTimer::new(Duration::from_micros(100)).unwrap();
    let now = Time::from_nanos(250);
    assert_eq!((timer.poll_timeout(now), timer.poll_timeout_ms(now)), (None, -1));
    timer.schedule(now, Duration::MAX, "never").unwrap();
    assert_eq!((timer.poll_timeout(now), timer.poll_timeout_ms(now)), (None, -1));
    timer.schedule(now, Duration::from_micros(150), "soon").unwrap();
    assert_eq!(timer.poll_timeout(now), Some(Duration::from_nanos(199_750)));
    assert_eq!(timer.poll_timeout_ms(now), 1, "less would spin");
    assert_eq!(timer.poll_timeout_ms(Time::from_nanos(200_000)), 0);
    assert_eq!(timer.poll(Time::from_nanos(199_999), |_| ()).fired, 0, "never early");
    assert_eq!(timer.poll(Time::from_nanos(200_000), |_| ()).fired, 1);
    assert_eq!(timer.poll(Time::MAX, |_| ()).fired, 0, "never is never");
    assert_eq!(timer.pending(), 1);
}

#[test]
fn days_and_centuries_pass_in_a_jump() {
    for mut timer in timers() {
        let year = Duration::from_secs(365 * 24 * 3600);
        for n in [1_u32, 2, 100, 500] {
            timer.schedule(ms(0), year * n, n).unwrap();
        }
        let mut fired = Vec::new();
        let polled = timer.poll(Time::ZERO + year * 300, |expired| fired.push(expired.payload));
        assert_eq!((fired, polled.more), (vec![1, 2, 100], false));
        assert_eq!(timer.next_deadline(), Some(Time::ZERO + year * 500));
    }
}

#[test]
fn a_budget_of_zero_counts_as_one() {
    for mut timer in timers() {
        timer.set_budget(fire(0));
        schedule_all(&mut timer, ms(4), 0..2);
        for left in [true, false] {
            let polled = timer.poll(ms(4), |_| ());
            assert_eq!((polled.fired, polled.more), (1, left));
        }
    }
}
