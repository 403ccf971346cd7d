//! What the timers that a loop drives have in common: each test runs on all kinds of them.

use super::{MS, NOW, event_loop, standing};
use crate::support::loop_timer::{Due, LoopTimer};
use crate::support::setup::HOUR;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tickwheel::{
    Budget, BuildError, EventLoopTimer, Key, LocalTimer, ManualClock, Period, ScheduleErrorKind,
    Settings, Time,
};

/// A kind of loop timer.
pub(super) trait Loop: LoopTimer<Payload = u64> {
    /// A timer for calls with this delay.
    fn build(settings: Settings, delay: Duration) -> Self;
    /// A timer with this clock, if it has one.
    fn with_clock(settings: Settings, _: &ManualClock) -> Self {
        Self::build(settings, Duration::ZERO)
    }
    fn arm(&mut self, now: Time, delay: Duration, id: u64) -> Key<u64>;
    fn move_to(&mut self, now: Time, key: Key<u64>, delay: Duration) -> bool;

    /// Arms timers `0..count` for an hour after `NOW`.
    fn arm_all(&mut self, count: u64) -> Vec<Key<u64>> {
        (0..count).map(|id| self.arm(NOW, HOUR, id)).collect()
    }
}

impl Loop for LocalTimer<u64> {
    fn build(settings: Settings, _: Duration) -> Self {
        settings.build_local().unwrap()
    }
    fn arm(&mut self, now: Time, delay: Duration, id: u64) -> Key<u64> {
        self.schedule(now, delay, id).unwrap()
    }
    fn move_to(&mut self, now: Time, key: Key<u64>, delay: Duration) -> bool {
        self.reschedule(now, key, delay).is_moved()
    }
}

impl Loop for EventLoopTimer<u64> {
    fn build(settings: Settings, _: Duration) -> Self {
        EventLoopTimer::with_waker(settings, || ()).unwrap()
    }
    fn with_clock(settings: Settings, clock: &ManualClock) -> Self {
        Self::build(settings.clock(clock.clone()), Duration::ZERO)
    }
    fn arm(&mut self, now: Time, delay: Duration, id: u64) -> Key<u64> {
        self.schedule(now, delay, id).unwrap()
    }
    fn move_to(&mut self, now: Time, key: Key<u64>, delay: Duration) -> bool {
        self.reschedule(now, key, delay).is_moved()
    }
}

/// Runs a test on each kind.
macro_rules! on_each_kind {
    ($test:ident) => {
        $test::<LocalTimer<u64>>();
        $test::<EventLoopTimer<u64>>();
    };
}

/// The payloads of what one poll fires.
pub(super) fn fire(timer: &mut impl LoopTimer<Payload = u64>, now: Time) -> Vec<u64> {
    timer.expired(now).map(|expired| expired.payload).collect()
}

#[test]
fn expirations_can_be_dropped_at_any_point() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), HOUR);
        let then = NOW + HOUR;
        let keys = timer.arm_all(5);
        assert_eq!(timer.expired(NOW).count(), 0);
        let mut due = timer.expired(then);
        let first = due.next().unwrap();
        assert_eq!(
            (first.key, first.payload, first.deadline),
            (keys[0], 0, then)
        );
        // The timer can be used, and a poll inside does nothing.
        assert_eq!(due.timer().poll(then, |_| ()).fired, 0);
        assert_eq!(due.timer().expired(then).count(), 0);
        assert!(due.timer().cancel(keys[1]).is_won());
        let again = due.timer().arm(then, HOUR, 7);
        let polled = due.finish();
        assert_eq!((polled.fired, polled.more), (1, true));
        assert_eq!(
            timer.poll_timeout(then),
            Some(Duration::ZERO),
            "nothing is lost"
        );
        // A loop that is left half-way leaves the rest to the next poll.
        let seen: Vec<u64> = timer.expired(then).take(2).map(|it| it.payload).collect();
        assert_eq!(seen, [2, 3]);
        assert_eq!((fire(&mut timer, then), timer.pending()), (vec![4], 1));
        assert_eq!(timer.deadline(again), Some(then + HOUR));
    }
    on_each_kind!(test);
}

#[test]
fn code_that_is_generic_over_loop_timers_drives_each_of_them() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), HOUR);
        let keys = timer.arm_all(3);
        let deadline = timer.deadline(keys[0]).expect("it is pending");
        let listed: HashMap<_, _> = timer.keys().collect();
        assert_eq!(
            listed,
            keys.into_iter().map(|key| (key, deadline)).collect()
        );
        assert!(timer.poll_timeout_ms(NOW) > 0);
        timer.set_budget(Budget::new().fire(1));
        assert_eq!(timer.poll(deadline, |_| ()).fired, 1);
        let unfired = timer.drain().next().expect("two are left");
        assert!(unfired.payload >= 1 && unfired.deadline == deadline);
        assert!(timer.is_empty(), "the drain's end drops the other one");
        timer.reserve(1000);
        timer.arm_all(3);
        timer.clear();
        assert!(timer.is_empty() && timer.held_bytes() > 0);
        assert_eq!(
            timer
                .poll_with(deadline, |_, _| panic!("it was cleared"))
                .fired,
            0
        );
    }
    on_each_kind!(test);
}

/// Where they wait until then counts as well, but for little.
#[test]
fn half_as_many_timers_as_the_budget_allows_fire_in_one_poll() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), HOUR);
        let many = Budget::new().fire / 2;
        timer.arm_all(many as u64);
        let polled = timer.poll(NOW + HOUR, |_| ());
        assert_eq!((polled.fired, polled.more), (many, false));
    }
    on_each_kind!(test);
}

#[test]
fn a_budget_of_zeros_is_a_budget_of_ones() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), HOUR);
        timer.set_budget(Budget::new().drain(0).fire(0).sweep(0));
        timer.arm_all(3);
        for id in 0..3 {
            assert_eq!(fire(&mut timer, NOW + HOUR), [id], "one at a time");
        }
        assert!(timer.is_empty());
    }
    on_each_kind!(test);
    // What remotes have sent is drained one by one.
    let mut timer = event_loop(MS, standing());
    timer.set_budget(Budget::new().drain(0).fire(0).sweep(0));
    (0..3).for_each(|id| _ = timer.remote().schedule(Duration::ZERO, id).unwrap());
    let fired: Vec<u64> = (0..6).flat_map(|_| fire(&mut timer, NOW)).collect();
    assert_eq!(fired, [0, 1, 2]);
}

#[test]
fn a_panic_in_a_handler_leaves_the_timer_usable() {
    fn test<L: Loop>() {
        let then = NOW + HOUR;
        let mut timer = L::build(Settings::new(), HOUR);
        timer.arm_all(4);
        let poll = AssertUnwindSafe(|| timer.poll(then, |it| assert_ne!(it.payload, 1)));
        assert!(catch_unwind(poll).is_err());
        assert_eq!(timer.pending(), 2);
        assert!(timer.next_deadline().is_some_and(|next| next <= then));
        // Not inside a poll any more: what is due now need not wait for a second one.
        timer.arm(NOW, HOUR, 8);
        assert_eq!(fire(&mut timer, then), [2, 3, 8]);
    }
    on_each_kind!(test);
}

#[test]
fn forgetting_a_drain_keeps_the_remaining_timers() {
    fn test<L: Loop>(left: usize) {
        let mut timer = L::build(Settings::new(), HOUR);
        timer.arm_all(3);
        timer.poll(NOW + MS, |_| ());
        let mut drain = timer.drain();
        assert!(drain.next().is_some());
        std::mem::forget(drain);
        let next = (left > 0).then_some(NOW + HOUR);
        assert_eq!(
            (timer.pending(), timer.next_deadline().filter(|_| left > 0)),
            (left, next)
        );
        assert_eq!(
            (fire(&mut timer, NOW + HOUR).len(), timer.next_deadline()),
            (left, None)
        );
    }
    test::<LocalTimer<u64>>(2);
    // A loop takes all of them out at once, so that remotes cannot get between.
    test::<EventLoopTimer<u64>>(0);
}

/// A loop that is busy with its sockets for long: its own cancels and moves keep what the wheel holds bounded.
#[test]
fn cancels_and_moves_are_swept_without_polls() {
    fn test<L: Loop>() {
        for (near, is_cancelled) in [(MS, true), (MS, false), (HOUR, true), (HOUR, false)] {
            let mut timer = L::build(Settings::new(), near);
            let mut key = timer.arm(NOW, near, 0);
            let (mut peak, mut live) = (0, 0);
            for n in 0..400_000_u64 {
                let later = NOW + Duration::from_nanos(n);
                if is_cancelled {
                    assert!(timer.cancel(key).is_won());
                    key = timer.arm(later, near, n);
                } else {
                    // Over a wheel to and fro.
                    let delay = if n % 2 == 0 { near } else { 2 * near };
                    assert!(timer.move_to(later, key, delay));
                }
                if n % 200_000 == 199_999 {
                    timer.arm(later, near, n);
                    live += 1;
                    // The figure of a loop is as of the last poll, which has nothing to fire.
                    timer.poll(NOW, |_| panic!("nothing is due"));
                    peak = peak.max(timer.held_bytes());
                }
            }
            assert!(peak < 1 << 20, "{peak} bytes held: {is_cancelled} {near:?}");
            assert_eq!(timer.pending(), live + 1);
        }
    }
    on_each_kind!(test);
}

/// One call of a handler that moves a timer to and fro, to deadlines that have come.
#[test]
fn moves_within_one_handler_leave_a_bounded_number_of_entries() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), MS);
        timer.arm(NOW, MS, 0);
        let moved = timer.arm(NOW, HOUR, 1);
        let polled = timer.poll_with(NOW + MS, |timer, expired| {
            assert_eq!(expired.payload, 0);
            for n in 0..300_000 {
                assert!(timer.move_to(NOW + MS, moved, HOUR * (n % 2)));
            }
            assert!(timer.held_bytes() < 3 << 20, "{} bytes", timer.held_bytes());
        });
        assert_eq!((polled.fired, timer.pending()), (1, 1));
        // The figure of a loop is as of the last poll.
        assert!(timer.held_bytes() < 3 << 20, "{} bytes", timer.held_bytes());
        assert_eq!(timer.deadline(moved), Some(NOW + MS + HOUR));
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

/// A handler's timer lies in the log, of which the rings know nothing; so does one that many cancels between two polls
/// leave.
#[test]
fn the_next_deadline_is_known_within_a_poll_and_after_many_cancels() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), HOUR);
        timer.arm(NOW, MS, 0);
        let (mut found, next) = (None, Some(NOW + MS + HOUR / 2));
        timer.poll_with(NOW + MS, |timer, _| {
            let key = timer.arm(NOW + MS, HOUR / 2, 1);
            found = Some((timer.next_deadline(), timer.deadline(key)));
        });
        assert_eq!(found, Some((next, next)));
        for key in timer.arm_all(100_000) {
            assert!(timer.cancel(key).is_won());
            // That or earlier, where there is something to sweep.
            assert!(timer.next_deadline().is_some() && timer.next_deadline() <= next);
        }
        assert_eq!(fire(&mut timer, NOW + MS + HOUR / 2), [1]);
    }
    on_each_kind!(test);
}

/// The hint that tells a timer's entries apart has eight bits; it comes round here.
#[test]
fn a_timer_that_is_moved_earlier_hundreds_of_times_fires_once() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), MS);
        let key = timer.arm(NOW, 10_000 * MS, 0);
        for n in 1..=1_000 {
            assert!(timer.move_to(NOW, key, (10_000 - n * 3) * MS));
            assert!(timer.move_to(NOW, key, (10_000 - n) * MS));
        }
        let fired = [8_999, 9_000, 20_000].map(|ms| fire(&mut timer, NOW + ms * MS));
        assert_eq!(fired, [vec![], vec![0], vec![]]);
        assert_eq!(timer.next_deadline(), None);
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

/// What leaves the log counts against the budget, but never takes all of it.
#[test]
fn the_smallest_budget_makes_headway_beside_a_log_that_fills_and_empties() {
    let mut timer = LocalTimer::new(MS).unwrap();
    timer.set_budget(Budget::new().fire(1));
    let mut fired = 0;
    // So far apart that all of the log is due each time.
    for round in 0..1_000 {
        let now = NOW + round * 100 * MS;
        (0..20).for_each(|id| _ = timer.arm(now, 70 * MS, id));
        fired += timer.poll(now, |_| ()).fired;
    }
    assert!(fired >= 700, "only {fired} in 1000 polls");
}

/// A sweep was under way.
#[test]
fn a_cleared_timer_has_nothing_left_to_do() {
    let mut timer = LocalTimer::build(Settings::new(), HOUR);
    timer.set_budget(Budget::new().sweep(1));
    let keys = timer.arm_all(100_000);
    // So many that a sweep begins; those that live lie before them.
    assert!(keys[40_000..].iter().all(|key| timer.cancel(*key).is_won()));
    assert!(timer.poll(NOW, |_| ()).more);
    timer.clear();
    (1..5).for_each(|id| _ = timer.arm(NOW, MS * id as u32, id));
    assert!(!timer.poll(NOW, |_| ()).more);
}

#[test]
fn a_loops_drain_leaves_timers_that_a_remote_schedules_meanwhile() {
    let mut timer = event_loop(MS, standing());
    let remote = timer.remote();
    let first = timer.schedule(NOW, HOUR, 1).unwrap();
    let mut drain = timer.drain();
    let second = remote.schedule(HOUR, 2).unwrap();
    assert_eq!(drain.next().map(|unfired| unfired.key), Some(first));
    assert!(drain.next().is_none());
    drop(drain);
    assert!(timer.is_pending(second) && timer.pending() == 1);
}

/// Pulls a periodic timer that is due at `NOW` and rests a millisecond after each call.
fn goes_on_when_it_is_pulled(mut timer: impl LoopTimer<Payload = u64>, key: Key<u64>) {
    for round in 0..3_u32 {
        let mut due = timer.expired(NOW + 2 * MS * round);
        assert_eq!(due.next().map(|expired| expired.key), Some(key));
        assert!(due.next().is_none());
        assert_eq!(due.finish().fired, 1);
        assert!(timer.is_pending(key));
    }
    // One that is left after its call, half-way, goes on as well.
    for round in 3..6_u32 {
        let now = NOW + 2 * MS * round;
        let first = timer.expired(now).next();
        assert_eq!(first.map(|expired| expired.key), Some(key));
        assert_eq!(timer.deadline(key), Some(now + MS));
    }
    assert_eq!(timer.cancel(key).into_payload(), Some(1));
}

#[test]
fn a_periodic_timer_that_is_pulled_goes_on_after_its_call() {
    let pause = Period::fixed_delay(MS);
    let mut timer = LocalTimer::new(MS).unwrap();
    let key = timer
        .schedule_periodic(NOW, Duration::ZERO, pause, 1)
        .unwrap();
    goes_on_when_it_is_pulled(timer, key);
    let mut timer = event_loop(MS, standing());
    let key = timer
        .schedule_periodic(NOW, Duration::ZERO, pause, 1)
        .unwrap();
    goes_on_when_it_is_pulled(timer, key);
}

#[test]
fn room_is_made_and_given_back_without_a_key_that_names_another_timer() {
    let mut timer = Settings::new().capacity(1000).build_local().unwrap();
    let empty = timer.held_bytes();
    let keys: Vec<_> = (0..1000)
        .map(|id| timer.schedule(NOW, 10 * MS, id).unwrap())
        .collect();
    assert!(timer.held_bytes() >= empty && empty >= 1000 * 24);
    let ended = || keys[3..5].iter().chain(&keys[10..]).chain(&keys[6..8]);
    assert!(ended().all(|key| timer.cancel(*key).is_won()));
    timer.shrink_to_fit();
    let shrunk = timer.held_bytes();
    let filling: Vec<_> = (0..4)
        .map(|id| timer.schedule(NOW, 10 * MS, id).unwrap())
        .collect();
    assert_eq!(
        timer.held_bytes(),
        shrunk,
        "the nodes in between serve again"
    );
    assert!(filling.iter().all(|key| timer.cancel(*key).is_won()));
    assert!(
        timer.held_bytes() + 900 * 24 < empty + 20_000,
        "{}",
        timer.held_bytes()
    );
    timer.reserve(500);
    let new: Vec<_> = (0..1000)
        .map(|id| timer.schedule(NOW, 20 * MS, id).unwrap())
        .collect();
    assert!(
        !ended().any(|key| timer.is_pending(*key)),
        "they name nothing"
    );
    assert_eq!(fire(&mut timer, NOW + 10 * MS), [0, 1, 2, 5, 8, 9]);
    assert!(new.iter().all(|key| timer.cancel(*key).is_won()) && timer.is_empty());
    let roomy = LocalTimer::<u64>::with_capacity(MS, 1000).unwrap();
    assert!(roomy.held_bytes() >= 1000 * 24);
}

/// Each timer against each setting that not all of them have.
#[test]
fn a_setting_that_a_timer_does_not_have_is_refused_by_name() {
    let new = Settings::new;
    let refused = |setting, timer| Some(BuildError::NoSuchSetting { setting, timer });
    for (settings, by_local) in [
        (new().clock(standing()), refused("clock", "LocalTimer")),
        (new().capacity(10), None),
        (new().max_pending(1).slack(MS), None),
    ] {
        let local = settings.clone().build_local::<u64>();
        assert_eq!(local.err(), by_local, "{settings:?}");
        assert!(EventLoopTimer::<u64>::with_waker(settings, || ()).is_ok());
    }
    let clocked = new().clock(standing()).build_local::<u64>();
    let text = clocked.unwrap_err().to_string();
    assert!(text.contains("leave Settings::clock out"), "{text}");
}

/// A text names a setting, and not the builder of another front.
#[test]
fn errors_name_cures_that_their_front_has() {
    let new = Settings::new;
    let mut texts = Vec::new();
    for bad in [
        new().tick(Duration::ZERO),
        new().max_pending(0),
        new().budget(Budget::new().fire(0)),
    ] {
        texts.push(bad.clone().build_local::<u64>().unwrap_err().to_string());
        texts.push(
            EventLoopTimer::<u64>::with_waker(bad, || ())
                .unwrap_err()
                .to_string(),
        );
    }
    let mut timer = new().max_pending(1).build_local().unwrap();
    timer.schedule(NOW, HOUR, 1).unwrap();
    texts.push(timer.schedule(NOW, HOUR, 2).unwrap_err().to_string());
    texts.push(
        ScheduleErrorKind::OutOfNodes {
            shard: 0,
            limit: 17,
        }
        .to_string(),
    );
    let remote = event_loop(MS, standing()).remote();
    let gone = remote.schedule(HOUR, 1).unwrap_err().to_string();
    assert!(gone.contains("loop's timer"), "{gone}");
    texts.push(gone);
    for text in texts {
        assert!(!text.contains("Builder::"), "{text}");
    }
}
