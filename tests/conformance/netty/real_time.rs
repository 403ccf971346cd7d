//! The checks of the reference's suite that are about real time, with long times scaled down.

use crate::support::setup::{Fired, HOUR, ms, one_shard, recording, reflexive, secs, wait_until};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tickwheel::{Clock, Expired, MonotonicClock, Time, Timer};

#[test]
fn netty_a_timer_runs_after_its_delay_and_not_before() {
    // Ten seconds there, with a wait of three.
    let (sender, receiver) = channel();
    let far = sender.clone();
    let timer = one_shard().build().unwrap();
    let start = Instant::now();
    timer
        .run_after(secs(60), move || far.send(Instant::now()).unwrap())
        .unwrap();
    timer
        .run_after(ms(200), move || sender.send(Instant::now()).unwrap())
        .unwrap();
    let at = receiver.recv_timeout(secs(20)).expect("it runs");
    assert!(at - start >= ms(200));
    assert_eq!(
        receiver.recv_timeout(ms(100)),
        Err(RecvTimeoutError::Timeout),
        "not before"
    );
    assert_eq!(timer.stop().unwrap().len(), 1);
}

#[test]
fn netty_a_task_that_schedules_itself_goes_on() {
    let (sender, receiver) = channel();
    let timer = reflexive(
        one_shard().tick(ms(10)),
        move |timer: &Timer<u64>, expired| {
            if expired.payload < 12 {
                timer.schedule(ms(10), expired.payload + 1).unwrap();
            }
            sender.send((expired.payload, Instant::now())).unwrap();
        },
    );
    let start = Instant::now();
    timer.schedule(ms(10), 1).unwrap();
    for id in 1..=12 {
        let (fired, at) = receiver.recv_timeout(secs(20)).expect("the chain goes on");
        assert_eq!(fired, id);
        assert!(at - start >= ms(10) * id as u32);
    }
    assert!(timer.stop().unwrap().is_empty());
}

/// Runs the reference's check once; the longest that any timer took.
fn hundred_thousand(tick: Duration, delay: Duration) -> Duration {
    const TIMERS: u64 = 100_000;
    let clock = MonotonicClock::new();
    let (fired, log) = Fired::pair();
    let handler = move |expired: Expired<u64>| {
        let took = Clock::now(&clock) - Time::from_nanos(expired.payload);
        log.push(expired.with_payload(took.as_nanos() as u64));
    };
    let timer = one_shard()
        .tick(tick)
        .clock(clock)
        .build_with(handler)
        .unwrap();
    (0..TIMERS).for_each(|_| _ = timer.schedule(delay, timer.now().as_nanos()).unwrap());
    wait_until("all have fired", || fired.len() as u64 == TIMERS);
    let took = fired.ids().into_iter().map(Duration::from_nanos);
    took.inspect(|took| assert!(*took >= delay, "{took:?}: early"))
        .max()
        .unwrap()
}

#[test]
fn netty_100_000_timers_each_run_within_the_delay_and_twice_tick_plus_delay() {
    // The reference's own numbers. Early is never right; late may be the machine's fault, but not each time.
    let (tick, delay) = (ms(200), ms(125));
    let in_time = |_| hundred_thousand(tick, delay) < 2 * (tick + delay);
    assert!((0..30).any(in_time), "late in thirty runs of thirty");
}

#[test]
fn unlike_netty_a_worker_with_nothing_due_sleeps() {
    let (timer, _fired) = recording(one_shard());
    timer.schedule(HOUR, 1).unwrap();
    timer.wait_idle();
    std::thread::sleep(ms(5));
    let turns = timer.stats().shards[0].turns;
    std::thread::sleep(ms(100));
    // One may have been under way at the first look.
    let turned = timer.stats().shards[0].turns - turns;
    assert!(turned <= 1, "{turned} turns in a hundred ticks");
}
