//! How long an owner sleeps: slack, and clocks that run on while the machine does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tickwheel::{
    BootClock, Clock, EventLoopTimer, Expired, ManualClock, MonotonicClock, Settings, Time,
};

#[allow(
    dead_code,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "support/loop_timer.rs"]
mod loop_timer;
#[allow(
    dead_code,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "support/setup.rs"]
mod setup;

use loop_timer::LoopTimer;
use setup::{HOUR, one_shard, secs, wait_until};

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

/// Sleeps as long as the timer says; when each timer fired, and how often the loop slept.
fn sleep_through(timer: &mut impl LoopTimer<Payload = Duration>) -> (Vec<Expired<Duration>>, u32) {
    let (mut now, mut fired, mut sleeps) = (Time::ZERO, Vec::new(), 0);
    while let Some(sleep) = timer.poll_timeout(now) {
        sleeps += 1;
        now += sleep;
        assert!(!timer.poll(now, |expired| fired.push(expired)).more);
        assert!(
            fired
                .last()
                .is_none_or(|it| it.lateness == now - it.deadline),
            "{fired:?}"
        );
    }
    (fired, sleeps)
}

#[test]
fn with_a_slack_timers_share_a_wake_up_and_none_is_early_or_later_than_that() {
    let timers = [0, 3, 7, 10, 11, 20, 31].map(|ms| MS * ms);
    for (slack, sleeps) in [
        (Duration::ZERO, 7),
        (MS / 2, 7),
        (3 * MS, 5),
        (10 * MS, 3),
        (HOUR, 1),
    ] {
        let builder = Settings::new().clock(ManualClock::new()).slack(slack);
        let mut event_loop = EventLoopTimer::with_waker(builder, || ()).unwrap();
        let mut local = Settings::new().slack(slack).build_local().unwrap();
        for delay in timers {
            event_loop.schedule(Time::ZERO, MS + delay, delay).unwrap();
            local.schedule(Time::ZERO, MS + delay, delay).unwrap();
        }
        assert_eq!(
            local.next_deadline(),
            Some(Time::ZERO + MS),
            "the deadline stays exact"
        );
        for (fired, slept) in [sleep_through(&mut event_loop), sleep_through(&mut local)] {
            assert_eq!(slept, sleeps, "{slack:?}");
            assert_eq!(
                fired.iter().map(|it| it.payload).collect::<Vec<_>>(),
                timers
            );
            assert!(fired.iter().all(|it| it.lateness <= slack), "{fired:?}");
        }
    }
}

#[test]
fn a_slack_ends_at_a_tick_and_delays_nothing_that_is_due() {
    let mut timer = Settings::new()
        .tick(4 * MS)
        .slack(9 * MS)
        .build_local()
        .unwrap();
    timer.schedule(Time::ZERO, 7 * MS, "at 8").unwrap();
    // 8 and 9 are 17, and the last tick until then begins at 16.
    assert_eq!(timer.poll_timeout(Time::ZERO), Some(16 * MS));
    assert_eq!(
        timer.poll_timeout(Time::ZERO + 8 * MS),
        Some(Duration::ZERO)
    );
    // Never plus a slack is never.
    let mut timer = Settings::new().slack(Duration::MAX).build_local().unwrap();
    timer.schedule(Time::ZERO, HOUR, ()).unwrap();
    assert!(timer.poll_timeout(Time::ZERO) > Some(100 * HOUR));
}

#[test]
fn a_remote_wakes_a_loop_with_slack_for_an_earlier_deadline_only() {
    let wakes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&wakes);
    let mut timer: EventLoopTimer<u64> = EventLoopTimer::with_waker(
        Settings::new().clock(ManualClock::new()).slack(50 * MS),
        move || {
            counted.fetch_add(1, Ordering::Relaxed);
        },
    )
    .unwrap();
    let remote = timer.remote();
    timer.schedule(Time::ZERO, 100 * MS, 1).unwrap();
    assert_eq!(timer.poll_timeout(Time::ZERO), Some(150 * MS));
    remote.schedule(101 * MS, 2).unwrap();
    assert_eq!(
        wakes.load(Ordering::Relaxed),
        0,
        "it can share the wake-up at 150 ms"
    );
    remote.schedule(99 * MS, 3).unwrap();
    assert_eq!(
        wakes.load(Ordering::Relaxed),
        1,
        "150 ms are more than 50 ms after it"
    );
}

#[test]
fn a_worker_with_slack_sleeps_seldom() {
    const TIMERS: u32 = 400;
    let parks = |slack| {
        let (done, is_done) = channel();
        let timer = one_shard()
            .tick(50 * US)
            .slack(slack)
            .build_with(move |expired: Expired<u32>| {
                assert!(expired.deadline > Time::ZERO);
                done.send(expired.lateness).unwrap();
            })
            .unwrap();
        let start = timer.now() + 30 * MS;
        for number in 0..TIMERS {
            timer.schedule(start + number * 100 * US, number).unwrap();
        }
        assert_eq!(
            is_done.iter().take(TIMERS as usize).count(),
            TIMERS as usize
        );
        timer.stats().shards[0].parks
    };
    // 40 ms of timers. A machine that is busy makes sleeps fewer, never more.
    assert!(parks(20 * MS) <= 12);
}

/// A clock that is set forward while others sleep, as by a suspended machine.
#[derive(Clone)]
struct Suspended(Arc<AtomicU64>);

impl Clock for Suspended {
    fn now(&self) -> Time {
        MonotonicClock::new().now() + Duration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn longest_sleep(&self) -> Option<Duration> {
        Some(20 * MS)
    }
}

#[test]
fn a_worker_notices_time_that_has_passed_in_its_sleep() {
    let (slept, (done, is_done)) = (Suspended(Arc::default()), channel());
    let timer = one_shard()
        .clock(slept.clone())
        .build_with(move |expired: Expired<()>| done.send(expired.lateness).unwrap())
        .unwrap();
    timer.schedule(HOUR, ()).unwrap();
    // The worker looks at the clock again and again, although nothing is due for an hour.
    wait_until("it has slept three times", || {
        timer.stats().shards[0].parks >= 3
    });
    assert!(is_done.try_recv().is_err(), "it is not early");
    slept.0.store(2 * 3600, Ordering::SeqCst);
    let lateness = is_done.recv_timeout(secs(60)).unwrap();
    assert!(lateness >= HOUR - secs(60), "{lateness:?}");
    let builder = Settings::new().clock(slept.clone());
    let mut timer: EventLoopTimer<()> = EventLoopTimer::with_waker(builder, || ()).unwrap();
    assert_eq!(
        timer.poll_timeout(timer.now()),
        None,
        "with nothing pending there is nothing to miss"
    );
    timer.schedule(timer.now(), HOUR, ()).unwrap();
    assert_eq!(timer.poll_timeout(timer.now()), Some(20 * MS));
}

#[test]
fn the_boot_clock_drives_an_engine() {
    let (done, is_done) = channel();
    let timer = one_shard()
        .clock(BootClock::new())
        .build_with(move |_: Expired<()>| done.send(Instant::now()).unwrap())
        .unwrap();
    let begun = Instant::now();
    timer.schedule(5 * MS, ()).unwrap();
    assert!(is_done.recv().unwrap() - begun >= 5 * MS);
    // Sleeps count no suspended time, so none is longer than a second.
    let builder = Settings::new().clock(BootClock::new());
    let mut timer: EventLoopTimer<()> = EventLoopTimer::with_waker(builder, || ()).unwrap();
    timer.schedule(timer.now(), HOUR, ()).unwrap();
    assert_eq!(timer.poll_timeout(timer.now()), Some(secs(1)));
    let counts = cfg!(any(target_os = "linux", windows));
    assert_eq!(BootClock::counts_suspended_time(), counts);
}
