//! Periodic timers on `LocalTimer`: what other fronts do not have. The rest is in `tests/engine/periodic.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tickwheel::{
    Budget, Cancel, Clock, LocalTimer, ManualClock, MissedTicks, Period, PeriodError, Settings,
    Time, WheelKind,
};

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

fn rate(every_ms: u64, missed: MissedTicks) -> Period {
    Period::fixed_rate(Duration::from_millis(every_ms), missed).unwrap()
}

fn pause(pause_ms: u64) -> Period {
    Period::fixed_delay(Duration::from_millis(pause_ms)).unwrap()
}

fn timers<T>() -> [LocalTimer<T>; 2] {
    [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 16 }]
        .map(|kind| Settings::new().wheel(kind).build_local().unwrap())
}

/// Polls at the given times; the deadlines that fire in each.
fn fire_at(timer: &mut LocalTimer<&'static str>, polls: &[u64]) -> Vec<Vec<u64>> {
    let fire = |at: &u64| {
        let mut fired = Vec::new();
        let polled = timer.poll(ms(*at), |expired| {
            assert_eq!(expired.lateness, ms(*at) - expired.deadline);
            fired.push(expired.deadline.as_nanos() / 1_000_000);
        });
        assert_eq!((polled.fired, polled.more), (fired.len(), false));
        fired
    };
    polls.iter().map(fire).collect()
}

#[test]
fn a_fixed_rate_that_is_polled_in_time_fires_once_per_period() {
    for missed in [MissedTicks::Skip, MissedTicks::Delay, MissedTicks::Burst] {
        for mut timer in timers() {
            let key = timer.schedule_periodic(Time::ZERO, ms(10), rate(5, missed), "tick").unwrap();
            assert_eq!(timer.deadline(key), Some(ms(10)));
            let fired = fire_at(&mut timer, &[9, 10, 12, 15, 19, 20]);
            assert_eq!(fired, [vec![], vec![10], vec![], vec![15], vec![], vec![20]]);
            assert!(timer.is_pending(key), "the key stays valid");
            assert_eq!((timer.pending(), timer.get(key)), (1, Some(&"tick")));
            assert_eq!(timer.cancel(key), Cancel::Won("tick"));
            assert_eq!(fire_at(&mut timer, &[100]), [vec![]]);
        }
    }
}

#[test]
fn a_burst_keeps_to_the_budget_and_lets_others_fire() {
    for mut timer in timers() {
        timer.set_budget(Budget::new().fire(100));
        timer.schedule_periodic(Time::ZERO, ms(1), rate(1, MissedTicks::Burst), "burst").unwrap();
        timer.schedule(Time::ZERO, ms(900), "other").unwrap();
        let mut rounds = Vec::new();
        loop {
            let mut payloads = Vec::new();
            let polled = timer.poll(ms(1000), |expired| payloads.push(expired.payload));
            rounds.push(payloads);
            if !polled.more {
                break;
            }
        }
        assert_eq!(rounds.concat().len(), 1001);
        assert!(rounds.iter().all(|round| round.len() <= 100));
        assert!(rounds[0].contains(&"other"), "it does not wait for the burst to end");
        assert_eq!(timer.next_deadline(), Some(ms(1001)));
    }
}

#[test]
fn a_fixed_delay_counts_from_the_poll() {
    for mut timer in timers() {
        timer.schedule_periodic(Time::ZERO, ms(10), pause(10), "pause").unwrap();
        assert_eq!(fire_at(&mut timer, &[25, 34, 35]), [vec![10], vec![], vec![35]]);
    }
}

#[test]
fn with_a_clock_a_fixed_delay_counts_from_the_end_of_the_handler() {
    for mut timer in timers() {
        let clock = ManualClock::new();
        let key = timer.schedule_periodic(Time::ZERO, ms(10), pause(10), "slow").unwrap();
        timer.schedule_periodic(Time::ZERO, ms(10), rate(10, MissedTicks::Skip), "rate").unwrap();
        clock.set(ms(10));
        let polled = timer.poll_with_clock(&clock, |timer, expired| {
            assert!(timer.is_pending(expired.key));
            if expired.payload == "slow" {
                clock.advance(Duration::from_millis(7));
            }
        });
        assert_eq!((polled.fired, timer.deadline(key)), (2, Some(ms(27))));
        assert_eq!(timer.next_deadline(), Some(ms(20)), "the entry stays where it was filed");
        clock.set(ms(26));
        assert_eq!(timer.poll_with_clock(&clock, |_, _| ()).fired, 1, "only the rate");
        clock.set(ms(27));
        let polled = timer.poll_with_clock(&clock, |timer, expired| {
            // A handler that moves its own timer knows better.
            assert!(timer.reschedule(clock.now(), expired.key, Duration::from_millis(3)).moved());
            clock.advance(Duration::from_millis(1));
        });
        assert_eq!((polled.fired, timer.deadline(key)), (1, Some(ms(30))));
    }
}

#[test]
fn a_slow_handlers_own_move_counts_be_it_to_where_the_timer_goes_anyway() {
    for to in [9, 10, 11] {
        for mut timer in timers() {
            let clock = ManualClock::new();
            let key = timer.schedule_periodic(Time::ZERO, ms(10), pause(10), "").unwrap();
            clock.set(ms(10));
            let polled = timer.poll_with_clock(&clock, |timer, expired| {
                assert!(timer.reschedule(ms(10), expired.key, Duration::from_millis(to)).moved());
                clock.advance(Duration::from_millis(200));
            });
            assert_eq!((polled.fired, timer.deadline(key)), (1, Some(ms(10 + to))));
            // After a call that moves nothing there is the usual pause.
            let polled = timer.poll_with_clock(&clock, |_, _| {
                clock.set(ms(215));
            });
            assert_eq!((polled.fired, timer.deadline(key)), (1, Some(ms(225))));
        }
    }
}

#[test]
fn with_a_clock_a_fixed_delay_counts_from_a_handlers_panic() {
    for mut timer in timers::<&str>() {
        let clock = ManualClock::new();
        let key = timer.schedule_periodic(Time::ZERO, ms(10), pause(10), "").unwrap();
        clock.set(ms(10));
        let polled = catch_unwind(AssertUnwindSafe(|| {
            timer.poll_with_clock(&clock, |_, _| {
                clock.advance(Duration::from_millis(7));
                panic!("after 7 ms");
            })
        }));
        assert!(polled.is_err());
        assert_eq!((timer.deadline(key), timer.pending()), (Some(ms(27)), 1));
        // Without a clock it counts from the poll.
        clock.set(ms(27));
        let polled = catch_unwind(AssertUnwindSafe(|| timer.poll(clock.now(), |_| panic!("poll"))));
        assert!(polled.is_err());
        assert_eq!(timer.deadline(key), Some(ms(37)));
    }
}

/// A clock that panics when it is told to.
struct Moody(ManualClock, AtomicBool);

impl Clock for Moody {
    fn now(&self) -> Time {
        assert!(!self.1.load(Ordering::Relaxed), "the clock");
        self.0.now()
    }
}

#[test]
fn a_fixed_delay_whose_end_the_clock_does_not_tell_counts_from_the_next_poll() {
    for mut timer in timers::<&str>() {
        let clock = Moody(ManualClock::new(), AtomicBool::new(false));
        let key = timer.schedule_periodic(Time::ZERO, ms(10), pause(10), "").unwrap();
        clock.0.set(ms(10));
        let polled = timer.poll_with_clock(&clock, |_, _| clock.1.store(true, Ordering::Relaxed));
        assert_eq!((polled.fired, timer.deadline(key)), (1, Some(ms(20))));
        let begun = catch_unwind(AssertUnwindSafe(|| timer.poll_with_clock(&clock, |_, _| ())));
        assert!(begun.is_err());
        clock.1.store(false, Ordering::Relaxed);
        clock.0.set(ms(20));
        assert_eq!(timer.poll_with_clock(&clock, |_, _| ()).fired, 0);
        assert_eq!(timer.deadline(key), Some(ms(30)));
    }
}

#[test]
fn two_fixed_delays_of_one_poll_whose_end_the_clock_does_not_tell_are_not_short() {
    for mut timer in timers() {
        let clock = Moody(ManualClock::new(), AtomicBool::new(false));
        for name in ["first", "second"] {
            timer.schedule_periodic(Time::ZERO, ms(10), pause(10), name).unwrap();
        }
        clock.0.set(ms(10));
        let mut fired = Vec::new();
        for now in [110, 115, 120, 125] {
            let polled = timer.poll_with_clock(&clock, |_, expired| {
                clock.0.set(ms(now));
                clock.1.store(fired.is_empty(), Ordering::Relaxed);
                fired.push((expired.payload, now));
            });
            assert_eq!(polled.more, now == 110, "the first call ends its poll");
            clock.0.set(ms(now + 5));
            clock.1.store(false, Ordering::Relaxed);
        }
        assert_eq!(fired, [("first", 110), ("second", 115), ("second", 125), ("first", 125)]);
    }
}

#[test]
fn a_fixed_delay_whose_timer_is_swapped_counts_from_that_timers_next_poll() {
    for mut timer in timers::<&str>() {
        let (clock, mut other) = (ManualClock::new(), LocalTimer::new(timer.tick()).unwrap());
        for timer in [&mut timer, &mut other] {
            timer.schedule_periodic(Time::ZERO, ms(10), pause(10), "").unwrap();
        }
        clock.set(ms(10));
        let swap = |timer: &mut LocalTimer<_>, other: &mut LocalTimer<_>| {
            let polled = timer.poll_with_clock(&clock, |timer, _| {
                clock.advance(Duration::from_millis(3));
                std::mem::swap(timer, other);
            });
            assert_eq!(polled.fired, 1);
        };
        // `timer` is swapped out at 10 and `other` at 13, by a poll that says where it would go on.
        swap(&mut timer, &mut other);
        assert_eq!(other.next_deadline(), Some(ms(20)));
        assert_eq!(timer.next_deadline(), Some(ms(10)));
        swap(&mut timer, &mut other);
        clock.set(ms(20));
        assert_eq!(timer.poll_with_clock(&clock, |_, _| ()).fired, 0, "10 ms after 20 at least");
        assert_eq!(timer.next_deadline(), Some(ms(30)));
        clock.set(ms(25));
        assert_eq!(other.poll(clock.now(), |_| ()).fired, 0);
        assert_eq!(other.next_deadline(), Some(ms(35)));
        // A poll without a clock counts from its own time, swapped or not.
        clock.set(ms(30));
        let polled = timer.poll_with(clock.now(), |timer, _| std::mem::swap(timer, &mut other));
        assert_eq!((polled.fired, other.poll(ms(40), |_| ()).fired), (1, 1));
    }
}

#[test]
fn a_handler_cancels_its_own_periodic_timer() {
    for period in [rate(1, MissedTicks::Burst), rate(1, MissedTicks::Skip), pause(1)] {
        for mut timer in timers() {
            let clock = ManualClock::new();
            let key = timer.schedule_periodic(Time::ZERO, ms(1), period, 0).unwrap();
            clock.set(ms(100));
            let mut fired = 0;
            let polled = timer.poll_with_clock(&clock, |timer, expired| {
                fired += 1;
                assert_eq!(expired.key, key);
                assert_eq!(timer.cancel(expired.key), Cancel::Won(0));
                // The node may serve another timer at once, which the end of the handler must not touch.
                timer.schedule(ms(100), Duration::from_millis(5), 1).unwrap();
                clock.advance(Duration::from_millis(2));
            });
            assert_eq!((polled.fired, fired, timer.pending()), (1, 1, 1));
            assert!(timer.next_deadline() <= Some(ms(105)));
            assert_eq!(timer.poll(ms(104), |_| ()).fired, 0);
            assert_eq!(timer.poll(ms(105), |_| ()).fired, 1);
            assert!(!timer.is_pending(key));
        }
    }
}

#[test]
fn the_handler_gets_a_clone_and_may_change_the_original() {
    for mut timer in timers() {
        timer
            .schedule_periodic(Time::ZERO, ms(1), rate(1, MissedTicks::Burst), String::from("a"))
            .unwrap();
        let mut seen = Vec::new();
        let polled = timer.poll_with(ms(3), |timer, expired| {
            seen.push(expired.payload);
            timer.get_mut(expired.key).unwrap().push('b');
        });
        assert_eq!(polled.fired, 3);
        assert_eq!(seen, ["a", "ab", "abb"]);
        let left: Vec<_> =
            timer.drain().map(|unfired| (unfired.payload, unfired.deadline)).collect();
        assert_eq!(left, [("abbb".to_owned(), ms(4))]);
    }
}

#[test]
fn zero_periods_are_refused_and_tiny_ones_do_not_spin() {
    assert_eq!(Period::fixed_rate(Duration::ZERO, MissedTicks::Skip), Err(PeriodError::Zero));
    assert_eq!(Period::fixed_delay(Duration::ZERO), Err(PeriodError::Zero));
    let nano = Duration::from_nanos(1);
    for period in [Period::fixed_rate(nano, MissedTicks::Skip), Period::fixed_delay(nano)] {
        for mut timer in timers() {
            timer.schedule_periodic(Time::ZERO, ms(1), period.unwrap(), ()).unwrap();
            let polled = timer.poll(ms(1), |_| ());
            assert_eq!((polled.fired, polled.more), (1, false));
            assert_eq!(timer.next_deadline(), Some(ms(2)), "once per tick");
        }
    }
}

#[test]
fn periodic_timers_count_towards_the_limit() {
    let mut timer = Settings::new().max_pending(1).build_local().unwrap();
    let key = timer.schedule_periodic(Time::ZERO, ms(1), pause(1), 1).unwrap();
    assert_eq!(
        timer.schedule_periodic(Time::ZERO, ms(1), pause(1), 2).unwrap_err().into_payload(),
        2
    );
    assert_eq!(timer.poll(ms(1), |_| ()).fired, 1);
    assert!(timer.schedule(Time::ZERO, ms(1), 3).is_err(), "it keeps its place");
    assert!(timer.cancel(key).won());
    assert!(timer.schedule(Time::ZERO, ms(1), 4).is_ok());
}
