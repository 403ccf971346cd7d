//! The same tests for every parker that compiles on this system.

/// Instantiates the tests for the parker of one module.
macro_rules! tests_of {
    ($parker:ident) => {
        mod $parker {
            use crate::park::parker::$parker::{Parker, Unparker};
            use crate::park::parker::{LONGEST, ParkEnd};
            use std::time::{Duration, Instant};

            /// Far longer than any test may take: ends only by a wake.
            const LONG: Duration = Duration::from_secs(60);
            const MS: Duration = Duration::from_millis(1);

            #[test]
            fn sleeps_as_long_as_asked_and_not_much_longer() {
                let waker = Unparker::default();
                let mut parker = Parker::of(&waker);
                for micros in [1, 50, 999, 1_000, 1_001, 2_500, 20_000] {
                    let timeout = Duration::from_micros(micros);
                    let mut slept: Vec<Duration> = (0..if micros < 100 { 300 } else { 3 })
                        .map(|_| {
                            let start = Instant::now();
                            // One early return for a stray signal is allowed by contract but does not happen here.
                            assert_eq!(parker.sleep(Some(timeout)), ParkEnd::Timeout);
                            start.elapsed()
                        })
                        .collect();
                    slept.sort_unstable();
                    assert!(slept[0] >= timeout, "{:?} of {timeout:?}", slept[0]);
                    // Some 30 us are usual; a poll in whole milliseconds would take 900 us more. Windows sleeps in
                    // steps of its own, of up to 15.6 ms.
                    let most = Duration::from_micros(if cfg!(windows) { 17_000 } else { 700 });
                    let median = slept[slept.len() / 2];
                    assert!(
                        micros >= 100 || median < timeout + most,
                        "median {median:?}"
                    );
                }
            }

            #[test]
            fn a_wake_before_the_sleep_is_not_lost_and_counts_once() {
                let waker = Unparker::default();
                let mut parker = Parker::of(&waker);
                let longest = [Duration::MAX, LONGEST, LONGEST + Duration::from_nanos(1)];
                for timeout in longest.map(Some).into_iter().chain([None, Some(MS / 2)]) {
                    waker.wake(|| ());
                    waker.wake(|| ());
                    assert_eq!(parker.sleep(Some(Duration::ZERO)), ParkEnd::Timeout);
                    assert_eq!(parker.sleep(timeout), ParkEnd::Woken);
                    assert_eq!(parker.sleep(Some(2 * MS)), ParkEnd::Timeout);
                }
                waker.wake(|| ());
                drop(waker);
                assert_eq!(
                    parker.sleep(Some(LONG)),
                    ParkEnd::Woken,
                    "by the last waker"
                );
            }

            #[test]
            fn a_timer_of_an_earlier_sleep_does_not_end_a_later_one() {
                let waker = Unparker::default();
                let mut parker = Parker::of(&waker);
                for _ in 0..20 {
                    waker.wake(|| ());
                    assert_eq!(parker.sleep(Some(3 * MS)), ParkEnd::Woken);
                    // The timer of 3 ms is still set here, or has even expired.
                    std::thread::sleep(4 * MS);
                    let start = Instant::now();
                    assert_eq!(parker.sleep(Some(10 * MS)), ParkEnd::Timeout);
                    assert!(start.elapsed() >= 10 * MS);
                }
                waker.wake(|| ());
                assert_eq!(parker.sleep(Some(20 * MS)), ParkEnd::Woken);
                // A sleep without a timeout, or with a long one, is ended by a wake of another thread only.
                for timeout in [None, Some(LONG)] {
                    let (waker, start) = (waker.clone(), Instant::now());
                    let thread = std::thread::spawn(move || {
                        std::thread::sleep(40 * MS);
                        waker.wake(|| ());
                    });
                    assert_eq!(parker.sleep(timeout), ParkEnd::Woken);
                    assert!((30 * MS..LONG / 2).contains(&start.elapsed()));
                    thread.join().unwrap();
                }
            }

            #[test]
            fn wakes_from_many_threads_never_go_missing() {
                let waker = Unparker::default();
                let mut parker = Parker::of(&waker);
                let turn = std::sync::Barrier::new(3);
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            for _ in 0..500 {
                                waker.wake(|| ());
                                turn.wait();
                            }
                        });
                    }
                    // Two wakes of a round end one or two sleeps, never none. No assertion in here: the other threads
                    // wait at the barrier.
                    let mut missing = 0;
                    for _ in 0..500 {
                        let end = parker.sleep(Some(Duration::from_secs(2)));
                        missing += usize::from(end != ParkEnd::Woken);
                        turn.wait();
                    }
                    assert_eq!(missing, 0);
                });
                drop(parker);
                // Waking a parker that is gone does no harm.
                waker.wake(|| ());
            }
        }
    };
}

/// One that has written the token may be scheduled away before its system call, for as long as you like.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_stops_inside_a_wake_stops_no_other_wake() {
    use super::linux::{Parker, Unparker};
    let waker = Unparker::default();
    let mut parker = Parker::of(&waker);
    let long = std::time::Duration::from_secs(20);
    let owner = std::thread::spawn(move || {
        let start = std::time::Instant::now();
        parker.sleep(Some(long));
        start.elapsed()
    });
    while !waker.is_owner_asleep() {
        std::thread::yield_now();
    }
    // The kernel looks at the token once more, and ends the sleep then: this lets it look before.
    std::thread::sleep(std::time::Duration::from_millis(20));
    waker.stop_before_the_call();
    assert!(!waker.is_owner_asleep(), "the token is written");
    waker.wake(|| ());
    assert!(owner.join().unwrap() < long);
}

#[cfg(target_os = "linux")]
#[test]
fn the_first_sleep_sets_the_threads_timer_slack() {
    use super::linux::{Parker, Unparker};
    // SAFETY: asks for a number of the calling thread.
    let slack = || unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    // SAFETY: changes a number of the calling thread.
    let is_set = |ns: u64| unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) } == 0;
    let sleeper = std::thread::spawn(move || {
        let before = slack();
        if !is_set(50_000) {
            return (-1, -1);
        }
        let waker = Unparker::default();
        let mut parker = Parker::of(&waker);
        parker.sleep(Some(std::time::Duration::from_nanos(1)));
        (before, slack())
    });
    let (before, after) = sleeper.join().unwrap();
    if before < 0 {
        eprintln!("skipped: the system sets no timer slack");
        return;
    }
    assert_eq!(after, 1, "{before} ns before");
}

#[cfg(target_os = "linux")]
tests_of!(linux);
tests_of!(portable);
