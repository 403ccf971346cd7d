//! Rounds of a loop in which nothing is due do nothing: whatever comes after one is noticed all the same.

use super::loops::{Loop, fire};
use super::{MS, NOW, event_loop, standing};
use crate::support::loop_timer::Due;
use crate::support::setup::HOUR;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tickwheel::{Budget, EventLoopTimer, LocalTimer, Settings, Time};

/// Far enough for the log, in which the owner's entries wait.
const FAR: Duration = Duration::from_millis(200);

/// Polls until nothing is left to do, and then once more, in vain.
fn rest<L: Loop>(timer: &mut L, now: Time) {
    while timer.poll(now, |_| panic!("nothing is due")).more {}
    assert_eq!(timer.poll(now, |_| panic!("nothing is due")).fired, 0);
    assert_eq!(timer.expired(now).count(), 0);
}

#[test]
fn what_is_scheduled_after_an_idle_round_fires_in_time() {
    fn test<L: Loop>(delays: &[Duration]) {
        for &delay in delays {
            let mut timer = L::build(Settings::new(), delay);
            // With an empty timer, and with one that waits for something else.
            for round in 0..2 {
                let now = NOW + 2 * HOUR * round;
                rest(&mut timer, now);
                timer.arm(now, delay, 1);
                if !delay.is_zero() {
                    rest(&mut timer, now + delay - MS);
                }
                assert_eq!(fire(&mut timer, now + delay), [1]);
                rest(&mut timer, now + delay);
                timer.arm(now, delay, 2);
                assert_eq!(timer.poll(now + delay, |_| ()).fired, 1);
            }
        }
    }
    test::<LocalTimer<u64>>(&[Duration::ZERO, MS, 50 * MS, FAR, HOUR]);
    test::<EventLoopTimer<u64>>(&[Duration::ZERO, MS, 50 * MS, FAR, HOUR]);
}

/// More entries than one block of the log holds: the earliest is in none of its newest.
#[test]
fn what_was_scheduled_many_timers_ago_fires_in_time() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), FAR);
        rest(&mut timer, NOW);
        timer.arm(NOW, FAR, 1);
        for id in 0..20_000 {
            timer.arm(NOW, HOUR, id);
        }
        rest(&mut timer, NOW + FAR - MS);
        assert_eq!(fire(&mut timer, NOW + FAR), [1]);
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

#[test]
fn a_timer_that_is_pulled_in_after_an_idle_round_fires_in_time() {
    fn test<L: Loop>() {
        for to in [Duration::ZERO, MS, FAR] {
            let mut timer = L::build(Settings::new(), HOUR);
            let key = timer.arm(NOW, HOUR, 1);
            rest(&mut timer, NOW);
            assert!(timer.move_to(NOW, key, to));
            assert_eq!(fire(&mut timer, NOW + to), [1]);
        }
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

/// An idle round has a time all the same: a later one that is told less counts as that.
#[test]
fn a_time_that_goes_back_after_an_idle_round_stands_still() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), FAR);
        rest(&mut timer, NOW);
        rest(&mut timer, NOW + HOUR);
        timer.arm(NOW, FAR, 1);
        assert_eq!(fire(&mut timer, NOW), [1]);
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

/// The sweep that cancels have begun goes on in rounds in which nothing is due, and says so.
#[test]
fn a_sweep_goes_on_in_idle_rounds() {
    fn test<L: Loop>() {
        let settings = Settings::new().budget(Budget::new().sweep(64));
        let mut timer = L::build(settings, HOUR);
        let keys: Vec<_> = (0..100_000).map(|id| timer.arm(NOW, HOUR, id)).collect();
        rest(&mut timer, NOW);
        // Not the oldest first, so that the dead lie among the living.
        let mut victims = keys.iter().step_by(2).chain(keys.iter().skip(1).step_by(4));
        let mut sweeps = 0;
        while sweeps == 0 {
            assert!(
                timer
                    .cancel(*victims.next().expect("no poll has swept"))
                    .is_won()
            );
            while timer.poll(NOW, |_| panic!("nothing is due")).more {
                sweeps += 1;
            }
        }
        assert!(sweeps > 10, "only {sweeps} polls have swept");
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

/// A loop that drops the answers of its polls: what they leave to do is in its timeouts.
#[test]
fn no_timeout_sleeps_while_there_is_housekeeping() {
    fn test<L: Loop>() {
        let mut timer = L::build(Settings::new(), HOUR);
        let keys = timer.arm_all(100_000);
        rest(&mut timer, NOW);
        // Each leaves an entry at the hour, and all nodes are free when they have fired.
        for key in keys {
            assert!(timer.move_to(NOW, key, 1000 * MS));
        }
        let (mut now, mut more, mut rounds) = (NOW, false, 0);
        while let Some(timeout) = timer.poll_timeout(now) {
            assert!(!more || timeout.is_zero(), "{} pending", timer.pending());
            now += timeout;
            more = timer.poll(now, |_| ()).more;
            rounds += 1;
        }
        assert!(!more && timer.is_empty());
        assert!(rounds < 1000, "{rounds} rounds");
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

/// What comes after all that is due lies in the log, from which the sweep at the end of the poll takes the dead.
#[test]
fn what_is_scheduled_at_the_end_of_a_poll_that_sweeps_fires_in_time() {
    fn test<L: Loop>() {
        const MANY: u64 = 60_000;
        let budget = Budget::new().fire(1 << 20).sweep(1 << 20);
        let mut timer = L::build(Settings::new().budget(budget), HOUR);
        let keys = timer.arm_all(MANY);
        rest(&mut timer, NOW);
        // Each leaves an entry at the hour.
        for key in keys {
            assert!(timer.move_to(NOW, key, 1000 * MS));
        }
        let now = NOW + 1000 * MS;
        let mut due = timer.expired(now);
        assert!(due.next().is_some());
        // More than a block of the log, some of it dead, so that the sweep makes room in that block.
        let block: Vec<_> = (0..513).map(|id| due.timer().arm(now, HOUR, id)).collect();
        assert!(
            block[..30]
                .iter()
                .all(|key| due.timer().cancel(*key).is_won())
        );
        assert_eq!(due.by_ref().count() as u64, MANY - 1);
        let soon = due.timer().arm(now, 100 * MS, MANY);
        for id in 0..400 {
            due.timer().arm(now, HOUR, id);
        }
        due.finish();
        let then = now + 100 * MS;
        assert_eq!(timer.deadline(soon), Some(then));
        assert!(
            timer.next_deadline() <= Some(then),
            "{:?}",
            timer.next_deadline()
        );
        assert_eq!(fire(&mut timer, then), [MANY]);
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

#[test]
fn what_a_remote_does_after_an_idle_round_is_noticed() {
    let mut timer = event_loop(MS, standing());
    let remote = timer.remote();
    rest(&mut timer, NOW);
    timer.set_budget(Budget::new().fire(1));
    for id in 0..3 {
        remote.schedule(Duration::ZERO, id).unwrap();
    }
    for id in 0..3 {
        assert_eq!(fire(&mut timer, NOW), [id]);
    }
    let key = remote.schedule(HOUR, 2).unwrap();
    rest(&mut timer, NOW);
    assert!(remote.reschedule(key, MS).is_moved());
    assert_eq!(fire(&mut timer, NOW + MS), [2]);
}

/// A loop at `NOW`, and how often its remotes have woken it.
fn woken() -> (EventLoopTimer<u64>, Arc<AtomicUsize>) {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let wake = move || _ = counted.fetch_add(1, Ordering::SeqCst);
    let timer = EventLoopTimer::with_waker(Settings::new().clock(standing()), wake);
    (timer.unwrap(), wakes)
}

/// The loop is awake after an idle round: nothing calls its waker any more.
#[test]
fn an_idle_round_ends_the_sleep_that_was_announced() {
    let (mut timer, wakes) = woken();
    let remote = timer.remote();
    rest(&mut timer, NOW);
    assert_eq!(timer.poll_timeout(NOW), None);
    rest(&mut timer, NOW);
    remote.schedule(MS, 1).unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 0, "the loop was awake");
    // The next sleep is told to the remotes again.
    assert_eq!(timer.poll_timeout(NOW), Some(MS));
    remote.schedule(Duration::ZERO, 2).unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 1);
    assert_eq!(timer.stats().parks, 2);
}

/// A sleep that began without a remote is announced to the first one, be it made before the loop blocks or while it does.
#[test]
fn a_remote_that_is_made_after_the_timeout_wakes_the_loop() {
    for delay in [None, Some(FAR)] {
        let (mut timer, wakes) = woken();
        delay.map(|delay| timer.arm(NOW, delay, 1));
        rest(&mut timer, NOW);
        assert_eq!(timer.poll_timeout(NOW), delay);
        let remote = timer.remote();
        remote.schedule(HOUR, 2).unwrap();
        assert_eq!(wakes.load(Ordering::SeqCst), usize::from(delay.is_none()));
        remote.clone().schedule(MS, 3).unwrap();
        assert!(wakes.load(Ordering::SeqCst) > 0, "slept through");
        assert_eq!((timer.stats().parks, timer.stats().wakes), (1, 0));
        rest(&mut timer, NOW);
        assert_eq!(timer.stats().wakes, 1);
        // Awake: a remote wakes nobody.
        let before = wakes.load(Ordering::SeqCst);
        timer.remote().schedule(Duration::ZERO, 4).unwrap();
        assert_eq!(wakes.load(Ordering::SeqCst), before);
        assert_eq!(fire(&mut timer, NOW), [4]);
    }
}

#[test]
fn what_a_remote_sent_before_it_went_is_not_slept_through() {
    let (mut timer, wakes) = woken();
    rest(&mut timer, NOW);
    let remote = timer.remote();
    std::thread::scope(|scope| {
        scope.spawn(move || remote.schedule(MS, 1).unwrap());
    });
    assert_eq!(timer.poll_timeout(NOW), Some(MS));
    assert_eq!(fire(&mut timer, NOW + MS), [1]);
    // Announced to a remote that goes, and begun again without one.
    let remote = timer.remote();
    assert_eq!(timer.poll_timeout(NOW + MS), None);
    drop(remote);
    assert_eq!(timer.poll_timeout(NOW + MS), None);
    rest(&mut timer, NOW + MS);
    timer.remote().schedule(MS, 2).unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 0, "the loop was awake");
}

/// The loop asks for its timeout without a turn in between: it knows of all that it has scheduled.
#[test]
fn a_timeout_ends_at_what_was_scheduled_after_an_idle_round() {
    fn test<L: Loop>() {
        for delay in [MS, 50 * MS, FAR, HOUR] {
            let mut timer = L::build(Settings::new(), HOUR);
            timer.arm(NOW, 2 * HOUR, 0);
            rest(&mut timer, NOW);
            assert_eq!(timer.poll_timeout(NOW), Some(2 * HOUR));
            timer.arm(NOW, delay, 1);
            assert_eq!(timer.poll_timeout(NOW), Some(delay));
            assert_eq!(timer.next_deadline(), Some(NOW + delay));
            rest(&mut timer, NOW);
            assert_eq!(timer.poll_timeout(NOW), Some(delay));
        }
    }
    test::<LocalTimer<u64>>();
    test::<EventLoopTimer<u64>>();
}

#[test]
fn an_idle_round_is_no_turn_and_reports_what_comes_next() {
    let clock = standing();
    let mut timer = event_loop(MS, clock.clone());
    let remote = timer.remote();
    timer.arm(NOW, HOUR, 0);
    rest(&mut timer, NOW);
    let turns = remote.stats().turns;
    timer.arm(NOW, FAR, 1);
    for _ in 0..10 {
        rest(&mut timer, NOW + MS);
    }
    assert_eq!(remote.stats().turns, turns);
    // The loop is stuck in something else, which another thread sees.
    clock.advance(FAR + HOUR);
    assert_eq!(remote.stats().lag, HOUR, "of the earlier timer");
}
