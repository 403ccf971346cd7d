//! A timer's waker: whose it is, how long it lives, what it may do, and what a `mio` poll refuses.

use mio::{Poll, Token, Waker};
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tickwheel::{
    Budget, BuildError, EventLoopTimer, ManualClock, Remote, ScheduleErrorKind, Settings,
    SystemError,
};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_poll_that_has_a_waker_refuses_another_without_a_panic() {
    let poll = Poll::new().unwrap();
    let first: EventLoopTimer<u64> =
        EventLoopTimer::with_mio(Settings::new(), poll.registry(), Token(0)).unwrap();
    let second = EventLoopTimer::<u64>::with_mio(Settings::new(), poll.registry(), Token(1));
    // `mio` looks only where debug assertions are on.
    if cfg!(debug_assertions) {
        let error = second.err().unwrap();
        assert!(matches!(error, BuildError::Waker { .. }), "{error:?}");
        assert!(error.to_string().contains("with_mio_waker"), "{error}");
    }
    drop(first);
}

#[test]
fn an_error_of_mio_gives_the_system_s_reason() {
    let source = SystemError::from(io::Error::from_raw_os_error(24));
    let error = BuildError::Waker { source };
    let reason = error.source().and_then(|it| it.downcast_ref::<io::Error>());
    assert_eq!(reason.and_then(io::Error::raw_os_error), Some(24));
}

/// With debug assertions, `mio` refuses the second waker of a poll even if the first is gone.
#[test]
fn a_setting_out_of_range_takes_no_waker_from_the_poll() {
    let poll = Poll::new().unwrap();
    let build =
        |settings: Settings| EventLoopTimer::<u64>::with_mio(settings, poll.registry(), Token(0));
    for settings in [
        Settings::new().tick(Duration::ZERO),
        Settings::new().max_pending(0),
        Settings::new().budget(Budget::new().fire(0)),
    ] {
        let error = build(settings).err().unwrap();
        assert!(!matches!(error, BuildError::Waker { .. }), "{error}");
    }
    assert!(build(Settings::new()).is_ok());
}

#[test]
fn the_waker_dies_with_the_timer_not_with_its_last_remote() {
    let poll = Poll::new().unwrap();
    let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
    for is_closed in [true, false] {
        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let wake = move || assert_eq!(Arc::strong_count(&inside), 2);
        for timer in [
            EventLoopTimer::<u64>::with_mio_waker(Settings::new(), Arc::clone(&waker)).unwrap(),
            EventLoopTimer::with_waker(Settings::new(), wake).unwrap(),
        ] {
            let remote = timer.remote();
            assert_eq!(timer.poll_timeout(timer.now()), None);
            remote.schedule(HOUR, 1).unwrap();
            if is_closed {
                assert_eq!(timer.close().len(), 1);
            } else {
                drop(timer);
            }
            let refused = remote.schedule(HOUR, 2).unwrap_err();
            assert_eq!(*refused.kind(), ScheduleErrorKind::Stopped);
        }
        assert_eq!(
            (Arc::strong_count(&waker), Arc::strong_count(&held)),
            (1, 1)
        );
    }
}

#[test]
fn a_waker_that_panics_has_woken_nobody_and_others_try() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let wake = move || {
        assert!(
            counted.fetch_add(1, Ordering::SeqCst) > 0,
            "the first call panics"
        )
    };
    let settings = Settings::new().clock(ManualClock::new());
    let mut timer: EventLoopTimer<u64> = EventLoopTimer::with_waker(settings, wake).unwrap();
    let remote = timer.remote();
    assert_eq!(timer.poll_timeout(timer.now()), None);
    remote.schedule(HOUR, 1).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| remote.schedule(Duration::ZERO, 2).unwrap());
    });
    assert_eq!(calls.load(Ordering::SeqCst), 2, "the loop would sleep on");
    remote.schedule(Duration::ZERO, 3).unwrap();
    assert_eq!(
        calls.load(Ordering::SeqCst),
        2,
        "one call that returned is enough"
    );
    let mut fired = Vec::new();
    timer.poll(timer.now(), |expired| fired.push(expired.payload));
    fired.sort_unstable();
    assert_eq!((fired, timer.pending()), (vec![2, 3], 1));
}

/// A waker must not schedule: it is called from within itself then. The call comes from a thread whose block is full,
/// because so many messages lie unread, and the waker fills a part of the next block.
#[test]
fn a_waker_that_schedules_while_its_thread_has_no_block_loses_no_timer() {
    const TIMERS: u64 = 100_000;
    let clock = ManualClock::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let remote: Arc<OnceLock<Remote<u64>>> = Arc::default();
    let (counted, inside) = (Arc::clone(&calls), Arc::clone(&remote));
    let wake = move || {
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            inside.get().unwrap().schedule(HOUR, TIMERS).unwrap();
        }
    };
    let settings = Settings::new().clock(clock.clone());
    let mut timer = EventLoopTimer::with_waker(settings, wake).unwrap();
    let remote = remote.get_or_init(|| timer.remote());
    let now = timer.now();
    // The loop sleeps until then, so it need not know of what is due later.
    timer.schedule(now, HOUR / 2, TIMERS + 1).unwrap();
    assert_eq!(timer.poll_timeout(now), Some(HOUR / 2));
    (0..TIMERS).for_each(|id| _ = remote.schedule(HOUR, id).unwrap());
    assert_eq!(calls.load(Ordering::SeqCst), 2, "of too many messages");
    let mut fired = Vec::new();
    let now = clock.advance(HOUR);
    while timer.poll(now, |expired| fired.push(expired.payload)).more {}
    fired.sort_unstable();
    assert!(fired.into_iter().eq(0..=TIMERS + 1), "one was lost");
}
