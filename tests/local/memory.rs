//! What local timers allocate, and what they hold.

use crate::support::allocations::allocations;
use crate::support::loop_timer::LoopTimer;
use crate::support::random::Random;
use std::time::Duration;
use tickwheel::{Budget, EventLoopTimer, Key, LocalTimer, MissedTicks, Period, Settings, Time};

/// Cancels, moves and schedules, and polls now and then. `arm` may add up to a minute.
fn allocates_nothing_in_a_steady_state<L: LoopTimer<Payload = u64>>(
    mut timer: L,
    arm: fn(&mut L, Time, Duration) -> Key<u64>,
    move_to: fn(&mut L, Time, Key<u64>, Duration),
) {
    let (mut random, mut now, mut fired) = (Random::new(7), Time::ZERO, 0);
    let mut arm = |timer: &mut L, now| arm(timer, now, Duration::from_millis(random.below(59_000)));
    let mut keys: Vec<Key<u64>> = (0..5_000).map(|_| arm(&mut timer, now)).collect();
    let mut victims = Random::new(0x5eed);
    let mut churn = |rounds: usize| {
        for round in 0..rounds {
            let key = &mut keys[victims.below(5_000) as usize];
            match round % 8 {
                0 => move_to(&mut timer, now, *key, Duration::from_secs(90)),
                1 => move_to(&mut timer, now, *key, Duration::from_millis(500)),
                _ => {}
            }
            if timer.cancel(*key).is_won() || timer.pending() < 5_000 {
                *key = arm(&mut timer, now);
            }
            if round % 64 == 0 {
                now += Duration::from_millis(3);
                fired += timer.poll(now, |_| ()).fired;
            }
        }
    };
    // The wheel's reserve grows until the sweeps keep up with the cancels, rounds of the ring included.
    churn(1_500_000);
    let before = allocations();
    churn(300_000);
    assert_eq!(allocations() - before, 0, "{fired} timers have fired");
    assert!(fired > 0);
}

#[test]
fn a_steady_state_allocates_nothing() {
    const SECOND: Duration = Duration::from_secs(1);
    let timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    allocates_nothing_in_a_steady_state(
        timer,
        |timer, now, more| timer.schedule(now, SECOND + more, 1).unwrap(),
        |timer, now, key, delay| _ = timer.reschedule(now, key, delay),
    );
}

#[test]
fn a_repeating_timer_allocates_only_when_it_is_scheduled() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    let period = Period::fixed_rate(Duration::from_millis(10), MissedTicks::Skip);
    timer
        .schedule_periodic(Time::ZERO, Time::ZERO, period, 1)
        .unwrap();
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

/// Many live timers that are all cancelled, or that all fire: the bound shrinks with them.
#[test]
fn entries_go_when_the_timers_end() {
    for is_cancelled in [true, false] {
        let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
        let keys: Vec<Key<u64>> = (0..200_000)
            .map(|n| {
                timer
                    .schedule(Time::ZERO, Duration::from_secs(3600 + n % 100), n)
                    .unwrap()
            })
            .collect();
        let full = timer.held_bytes();
        let mut now = Time::ZERO;
        if is_cancelled {
            assert!(keys.iter().all(|key| timer.cancel(*key).is_won()));
            timer.set_budget(Budget::new().fire(1));
        } else {
            now += Duration::from_secs(3700);
        }
        while timer.poll(now, |_| ()).more {}
        assert!(timer.is_empty() && timer.next_deadline().is_none());
        // Nodes stay for the next burst, and so does a reserve of the wheel; the rest of 3.2 MB goes a second later.
        let kept = timer.held_bytes();
        timer.schedule(now, Duration::from_millis(500), 0).unwrap();
        now += Duration::from_millis(900);
        while timer.poll(now, |_| ()).more {}
        assert_eq!((timer.pending(), timer.held_bytes()), (0, kept));
        now += Duration::from_secs(1);
        while timer.poll(now, |_| ()).more {}
        let left = timer.held_bytes();
        assert!(left + (1 << 20) < full, "{left} of {full} bytes are left");
    }
}

/// The burst's memory goes back in pieces, and until the last one a loop that obeys the timeout does not sleep.
#[test]
fn a_loop_does_not_sleep_while_memory_goes_back() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    for n in 0..200_000 {
        timer.schedule(Time::ZERO, timer.tick(), n).unwrap();
    }
    let mut now = Time::ZERO + timer.tick();
    while timer.poll(now, |_| ()).more {}
    let full = timer.held_bytes();
    now += Duration::from_secs(2);
    while timer.poll(now, |_| ()).more {
        assert_eq!(timer.poll_timeout(now), Some(Duration::ZERO));
    }
    let left = timer.held_bytes();
    assert!(
        timer.poll_timeout(now).is_none() && left < full,
        "{left} of {full} bytes are left"
    );
}

#[test]
fn the_wheel_s_memory_goes_back_at_once_where_that_is_asked_for() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    let end = Time::ZERO + Duration::from_secs(1);
    for n in 0..200_000 {
        timer.schedule(Time::ZERO, end, n).unwrap();
    }
    while timer.poll(end, |_| ()).more {}
    timer.shrink_to_fit();
    let held = timer.held_bytes();
    assert!(held < 1 << 20, "{held} bytes");
}

/// The places of pieces that went back serve again.
#[test]
fn bursts_that_give_their_memory_back_leave_no_more_each_time() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    let mut left = Vec::new();
    for burst in 0..20 {
        let now = Time::ZERO + Duration::from_secs(burst);
        for n in 0..100_000 {
            timer
                .schedule(now, Duration::from_millis(n % 500), n)
                .unwrap();
        }
        let end = now + Duration::from_millis(500);
        while timer.poll(end, |_| ()).more {}
        timer.shrink_to_fit();
        left.push(timer.held_bytes());
    }
    assert!(left[19] <= left[1], "{left:?}");
}

/// What the last piece of the wheel's memory holds stays there when those before it go.
#[test]
fn timers_behind_memory_that_goes_back_fire() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    let bursts = [(1000, 400_000), (1100, 20_000)];
    for (at, (delay, count)) in bursts.into_iter().enumerate() {
        for _ in 0..count {
            let delay = Duration::from_millis(delay);
            timer.schedule(Time::ZERO, delay, at).unwrap();
        }
    }
    let mut fired = [0; 2];
    // From the first one on they lie in the wheel, one burst behind the other.
    for now in [900, 1000, 1100] {
        let now = Time::ZERO + Duration::from_millis(now);
        while timer.poll(now, |expired| fired[expired.payload] += 1).more {}
        timer.shrink_to_fit();
    }
    assert_eq!(fired, bursts.map(|(_, count)| count));
}

/// Few timers live on, but in each piece of the wheel's memory: a loop sleeps all the same, also when blocks of a burst
/// that was cancelled have gone.
#[test]
fn memory_that_cannot_go_back_keeps_no_loop_awake() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    let mut now = Time::ZERO;
    let mut left = Vec::new();
    for (count, apart) in [(400_000, 1000), (40_000, 40_000)] {
        let delay = |n: u64| Duration::from_secs(10 + n % 40_000);
        let keys: Vec<Key<u64>> = (0..count)
            .map(|n| timer.schedule(now, delay(n), n).unwrap())
            .collect();
        let _ = timer.poll(now, |_| ());
        for (key, n) in keys.iter().zip(0_u64..) {
            assert!(n % apart == 0 || timer.cancel(*key).is_won());
        }
        for _ in 0..4 {
            let polls = (0..100_000).take_while(|_| timer.poll(now, |_| ()).more);
            assert!(polls.count() < 100_000, "it goes on without an end");
            now += Duration::from_millis(400);
        }
        timer.shrink_to_fit();
        left.push(timer.held_bytes());
    }
    // 32 blocks of 8 KiB stay.
    assert!(left[1] < left[0] + 300_000, "{left:?}");
}

#[test]
fn a_clear_in_a_handler_gives_back_what_that_has_scheduled_for_now() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    timer.schedule(Time::ZERO, Duration::ZERO, 0).unwrap();
    timer.poll_with(Time::ZERO, |timer, _| {
        for n in 0..300_000 {
            timer.schedule(Time::ZERO, Duration::ZERO, n).unwrap();
        }
        timer.clear();
    });
    while timer.poll(Time::ZERO, |_| ()).more {}
    timer.shrink_to_fit();
    let held = timer.held_bytes();
    assert!(held < 1 << 20, "{held} bytes");
}

/// Entries of a backlog and those in time lie in one list, which has its room from the beginning.
#[test]
fn a_burst_after_as_many_timers_fires_without_an_allocation() {
    const TIMERS: u64 = 18_000;
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    let mut now = Time::ZERO;
    let mut fire = |ticks: u64| {
        for n in 0..TIMERS {
            let delay = Duration::from_millis(100 + n % ticks);
            timer.schedule(now, delay, n).unwrap();
        }
        now += Duration::from_secs(1);
        let before = allocations();
        while timer.poll(now, |_| ()).more {}
        allocations() - before
    };
    // The log and the wheel get their room.
    fire(3);
    assert_eq!(fire(1), 0);
}

/// Of more than a burst of overdue timers each poll sets what has come aside: one timer here, and so one entry at a time.
#[test]
fn what_polls_set_aside_one_by_one_shares_memory() {
    const TIMERS: u32 = 20_000;
    let settings = Settings::new()
        .tick(Duration::from_secs(1))
        .budget(Budget::new().fire(1));
    let mut timer = settings.build_local().unwrap();
    for _ in 0..TIMERS {
        timer.schedule(Time::ZERO, Duration::ZERO, ()).unwrap();
    }
    let before = timer.held_bytes();
    for _ in 0..2 * TIMERS {
        timer.poll_with(Time::ZERO, |timer, _| {
            _ = timer.schedule(Time::ZERO, Duration::ZERO, ()).unwrap();
        });
    }
    let after = timer.held_bytes();
    assert!(after < 2 * before, "{before} bytes, {after} afterwards");
}

#[test]
fn an_idle_timer_takes_few_bytes() {
    let mut timer = LocalTimer::new(Duration::from_millis(1)).unwrap();
    let count = 1 << 17;
    for n in 0..count {
        timer
            .schedule(Time::ZERO, Duration::from_millis(3_600_000 + n % 1000), n)
            .unwrap();
    }
    let each = timer.held_bytes() as f64 / count as f64;
    assert!(each <= 56.0, "{each:.1} bytes per timer");
    let polled = timer.poll(Time::ZERO, |_| ());
    assert!(
        !polled.more,
        "where all timers live there is nothing to sweep"
    );
}

#[test]
fn timers_within_the_capacity_find_room() {
    let mut local = LocalTimer::new(Duration::from_millis(1)).unwrap();
    local.reserve(100);
    let room = local.capacity();
    let mut schedule = |n| {
        local.schedule(Time::ZERO, Duration::ZERO, n).unwrap();
        local.capacity()
    };
    assert!(room >= 100 && (0..room as u64).all(|n| schedule(n) == room));
    assert!(schedule(0) > room);
    local.reserve(1000);
    assert!(
        local.capacity() > room + 1000,
        "besides those that are pending"
    );
    let build = |settings: Settings| EventLoopTimer::<u64>::with_waker(settings, || ()).unwrap();
    drop(build(Settings::new())); // what only the first one allocates
    let before = allocations();
    let mut event_loop = build(Settings::new());
    let built = allocations();
    event_loop.reserve(1000);
    let reserved = allocations();
    assert!(reserved > built);
    let _built_with_room = build(Settings::new().capacity(1000));
    assert_eq!(allocations() - reserved, reserved - before);
}
