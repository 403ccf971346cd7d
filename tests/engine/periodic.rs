//! Periodic timers of the engine and of event loops: policies, no drift, cancellation, limits, stop.

use crate::support::setup::rate;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Cancel, Drive, EventLoopTimer, Expired, Key, LocalTimer, ManualClock, MissedTicks,
    Period, ScheduleErrorKind, Time, Timer,
};

const MS: Duration = Duration::from_millis(1);

/// An engine turned by hand, its clock, and the milliseconds at which its timers fired.
type Fires = Arc<Mutex<Vec<(u32, u64)>>>;

fn by_hand(configure: impl FnOnce(Builder) -> Builder) -> (Timer<u32>, ManualClock, Fires) {
    let clock = ManualClock::new();
    let fires = Fires::default();
    let (log, time) = (Arc::clone(&fires), clock.clone());
    let builder = configure(Builder::new().shards(1).clock(clock.clone()).drive(Drive::Manual));
    let timer = builder
        .build_with(move |expired: Expired<u32>| {
            log.lock().unwrap().push((expired.payload, time.now().as_nanos() / 1_000_000));
        })
        .unwrap();
    (timer, clock, fires)
}

/// An event loop's timer and its clock.
fn looped() -> (EventLoopTimer<u32>, ManualClock) {
    let clock = ManualClock::new();
    let builder = EventLoopTimer::builder().clock(clock.clone());
    (builder.build_with_waker(|| ()).unwrap(), clock)
}

fn run_to(timer: &Timer<u32>, clock: &ManualClock, ms: u64, step: u64) {
    while clock.now() < Time::ZERO + Duration::from_millis(ms) {
        clock.advance(Duration::from_millis(step));
        // What a handler arms fires in a later turn, so turn until nothing does.
        while timer.turn().unwrap() > 0 {}
    }
}

fn times(fires: &Fires) -> Vec<u64> {
    fires.lock().unwrap().drain(..).map(|(_, ms)| ms).collect()
}

#[test]
fn fires_once_per_period_until_cancelled_and_hands_the_payload_back() {
    let (timer, clock, fires) = by_hand(|builder| builder);
    let period = rate(10 * MS);
    let key = timer.schedule_periodic(3 * MS, period, 7u32).unwrap();
    run_to(&timer, &clock, 35, 1);
    assert_eq!(times(&fires), [3, 13, 23, 33]);
    assert!(timer.is_pending(key));
    assert_eq!(timer.pending(), 1);
    assert_eq!(timer.cancel(key), Cancel::Won(7));
    assert_eq!(timer.cancel(key), Cancel::Lost);
    assert!(!timer.is_pending(key));
    assert_eq!(timer.pending(), 0);
    run_to(&timer, &clock, 200, 1);
    assert_eq!(times(&fires), []);
    let stats = timer.stats();
    assert_eq!((stats.scheduled(), stats.fired(), stats.cancelled()), (5, 4, 1));
}

#[test]
fn missed_periods_are_skipped_delayed_or_made_up_for() {
    for (missed, expected) in [
        // A pause from 10 to 45 ms: the periods at 20, 30 and 40 are missed.
        (MissedTicks::Skip, vec![10, 45, 50, 60]),
        (MissedTicks::Delay, vec![10, 45, 55]),
        (MissedTicks::Burst, vec![10, 45, 45, 45, 50, 60]),
    ] {
        let (timer, clock, fires) = by_hand(|builder| builder);
        let period = Period::fixed_rate(10 * MS, missed).unwrap();
        timer.schedule_periodic(10 * MS, period, 1u32).unwrap();
        run_to(&timer, &clock, 10, 1);
        clock.advance(35 * MS);
        while timer.turn().unwrap() > 0 {}
        run_to(&timer, &clock, 64, 1);
        assert_eq!(times(&fires), expected, "{missed:?}");
    }
}

/// A timer that is far behind holds up the shard that it shares by one call per turn.
#[test]
fn missed_periods_are_made_up_for_turn_by_turn_where_a_shard_is_shared() {
    let burst = Period::fixed_rate(10 * MS, MissedTicks::Burst).unwrap();
    let (timer, clock, _fires) = by_hand(|builder| builder);
    timer.schedule_periodic(10 * MS, burst, 1u32).unwrap();
    clock.advance(35 * MS);
    let (mut event_loop, time) = looped();
    let mut local = LocalTimer::new(MS).unwrap();
    event_loop.schedule_periodic(Time::ZERO, 10 * MS, burst, 1u32).unwrap();
    local.schedule_periodic(Time::ZERO, 10 * MS, burst, 1u32).unwrap();
    time.advance(35 * MS);
    let (now, due) = (clock.now(), Some(Duration::ZERO));
    for fired in [1, 1, 1, 0] {
        assert_eq!(event_loop.poll_timeout(now) == due, fired > 0);
        assert_eq!(event_loop.poll(now, |_| ()).fired, fired);
        assert_eq!(timer.turn(), Ok(fired));
    }
    assert_eq!(local.poll(now, |_| ()).fired, 3);
}

#[test]
fn a_fixed_delay_starts_when_the_handler_has_ended() {
    let clock = ManualClock::new();
    let fires = Fires::default();
    let (log, time) = (Arc::clone(&fires), clock.clone());
    let timer = Builder::new()
        .shards(1)
        .clock(clock.clone())
        .drive(Drive::Manual)
        .build_with(move |expired: Expired<u32>| {
            log.lock().unwrap().push((expired.payload, time.now().as_nanos() / 1_000_000));
            time.advance(25 * MS); // a slow handler
        })
        .unwrap();
    timer.schedule_periodic(10 * MS, Period::fixed_delay(10 * MS).unwrap(), 1u32).unwrap();
    run_to(&timer, &clock, 120, 1);
    assert_eq!(times(&fires), [10, 45, 80, 115]);
}

#[test]
fn does_not_drift_over_a_million_periods() {
    let (timer, clock, fires) = by_hand(|builder| builder);
    // Not a whole number of ticks: rounding must not add up.
    let length = Duration::from_nanos(1_333_333);
    timer
        .schedule_periodic(length, Period::fixed_rate(length, MissedTicks::Burst).unwrap(), 1u32)
        .unwrap();
    let mut fired = 0;
    while fired < 1_000_000 {
        clock.advance(Duration::from_millis(10));
        while timer.turn().unwrap() > 0 {}
        fired += times(&fires).len() as u64;
    }
    let ideal = clock.now().as_nanos() / 1_333_333;
    assert!(fired.abs_diff(ideal) <= 1, "{fired} periods, {ideal} would be exact");
}

#[test]
fn a_handler_may_cancel_its_own_timer() {
    let clock = ManualClock::new();
    type Slot = Option<(Timer, Key<tickwheel::Task>)>;
    let slot: Arc<Mutex<Slot>> = Arc::default();
    let runs = Arc::new(AtomicUsize::new(0));
    let timer = Builder::new().shards(1).clock(clock.clone()).drive(Drive::Manual).build().unwrap();
    let (inside, counted) = (Arc::clone(&slot), Arc::clone(&runs));
    let period = rate(MS);
    let key = timer
        .repeat(MS, period, move || {
            if counted.fetch_add(1, Ordering::SeqCst) == 2 {
                let (timer, key) = inside.lock().unwrap().take().unwrap();
                assert!(timer.cancel(key).won());
            }
        })
        .unwrap();
    *slot.lock().unwrap() = Some((timer.clone(), key));
    for _ in 0..10 {
        clock.advance(MS);
        while timer.turn().unwrap() > 0 {}
    }
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert_eq!(timer.pending(), 0);
}

#[test]
fn a_panic_in_one_period_does_not_end_the_others() {
    let clock = ManualClock::new();
    let timer = Builder::new().shards(1).clock(clock.clone()).build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let period = rate(MS);
    timer
        .repeat(MS, period, move || {
            assert_ne!(counted.fetch_add(1, Ordering::SeqCst), 1, "boom");
        })
        .unwrap();
    for _ in 0..5 {
        clock.advance(MS);
        timer.wait_idle();
    }
    assert_eq!(runs.load(Ordering::SeqCst), 5);
    assert_eq!(timer.stats().panics(), 1);
    assert_eq!(timer.stop().unwrap().len(), 1, "stop returns the armed period");
}

#[test]
fn keeps_its_place_under_the_limit_between_periods() {
    let (timer, clock, fires) = by_hand(|builder| builder.max_pending(1));
    let period = rate(MS);
    let key = timer.schedule_periodic(MS, period, 1u32).unwrap();
    let full = ScheduleErrorKind::TooManyPending { pending: 1, max_pending: 1 };
    for _ in 0..3 {
        run_to(&timer, &clock, clock.now().as_nanos() / 1_000_000 + 1, 1);
        assert_eq!(timer.schedule(MS, 2u32).unwrap_err().kind(), &full);
        assert_eq!(timer.schedule_periodic(MS, period, 3u32).unwrap_err().into_payload(), 3);
    }
    assert_eq!(times(&fires).len(), 3);
    assert!(timer.cancel(key).won());
    timer.schedule(MS, 2u32).unwrap();
}

#[test]
fn stop_returns_the_period_and_frees_every_place() {
    let (timer, clock, _fires) = by_hand(|builder| builder.max_pending(2));
    let period = rate(MS);
    let key = timer.schedule_periodic(MS, period, 1u32).unwrap();
    run_to(&timer, &clock, 3, 1);
    let left = timer.stop().unwrap();
    assert_eq!(left.iter().map(|unfired| unfired.payload).collect::<Vec<_>>(), [1]);
    assert!(!timer.is_pending(key));
    assert_eq!(timer.cancel(key), Cancel::Lost);
    assert_eq!(timer.pending(), 0);
    let refused = timer.schedule_periodic(MS, period, 9u32).unwrap_err();
    assert_eq!((refused.kind(), refused.payload()), (&ScheduleErrorKind::Stopped, &9));
}

#[test]
fn payloads_are_dropped_exactly_as_often_as_they_were_made() {
    let clock = ManualClock::new();
    let payload = Arc::new(());
    let timer =
        Builder::new().shards(1).clock(clock.clone()).build_with(|_: Expired<Arc<()>>| ()).unwrap();
    let period = Period::fixed_rate(MS, MissedTicks::Burst).unwrap();
    let keys: Vec<_> = (0..10)
        .map(|_| timer.schedule_periodic(MS, period, Arc::clone(&payload)).unwrap())
        .collect();
    for _ in 0..20 {
        clock.advance(3 * MS);
        timer.wait_idle();
    }
    for key in &keys[..5] {
        assert!(timer.cancel(*key).won());
    }
    // `stop` waits for the worker; the drop of the last handle would not.
    drop(timer.stop());
    drop(timer);
    assert_eq!(Arc::strong_count(&payload), 1);
}

/// No call begins after a cancellation has returned, however closely the two race.
#[test]
fn no_period_begins_after_its_cancellation() {
    let timer = Builder::new().shards(1).tick(Duration::from_micros(50)).build().unwrap();
    let period = rate(Duration::from_micros(50));
    for round in 0..300u32 {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let key = timer
            .repeat(Duration::ZERO, period, move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        let until = Instant::now() + Duration::from_micros(u64::from(round) * 7 % 400);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        assert!(timer.cancel(key).won());
        let before = calls.load(Ordering::SeqCst);
        // The call that was running may still have to count itself; there is one worker, so it is one.
        timer.wait_idle();
        let after = calls.load(Ordering::SeqCst);
        assert!(after <= before + 1, "round {round}: {} calls", after - before);
        // Several periods later, by the same worker.
        let turned = timer.run_after(Duration::from_micros(200), || ()).unwrap();
        while turned.is_pending() {
            std::thread::yield_now();
        }
        assert_eq!(calls.load(Ordering::SeqCst), after, "round {round}");
    }
    assert_eq!(timer.pending(), 0);
    assert!(timer.stop().unwrap().is_empty());
}

#[test]
fn event_loops_have_periodic_timers_too() {
    let (mut timer, clock) = looped();
    let remote = timer.remote();
    let period = rate(10 * MS);
    let own = timer.schedule_periodic(clock.now(), 10 * MS, period, 1u32).unwrap();
    let theirs = remote.schedule_periodic(15 * MS, period, 2u32).unwrap();
    let mut fires = Vec::new();
    for ms in 1..=40 {
        clock.advance(MS);
        timer.poll_with(clock.now(), |timer, expired| {
            fires.push((ms, expired.payload));
            if ms == 30 {
                assert!(timer.cancel(own).won(), "from its own handler");
            }
        });
    }
    assert_eq!(fires, [(10, 1), (15, 2), (20, 1), (25, 2), (30, 1), (35, 2)]);
    assert!(remote.is_pending(theirs) && !remote.is_pending(own));
    assert_eq!(remote.cancel(theirs), Cancel::Won(2));
    assert_eq!(timer.pending(), 0);
}

#[test]
fn the_deadline_of_a_periodic_timer_is_that_of_its_next_call() {
    let at = |ms: u32| Some(Time::ZERO + MS * ms);
    let period = rate(10 * MS);
    let (timer, clock, _) = by_hand(|builder| builder);
    let key = timer.schedule_periodic(3 * MS, period, 7u32).unwrap();
    let mut deadlines = vec![timer.deadline(key)];
    for ms in [3, 13, 33] {
        run_to(&timer, &clock, ms, 1);
        deadlines.push(timer.deadline(key));
    }
    assert!(timer.reschedule(key, 20 * MS).moved());
    deadlines.push(timer.deadline(key));
    run_to(&timer, &clock, 53, 1);
    deadlines.push(timer.deadline(key));
    assert_eq!(deadlines, [at(3), at(13), at(23), at(43), at(53), at(63)]);
    assert_eq!(timer.cancel(key), Cancel::Won(7));
    assert_eq!(timer.deadline(key), None);

    let (mut timer, clock) = looped();
    let remote = timer.remote();
    let key = remote.schedule_periodic(3 * MS, period, 7u32).unwrap();
    assert_eq!((timer.deadline(key), remote.deadline(key)), (at(3), at(3)));
    clock.advance(3 * MS);
    assert_eq!(timer.poll(clock.now(), |_| ()).fired, 1);
    assert_eq!((timer.deadline(key), remote.deadline(key)), (at(13), at(13)));
    assert!(remote.reschedule(key, 2 * MS).moved());
    assert_eq!((timer.deadline(key), remote.deadline(key)), (at(5), at(5)));
    clock.advance(2 * MS);
    assert_eq!(timer.poll(clock.now(), |_| ()).fired, 1);
    assert_eq!((timer.deadline(key), remote.deadline(key)), (at(15), at(15)));
}

#[test]
fn a_panicking_event_loop_handler_does_not_stop_the_periods() {
    let (mut timer, clock) = looped();
    let period = rate(10 * MS);
    timer.schedule_periodic(clock.now(), 10 * MS, period, 1u32).unwrap();
    clock.advance(10 * MS);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        timer.poll(clock.now(), |_| panic!("boom"));
    }));
    assert!(caught.is_err());
    let mut fired = 0;
    for _ in 0..20 {
        clock.advance(MS);
        fired += timer.poll(clock.now(), |_| ()).fired;
    }
    assert_eq!(fired, 2);
}

/// A payload that can be cloned so many times.
struct Shy(Arc<AtomicUsize>);

impl Clone for Shy {
    fn clone(&self) -> Self {
        assert!(self.0.fetch_sub(1, Ordering::SeqCst) > 0, "no further clone");
        Self(Arc::clone(&self.0))
    }
}

#[test]
fn a_payload_whose_clone_panics_ends_its_timer_and_no_other() {
    let clock = ManualClock::new();
    let builder = Builder::new().shards(1).clock(clock.clone()).drive(Drive::Manual);
    let fired = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fired);
    let timer = builder
        .build_with(move |_: Expired<Shy>| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let period = rate(10 * MS);
    let clones = |left| Shy(Arc::new(AtomicUsize::new(left)));
    // One clone per period: the first of them has none left for its third.
    let shy = timer.schedule_periodic(10 * MS, period, clones(2)).unwrap();
    let other = timer.schedule_periodic(10 * MS, period, clones(1000)).unwrap();
    assert!(timer.schedule_periodic(10 * MS, period, clones(0)).is_err(), "not even one");
    for _ in 0..5 {
        clock.advance(10 * MS);
        while timer.turn().unwrap() > 0 {}
    }
    assert_eq!(fired.load(Ordering::SeqCst), 2 + 5);
    assert!(!timer.is_pending(shy) && timer.is_pending(other));
    assert_eq!((timer.pending(), timer.stats().panics()), (1, 1));
    assert_eq!(timer.stop().unwrap().len(), 1);
}
