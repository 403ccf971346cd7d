//! What local timers allocate, and what they hold.

use crate::support::allocations::allocations;
use crate::support::random::Random;
use std::time::Duration;
use tickwheel::{Budget, FixedTimer, Key, LocalTimer, Settings, Time, WheelKind};

fn timers() -> [LocalTimer<u64>; 2] {
    [WheelKind::Hierarchical, WheelKind::Hashed { buckets: 4096 }]
        .map(|kind| Settings::new().wheel(kind).build_local().unwrap())
}

const RESIDENT: usize = 5_000;

fn delay(random: &mut Random) -> Duration {
    Duration::from_millis(1000 + random.below(59_000))
}

/// `rounds` times: cancel or move one, schedule another, and poll now and then.
fn churn(
    timer: &mut LocalTimer<u64>,
    keys: &mut [Key<u64>],
    now: &mut Time,
    rounds: usize,
) -> usize {
    let mut random = Random::new(0x5eed);
    let mut fired = 0;
    for round in 0..rounds {
        let victim = random.below(RESIDENT as u64) as usize;
        match round % 8 {
            0 => drop(timer.reschedule(*now, keys[victim], Duration::from_secs(90)).moved()),
            1 => drop(timer.reschedule(*now, keys[victim], Duration::from_millis(500)).moved()),
            _ => {}
        }
        if timer.cancel(keys[victim]).won() || timer.pending() < RESIDENT {
            keys[victim] = timer.schedule(*now, delay(&mut random), 1).unwrap();
        }
        if round % 64 == 0 {
            *now = *now + Duration::from_millis(3);
            fired += timer.poll(*now, |_| ()).fired;
        }
    }
    fired
}

#[test]
fn a_steady_state_allocates_nothing() {
    for mut timer in timers() {
        let (mut random, mut now) = (Random::new(7), Time::ZERO);
        let mut keys: Vec<Key<u64>> = (0..RESIDENT)
            .map(|n| timer.schedule(now, delay(&mut random), n as u64).unwrap())
            .collect();
        // The wheel's reserve grows until the sweeps keep up with the cancels, rounds of the ring included.
        churn(&mut timer, &mut keys, &mut now, 1_500_000);
        let before = allocations();
        let fired = churn(&mut timer, &mut keys, &mut now, 300_000);
        assert_eq!(allocations() - before, 0, "in 300 000 pairs with {fired} timers fired");
        assert!(fired > 0);
    }
}

#[test]
fn the_queue_allocates_nothing_in_a_steady_state() {
    let mut timer = FixedTimer::with_delay(Duration::from_secs(30));
    let mut now = Time::ZERO;
    let mut random = Random::new(7);
    let mut keys: Vec<Key<usize>> =
        (0..RESIDENT).map(|n| timer.schedule(now, n).unwrap()).collect();
    let mut pairs = |count: usize| {
        for n in 0..count {
            let victim = random.below(RESIDENT as u64) as usize;
            now = now + Duration::from_micros(100);
            if n % 3 == 0 {
                assert!(timer.reschedule(now, keys[victim]).moved());
            } else {
                assert!(timer.cancel(keys[victim]).won());
                keys[victim] = timer.schedule(now, n).unwrap();
            }
        }
    };
    pairs(100_000);
    let before = allocations();
    pairs(200_000);
    assert_eq!(allocations() - before, 0);
    assert!(timer.held_bytes() < 4 << 20, "{} bytes are held", timer.held_bytes());
}

#[test]
fn a_repeating_timer_allocates_only_when_it_is_scheduled() {
    use tickwheel::{MissedTicks, Period};
    for mut timer in timers() {
        let period = Period::fixed_rate(Duration::from_millis(10), MissedTicks::Skip).unwrap();
        timer.schedule_periodic(Time::ZERO, Time::ZERO, period, 1).unwrap();
        let mut beats = |count: u64| {
            for _ in 0..count {
                let now = timer.next_deadline().unwrap();
                assert_eq!(timer.poll(now, |_| ()).fired, 1);
            }
        };
        beats(10_000);
        let before = allocations();
        beats(10_000);
        assert_eq!(allocations() - before, 0);
    }
}

/// Many live timers that are all cancelled, or that all fire: the bound shrinks with them.
#[test]
fn entries_go_when_the_timers_end() {
    for is_cancelled in [true, false] {
        for mut timer in timers() {
            let keys: Vec<Key<u64>> = (0..200_000)
                .map(|n| {
                    timer.schedule(Time::ZERO, Duration::from_secs(3600 + n % 100), n).unwrap()
                })
                .collect();
            let full = timer.held_bytes();
            let mut now = Time::ZERO;
            if is_cancelled {
                assert!(keys.iter().all(|key| timer.cancel(*key).won()));
                timer.set_budget(Budget::new().fire(1));
            } else {
                now = now + Duration::from_secs(3700);
            }
            while timer.poll(now, |_| ()).more {}
            assert!(timer.is_empty() && timer.next_deadline().is_none());
            // Nodes stay for the next burst, and so does a reserve of the wheel; the rest of 3.2 MB goes.
            let left = timer.held_bytes();
            assert!(left + (1 << 20) < full, "{left} of {full} bytes are left");
        }
    }
}

#[test]
fn an_idle_timer_takes_few_bytes() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    let count = 1 << 17;
    for n in 0..count {
        timer.schedule(Time::ZERO, Duration::from_millis(3_600_000 + n % 1000), n).unwrap();
    }
    let each = timer.held_bytes() as f64 / count as f64;
    assert!(each <= 56.0, "{each:.1} bytes per timer");
}
