//! Periodic timers on `LocalTimer`: what other fronts do not have. The rest is in `tests/engine/periodic.rs`.

use crate::support::breakable::Breakable;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tickwheel::{
    Budget, Cancel, Clock, Expired, Key, LocalTimer, ManualClock, MissedTicks, Period, Settings,
    Time,
};

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

fn rate(every_ms: u64, missed: MissedTicks) -> Period {
    Period::fixed_rate(Duration::from_millis(every_ms), missed)
}

fn pause(pause_ms: u64) -> Period {
    Period::fixed_delay(Duration::from_millis(pause_ms))
}

fn timer<T>() -> LocalTimer<T> {
    Settings::new().build_local().unwrap()
}

#[test]
fn a_burst_keeps_to_the_budget_and_lets_others_fire() {
    let mut timer = timer();
    timer.set_budget(Budget::new().fire(100));
    timer
        .schedule_periodic(Time::ZERO, ms(1), rate(1, MissedTicks::Burst), "burst")
        .unwrap();
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
    assert!(
        rounds[0].contains(&"other"),
        "it does not wait for the burst to end"
    );
    assert_eq!(timer.next_deadline(), Some(ms(1001)));
}

/// A pause of 10 ms after a call that begins at 10 ms and takes 7: with a clock it counts from the end of the call.
#[test]
fn a_fixed_delay_counts_from_the_end_of_the_call_that_a_clock_tells() {
    type Act = fn(&mut LocalTimer<()>, Key<()>);
    let rows: [(bool, Act, u64); 7] = [
        (false, |_, _| (), 20),
        (false, |_, _| panic!("the handler"), 20),
        (true, |_, _| (), 27),
        (true, |_, _| panic!("the handler"), 27),
        // A handler that moves its own timer knows better, be it to where the timer goes anyway.
        (
            true,
            |timer, key| assert!(timer.reschedule(ms(1), key, ms(19)).is_moved()),
            19,
        ),
        (
            true,
            |timer, key| assert!(timer.reschedule(ms(1), key, ms(20)).is_moved()),
            20,
        ),
        (
            true,
            |timer, key| assert!(timer.reschedule(ms(1), key, ms(21)).is_moved()),
            21,
        ),
    ];
    for (by_clock, act, next) in rows {
        let mut timer = timer();
        let clock = ManualClock::new();
        let key = timer
            .schedule_periodic(Time::ZERO, ms(10), pause(10), ())
            .unwrap();
        clock.set(ms(10));
        let call = |timer: &mut LocalTimer<()>, expired: Expired<()>| {
            clock.advance(Duration::from_millis(7));
            act(timer, expired.key);
        };
        let polled = catch_unwind(AssertUnwindSafe(|| match by_clock {
            true => timer.poll_with_clock(&clock, call),
            false => timer.poll_with(clock.now(), call),
        }));
        if let Ok(polled) = polled {
            assert_eq!(polled.fired, 1);
        }
        assert_eq!((timer.deadline(key), timer.pending()), (Some(ms(next)), 1));
        // After a call that moves nothing there is the usual pause.
        clock.set(ms(next));
        let polled =
            timer.poll_with_clock(&clock, |_, _| _ = clock.advance(Duration::from_millis(7)));
        assert_eq!(
            (polled.fired, timer.deadline(key)),
            (1, Some(ms(next + 17)))
        );
    }
}

/// A clock that is set back while a handler runs.
struct SetBack(AtomicBool);

impl Clock for SetBack {
    fn now(&self) -> Time {
        if self.0.load(Ordering::Relaxed) {
            ms(3)
        } else {
            ms(100)
        }
    }
}

#[test]
fn a_call_that_ends_before_it_began_counts_from_its_beginning() {
    let mut timer = timer();
    let clock = SetBack(AtomicBool::new(false));
    let key = timer
        .schedule_periodic(Time::ZERO, ms(10), pause(10), ())
        .unwrap();
    let polled = timer.poll_with_clock(&clock, |_, _| clock.0.store(true, Ordering::Relaxed));
    assert_eq!((polled.fired, timer.deadline(key)), (1, Some(ms(110))));
    assert_eq!(timer.poll(ms(109), |_| ()).fired, 0);
    assert_eq!(timer.poll(ms(110), |_| ()).fired, 1);
}

#[test]
fn two_fixed_delays_of_one_poll_whose_end_the_clock_does_not_tell_are_not_short() {
    let mut timer = timer();
    let clock = Breakable::default();
    for name in ["first", "second"] {
        timer
            .schedule_periodic(Time::ZERO, ms(10), pause(10), name)
            .unwrap();
    }
    clock.time.set(ms(10));
    let mut fired = Vec::new();
    for now in [110, 115, 120, 125] {
        let polled = timer.poll_with_clock(&clock, |_, expired| {
            clock.time.set(ms(now));
            clock.set_broken(fired.is_empty());
            fired.push((expired.payload, now));
        });
        assert_eq!(polled.more, now == 110, "the first call ends its poll");
        clock.time.set(ms(now + 5));
        clock.set_broken(false);
    }
    assert_eq!(
        fired,
        [
            ("first", 110),
            ("second", 115),
            ("second", 125),
            ("first", 125)
        ]
    );
}

#[test]
fn a_handler_cancels_its_own_periodic_timer() {
    for period in [
        rate(1, MissedTicks::Burst),
        rate(1, MissedTicks::Skip),
        pause(1),
    ] {
        let mut timer = timer();
        let clock = ManualClock::new();
        let key = timer
            .schedule_periodic(Time::ZERO, ms(1), period, 0)
            .unwrap();
        clock.set(ms(100));
        let mut fired = 0;
        let polled = timer.poll_with_clock(&clock, |timer, expired| {
            fired += 1;
            assert_eq!(expired.key, key);
            assert_eq!(timer.cancel(expired.key), Cancel::Won(0));
            // The node may serve another timer at once, which the end of the handler must not touch.
            timer
                .schedule(ms(100), Duration::from_millis(5), 1)
                .unwrap();
            clock.advance(Duration::from_millis(2));
        });
        assert_eq!((polled.fired, fired, timer.pending()), (1, 1, 1));
        assert!(timer.next_deadline() <= Some(ms(105)));
        assert_eq!(timer.poll(ms(104), |_| ()).fired, 0);
        assert_eq!(timer.poll(ms(105), |_| ()).fired, 1);
        assert!(!timer.is_pending(key));
    }
}

#[test]
fn the_handler_gets_a_clone_and_may_change_the_original() {
    let mut timer = timer();
    timer
        .schedule_periodic(
            Time::ZERO,
            ms(1),
            rate(1, MissedTicks::Burst),
            String::from("a"),
        )
        .unwrap();
    let mut seen = Vec::new();
    let polled = timer.poll_with(ms(3), |timer, expired| {
        seen.push(expired.payload);
        timer.get_mut(expired.key).unwrap().push('b');
    });
    assert_eq!(polled.fired, 3);
    assert_eq!(seen, ["a", "ab", "abb"]);
    let left: Vec<_> = timer
        .drain()
        .map(|unfired| (unfired.payload, unfired.deadline))
        .collect();
    assert_eq!(left, [("abbb".to_owned(), ms(4))]);
}

/// A payload that cannot be cloned while it is 1.
struct Fragile(u8);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert_ne!(self.0, 1, "the payload's clone");
        Self(self.0)
    }
}

#[test]
fn a_periodic_timer_goes_on_when_its_payloads_clone_panics() {
    let mut timer = timer();
    let key = timer
        .schedule_periodic(Time::ZERO, ms(1), rate(1, MissedTicks::Skip), Fragile(1))
        .unwrap();
    let poll = || timer.poll(ms(1), |_| unreachable!("there is nothing to hand over"));
    assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
    assert_eq!((timer.pending(), timer.next_deadline()), (1, Some(ms(2))));
    timer.get_mut(key).unwrap().0 = 2;
    let polled = timer.poll(ms(2), |expired| assert_eq!(expired.payload.0, 2));
    assert_eq!((polled.fired, timer.pending()), (1, 1));
}
