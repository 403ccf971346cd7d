//! `Sleep`: when it is ready, what it costs, how it ends.

use crate::rig::{Bell, Rig, block_on, poll, wakers};
use crate::support::breakable::Breakable;
use crate::support::setup::{HOUR, ms, secs, us};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tickwheel::{
    Builder, Drive, Elapsed, EngineState, Expired, MissedTicks, PinState, Pinning,
    ScheduleErrorKind, Shutdown, Time, Timer, TimerTask, When,
};

/// A schedule reads a quick clock, which may be ahead.
#[test]
fn the_deadline_of_a_reset_to_zero_has_come() {
    let timer = Builder::new().shards(1).build().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..20_000 {
        let mut sleep = timer.sleep(HOUR);
        assert!(sleep.poll_sleep(&mut cx).is_pending());
        sleep.reset(Duration::ZERO);
        assert!(sleep.deadline() <= sleep.now());
    }
    timer.stop().unwrap();
}

#[test]
fn a_reset_to_what_has_passed_is_over_at_once_whatever_the_tick() {
    let past = Instant::now()
        .checked_sub(ms(1))
        .expect("the machine runs for longer");
    let rig = Rig::with(|builder| builder.tick(HOUR));
    rig.clock.advance(HOUR * 3 / 2);
    let now = rig.timer.now();
    for when in [
        ms(0).into(),
        now.into(),
        (now - ms(1)).into(),
        When::from(past),
    ] {
        let bell = Bell::new();
        let mut sleep = rig.timer.sleep(10 * HOUR);
        assert!(poll(&mut sleep, &bell).is_pending());
        sleep.reset(when);
        assert!(sleep.deadline() <= now && sleep.is_elapsed());
        assert_eq!((rig.timer.pending(), bell.rings()), (0, 1));
        assert_eq!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
        // Over, and so without a timer: a reset to what has passed costs none.
        sleep.reset(when);
        assert_eq!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
    }
    let mut ahead = rig.timer.sleep(10 * HOUR);
    assert_eq!(ahead.time_of(us(1)), now + us(1), "not yet rounded");
    assert!(poll(&mut ahead, &Bell::new()).is_pending());
    ahead.reset(now + us(1));
    assert_eq!(rig.pass(HOUR / 2 - us(1)), 0, "a tick later, not at once");
    assert_eq!(rig.pass(us(1)), 1);
    assert_eq!(rig.timer.stats().scheduled, 5);
}

#[test]
fn the_end_of_the_scale_never_passes() {
    let rig = Rig::new();
    let mut cx = Context::from_waker(Waker::noop());
    rig.pass(Duration::MAX);
    assert_eq!(rig.timer.now(), Time::MAX);
    for when in [Time::MAX.into(), When::from(ms(1))] {
        let mut sleep = rig.timer.sleep(ms(0));
        sleep.reset(when);
        for mut sleep in [sleep, rig.timer.sleep(when)] {
            assert!(poll(&mut sleep, &Bell::new()).is_pending());
        }
    }
    let mut beat = rig.timer.interval(ms(5)).missed_ticks(MissedTicks::Burst);
    assert!(beat.poll_tick(&mut cx).is_ready() && beat.poll_tick(&mut cx).is_pending());
}

#[test]
fn a_cancelled_sleep_wakes_no_task_until_it_is_polled_again() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut sleep = rig.timer.sleep(ms(5));
    assert!(poll(&mut sleep, &bell).is_pending());
    sleep.cancel();
    assert_eq!((rig.timer.pending(), wakers(&bell)), (0, 0));
    assert_eq!(rig.pass(ms(4)), 0);
    // Armed anew for what is left.
    assert!(poll(&mut sleep, &bell).is_pending());
    assert_eq!((rig.pass(ms(1)), bell.rings()), (1, 1));
    assert_eq!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
    // Cancelled until its time has passed: ready, without a timer.
    sleep.reset(ms(5));
    assert!(poll(&mut sleep, &bell).is_pending());
    sleep.cancel();
    assert_eq!(rig.pass(ms(6)), 0);
    assert!(!sleep.is_elapsed());
    assert_eq!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
    assert_eq!((bell.rings(), rig.timer.pending()), (1, 0));
}

#[test]
fn pushing_out_sends_nothing_and_the_waker_stays() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut sleep = rig.timer.sleep(ms(500));
    assert!(poll(&mut sleep, &bell).is_pending());
    let before = rig.timer.stats().inbox;
    for pushed in 1..=100 {
        sleep.reset(ms(500 + pushed));
    }
    assert_eq!((rig.timer.stats().inbox, wakers(&bell)), (before, 1));
    assert_eq!(rig.timer.stats().shards[0].rescheduled, 100);
    assert_eq!((rig.pass(ms(599)), bell.rings()), (0, 0));
    assert_eq!((rig.pass(ms(1)), bell.rings()), (1, 1));
    assert_eq!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
}

#[test]
fn a_poll_by_the_same_task_arms_nothing_anew() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut sleep = rig.timer.sleep(ms(500));
    for _ in 0..10 {
        assert!(poll(&mut sleep, &bell).is_pending());
    }
    let stats = rig.timer.stats();
    assert_eq!((stats.shards[0].scheduled, stats.inbox), (1, 1));
    assert!(poll(&mut sleep, &Bell::new()).is_pending());
    assert_eq!(rig.timer.stats().shards[0].scheduled, 2, "another task");
}

/// A connection of QUIC: an acknowledgement, a loss probe and the idle timeout by turns.
#[test]
fn a_sleep_that_is_pulled_in_again_and_again_tells_the_worker_once_between_two_looks() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut sleep = rig.timer.sleep(ms(30_000));
    for fired in 0..10 {
        assert!(poll(&mut sleep, &bell).is_pending());
        assert_eq!(rig.pass(ms(1)), 0);
        for _ in 0..8 {
            for to in [25, 300, 30_000] {
                sleep.reset(ms(to));
            }
            rig.clock.advance(ms(3));
        }
        sleep.reset(ms(25));
        assert_eq!(rig.timer.stats().inbox, 2, "armed, and pulled in");
        assert_eq!((rig.pass(ms(24)), bell.rings()), (0, fired));
        sleep.reset(ms(7));
        assert_eq!((rig.pass(ms(6)), bell.rings()), (0, fired));
        assert_eq!((rig.pass(ms(1)), bell.rings()), (1, fired + 1));
        assert_eq!(poll(&mut sleep, &bell), Poll::Ready(Ok(())));
        sleep.reset(ms(30_000));
    }
}

#[test]
fn stop_wakes_and_is_told_from_firing() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut sleep = rig.timer.sleep(ms(5));
    assert!(poll(&mut sleep, &bell).is_pending());
    let returned = rig.timer.stop().unwrap();
    assert_eq!(
        (returned.len(), bell.rings()),
        (1, 1),
        "woken although the payload is kept"
    );
    assert!(!sleep.is_elapsed());
    let Poll::Ready(Err(error)) = poll(&mut sleep, &bell) else {
        panic!("a stopped sleep is over")
    };
    assert_eq!(error.kind(), &ScheduleErrorKind::Stopped);
    assert!(error.to_string().contains("build a new one"), "{error}");
    let again = poll(&mut sleep, &bell);
    assert!(
        matches!(again, Poll::Ready(Err(_))),
        "a stopped engine takes no more"
    );
    drop(returned);
    let mut late = rig.timer.sleep(ms(5));
    assert!(matches!(poll(&mut late, &bell), Poll::Ready(Err(_))));
    assert_eq!(wakers(&bell), 0);
}

/// The destructor of a thread pool waits for its threads, one of which may sleep.
#[test]
fn a_stop_wakes_each_sleeping_task_before_it_drops_the_handler() {
    struct Handler(Arc<Bell>, Arc<AtomicBool>);
    impl Drop for Handler {
        fn drop(&mut self) {
            self.1.store(self.0.rings() > 0, Ordering::SeqCst);
        }
    }
    for drive in [Drive::Manual, Drive::Workers] {
        let (bell, woken) = (Bell::new(), Arc::new(AtomicBool::new(false)));
        let handler = Handler(Arc::clone(&bell), Arc::clone(&woken));
        let builder = Builder::new().shards(1).pinning(Pinning::Off).drive(drive);
        let timer = builder
            .build_with(move |_: Expired<TimerTask>| _ = &handler)
            .unwrap();
        let mut sleep = timer.sleep(HOUR);
        assert!(poll(&mut sleep, &bell).is_pending());
        timer.stop().unwrap();
        assert!(
            woken.load(Ordering::SeqCst),
            "{drive:?}: the handler went first"
        );
    }
}

#[test]
fn the_last_timer_wakes_whoever_sleeps() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut sleep = rig.timer.sleep(ms(5));
    let unpolled = rig.timer.sleep(ms(5));
    assert!(poll(&mut sleep, &bell).is_pending());
    drop(rig);
    assert!(bell.rings() >= 1 && wakers(&bell) == 0);
    assert!(matches!(poll(&mut sleep, &bell), Poll::Ready(Err(_))));
    for mut sleep in [sleep, unpolled] {
        assert!(
            sleep.deadline() > Time::ZERO,
            "the engine's memory is there"
        );
        assert!(matches!(poll(&mut sleep, &bell), Poll::Ready(Err(_))));
        sleep.reset(ms(1));
    }
}

#[test]
fn a_full_engine_says_so_and_can_be_asked_again() {
    let rig = Rig::with(|builder| builder.max_pending(1));
    let bell = Bell::new();
    let (mut one, mut two) = (rig.timer.sleep(ms(5)), rig.timer.sleep(ms(5)));
    assert!(poll(&mut one, &bell).is_pending());
    let Poll::Ready(Err(error)) = poll(&mut two, &bell) else {
        panic!("accepted beyond the limit")
    };
    assert_eq!(
        error.kind(),
        &ScheduleErrorKind::TooManyPending {
            pending: 1,
            max_pending: 1
        }
    );
    assert_eq!(
        (wakers(&bell), bell.rings()),
        (1, 0),
        "a refused waker is dropped, not woken"
    );
    drop(one);
    assert!(poll(&mut two, &bell).is_pending());
    // Another waker needs no further place.
    assert!(poll(&mut two, &Bell::new()).is_pending());
}

#[test]
fn firing_all_makes_it_ready() {
    let rig = Rig::new();
    let bell = Bell::new();
    let mut sleep = rig.timer.sleep(HOUR);
    assert!(poll(&mut sleep, &bell).is_pending());
    assert!(
        rig.timer
            .shutdown(Shutdown::FireAll, secs(60))
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        (bell.rings(), poll(&mut sleep, &bell)),
        (1, Poll::Ready(Ok(())))
    );
}

#[test]
fn the_shared_engine_sleeps_times_out_and_ticks() {
    let not_before = |until: Instant| assert!(Instant::now() >= until);
    let until = || Instant::now() + ms(10);
    let slept = until();
    block_on(tickwheel::sleep(ms(10)));
    not_before(slept);
    let slept = until();
    block_on(tickwheel::sleep_until(slept));
    not_before(slept);
    let timed = until();
    assert_eq!(
        block_on(tickwheel::timeout(ms(10), pending::<()>())),
        Err(Elapsed)
    );
    not_before(timed);
    let timed = until();
    assert_eq!(
        block_on(tickwheel::timeout_at(timed, pending::<()>())),
        Err(Elapsed)
    );
    not_before(timed);
    assert_eq!(block_on(tickwheel::timeout(HOUR, async { 7 })), Ok(7));
    let third = until();
    let mut interval = tickwheel::interval(ms(5));
    (0..3).for_each(|_| _ = block_on(interval.tick()));
    not_before(third);
    let first = until();
    block_on(tickwheel::interval_at(first, ms(5)).tick());
    not_before(first);
    assert_eq!(tickwheel::global().unwrap().state(), EngineState::Started);
}

#[test]
fn a_sleep_keeps_the_memory_of_an_engine_whose_timers_are_gone() {
    let bell = Bell::new();
    let hooked = Arc::new(());
    let kept = Arc::clone(&hooked);
    let rig = Rig::with(|builder| builder.on_panic(move |_| assert!(Arc::strong_count(&kept) > 0)));
    let mut sleeps = [rig.timer.sleep(HOUR), rig.timer.sleep(HOUR)];
    assert!(poll(&mut sleeps[0], &bell).is_pending());
    drop(rig);
    let [armed, never_polled] = sleeps;
    drop(armed);
    drop(Rig::new());
    assert_eq!(Arc::strong_count(&hooked), 2, "one sleep is left");
    drop(never_polled);
    while Arc::strong_count(&hooked) > 1 {
        drop(Rig::new());
    }
}

#[test]
fn a_sleep_that_has_gone_leaves_no_memory_behind() {
    let rig = Rig::new();
    let sleep_once = || {
        let mut sleep = rig.timer.sleep(ms(5));
        assert!(poll(&mut sleep, &Bell::new()).is_pending());
    };
    (0..1000).for_each(|_| sleep_once());
    let held = rig.timer.stats().shards[0].held_bytes;
    for _ in 0..40 {
        (0..1000).for_each(|_| sleep_once());
        rig.pass(ms(10));
    }
    let grown = rig.timer.stats().shards[0].held_bytes.saturating_sub(held);
    assert!(grown < 200_000, "by {grown} bytes");
}

/// Its deadline does not lie ahead of the clock, by which it is ready.
#[test]
fn a_sleep_of_zero_is_not_ready_before_its_deadline() {
    let timer = Timer::new().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        let mut sleep = timer.sleep(Duration::ZERO);
        let polled = sleep.poll_sleep(&mut cx);
        let now = timer.now();
        assert!(
            polled.is_ready() && now >= sleep.deadline(),
            "{now:?}, {:?}",
            sleep.deadline()
        );
    }
}

/// The quick clock may be ahead, and does not decide.
#[test]
fn a_sleep_is_not_ready_before_its_deadline_by_its_first_poll() {
    let timer = Builder::new().shards(1).build().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..2_000 {
        let mut sleep = timer.sleep(us(20));
        while sleep.poll_sleep(&mut cx).is_pending() {
            // The next poll is a first one again.
            sleep.cancel();
        }
        let now = timer.now();
        assert!(now >= sleep.deadline(), "{now:?}, {:?}", sleep.deadline());
    }
}

/// They live in other people's threads: a worker that is pinned waits for its core beside a runtime that uses it.
#[test]
fn workers_of_the_shared_engine_are_not_pinned() {
    let shared = tickwheel::global().unwrap();
    let (done, finished) = std::sync::mpsc::channel();
    for _ in 0..100 {
        let done = done.clone();
        shared
            .run_after(Duration::ZERO, move || done.send(()).unwrap())
            .unwrap();
    }
    (0..100).for_each(|_| finished.recv().unwrap());
    // A worker pins itself before it turns.
    let at_work = shared
        .stats()
        .shards
        .into_iter()
        .filter(|shard| shard.fired > 0);
    let pins: Vec<PinState> = at_work.map(|shard| shard.pinning).collect();
    assert!(
        !pins.is_empty() && pins.iter().all(|pin| *pin == PinState::Unpinned),
        "{pins:?}"
    );
}

#[test]
fn a_sleep_says_that_its_shard_has_failed_until_the_engine_is_stopped() {
    let clock = Breakable::default();
    let rig = Rig::with(|builder| builder.clock(clock.clone()));
    let bell = Bell::new();
    let mut sleeps = [(); 2].map(|()| rig.timer.sleep(ms(5)));
    assert!(sleeps.iter_mut().all(|it| poll(it, &bell).is_pending()));
    clock.set_broken(true);
    assert!(rig.timer.turn().is_err());
    clock.set_broken(false);
    let mut reason = |nth: usize| match poll(&mut sleeps[nth], &bell) {
        Poll::Ready(Err(error)) => error.kind().clone(),
        other => panic!("{other:?}"),
    };
    let failed = reason(0);
    assert!(
        matches!(failed, ScheduleErrorKind::WorkerFailed { shard: 0, .. }),
        "{failed:?}"
    );
    assert_eq!(rig.timer.stop().unwrap().len(), 2);
    assert_eq!(reason(1), ScheduleErrorKind::Stopped);
}

/// Drops and polls with other wakers by turns: every 4096th of both is a drop, or a poll.
#[test]
fn sleeps_that_are_dropped_or_polled_anew_let_the_owner_sweep() {
    const SLEEPS: usize = 50_000;
    for polls_come_second in [true, false] {
        let rig = Rig::new();
        let bells = [Bell::new(), Bell::new()];
        let mut sleeps: Vec<_> = (0..=SLEEPS).map(|_| rig.timer.sleep(HOUR)).collect();
        for sleep in &mut sleeps {
            assert!(poll(sleep, &bells[0]).is_pending());
        }
        let owner = Bell::new();
        let mut shard = rig.timer.drive_shard(0).unwrap();
        rig.timer.run_after(Duration::ZERO, || ()).unwrap();
        while shard.turn(&Waker::from(Arc::clone(&owner))) == Ok(Some(Duration::ZERO)) {}
        let entries = || rig.timer.stats().shards[0].entries;
        assert_eq!((entries(), owner.rings()), (SLEEPS as u64 + 1, 0));
        let mut polled = sleeps.pop().unwrap();
        if !polls_come_second {
            drop(sleeps.pop());
        }
        // Fewer than the messages that lie unread without a turn.
        for round in 0..45_000 {
            drop(sleeps.pop());
            assert!(poll(&mut polled, &bells[1 - round % 2]).is_pending());
        }
        assert!(owner.rings() > 0, "{polls_come_second}: nobody looks");
        drop(shard);
        rig.timer.stop().unwrap();
    }
}
