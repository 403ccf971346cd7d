//! The same tests for every parker that compiles on this system.

/// Instantiates the tests for the parker of one module.
macro_rules! tests_of {
    ($parker:ident) => {
        mod $parker {
            use crate::park::parker::end::{LONGEST, ParkEnd};
            use crate::park::parker::$parker::Parker;
            use std::time::{Duration, Instant};

            /// Far longer than any test may take: ends only by a wake.
            const LONG: Duration = Duration::from_secs(60);

            /// Sleeps to the end of `timeout` as a worker does, looking at the clock; returns the time
            /// slept and the number of sleeps it took.
            fn sleep_out(parker: &mut Parker, timeout: Duration) -> (Duration, usize) {
                let start = Instant::now();
                let mut sleeps = 0;
                loop {
                    let rest = timeout.saturating_sub(start.elapsed());
                    if rest.is_zero() {
                        return (start.elapsed(), sleeps);
                    }
                    assert_eq!(parker.sleep(Some(rest)), ParkEnd::Timeout);
                    sleeps += 1;
                }
            }

            #[test]
            fn sleeps_as_long_as_asked() {
                {
                    let (mut parker, _waker) = Parker::new();
                    for micros in [1, 50, 999, 1_000, 1_001, 2_500, 20_000] {
                        let timeout = Duration::from_micros(micros);
                        let start = Instant::now();
                        assert_eq!(parker.sleep(Some(timeout)), ParkEnd::Timeout);
                        // One early return for a stray signal is allowed by contract but does not happen
                        // here.
                        assert!(start.elapsed() >= timeout, "{:?} of {timeout:?}", start.elapsed());
                    }
                }
            }

            #[test]
            fn a_thousand_short_sleeps_end_soon_after_their_time() {
                {
                    let (mut parker, _waker) = Parker::new();
                    let timeout = Duration::from_micros(100);
                    let mut over: Vec<Duration> = (0..1_000)
                        .map(|_| {
                            let (slept, sleeps) = sleep_out(&mut parker, timeout);
                            assert!(sleeps <= 3, "{sleeps} sleeps for one timeout");
                            slept - timeout
                        })
                        .collect();
                    over.sort_unstable();
                    // Some 30 us are usual; a poll in whole milliseconds would take 900 us more. Windows sleeps in
                    // steps of its own, of up to 15.6 ms.
                    let most = Duration::from_micros(if cfg!(windows) { 17_000 } else { 700 });
                    assert!(over[500] < most, "median overshoot {:?}", over[500]);
                }
            }

            #[test]
            fn a_wake_from_another_thread_ends_the_sleep() {
                {
                    let (mut parker, waker) = Parker::new();
                    for timeout in [None, Some(LONG)] {
                        let start = Instant::now();
                        let waker = waker.clone();
                        let thread = std::thread::spawn(move || {
                            std::thread::sleep(Duration::from_millis(5));
                            waker.wake();
                        });
                        assert_eq!(parker.sleep(timeout), ParkEnd::Woken);
                        assert!(start.elapsed() >= Duration::from_millis(5));
                        assert!(start.elapsed() < LONG / 2);
                        thread.join().unwrap();
                    }
                }
            }

            #[test]
            fn a_wake_before_the_sleep_is_not_lost_and_counts_once() {
                {
                    let (mut parker, waker) = Parker::new();
                    for timeout in [None, Some(LONG), Some(Duration::from_micros(500))] {
                        waker.wake();
                        waker.wake();
                        assert_eq!(parker.sleep(Some(Duration::ZERO)), ParkEnd::Timeout);
                        assert_eq!(parker.sleep(timeout), ParkEnd::Woken);
                        let (slept, _) = sleep_out(&mut parker, Duration::from_millis(2));
                        assert!(slept >= Duration::from_millis(2));
                    }
                }
            }

            #[test]
            fn a_timer_of_an_earlier_sleep_does_not_end_a_later_one() {
                let (mut parker, waker) = Parker::new();
                for _ in 0..20 {
                    waker.wake();
                    assert_eq!(parker.sleep(Some(Duration::from_millis(3))), ParkEnd::Woken);
                    // The timer of 3 ms is still set here, or has even expired.
                    std::thread::sleep(Duration::from_millis(4));
                    let start = Instant::now();
                    assert_eq!(parker.sleep(Some(Duration::from_millis(10))), ParkEnd::Timeout);
                    assert!(start.elapsed() >= Duration::from_millis(10));
                }
                assert_eq!(parker.sleep(Some(Duration::from_millis(1))), ParkEnd::Timeout);
                waker.wake();
                assert_eq!(parker.sleep(Some(Duration::from_millis(20))), ParkEnd::Woken);
                // Without a timeout the timer must not end the sleep either: only the wake does.
                let thread = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(40));
                    waker.wake();
                });
                let start = Instant::now();
                assert_eq!(parker.sleep(None), ParkEnd::Woken);
                assert!(start.elapsed() >= Duration::from_millis(30));
                thread.join().unwrap();
            }

            #[test]
            fn the_longest_durations_are_accepted() {
                {
                    let (mut parker, waker) = Parker::new();
                    for timeout in [Duration::MAX, LONGEST, LONGEST + Duration::from_nanos(1)] {
                        waker.wake();
                        assert_eq!(parker.sleep(Some(timeout)), ParkEnd::Woken);
                    }
                }
            }

            #[test]
            fn wakes_from_many_threads_never_go_missing() {
                let (mut parker, waker) = Parker::new();
                let turn = std::sync::Barrier::new(3);
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            for _ in 0..500 {
                                waker.wake();
                                turn.wait();
                            }
                        });
                    }
                    let mut missing = 0;
                    for _ in 0..500 {
                        // Two wakes of a round end one or two sleeps, never none. No assertion in here: the
                        // other threads wait at the barrier.
                        missing += usize::from(
                            parker.sleep(Some(Duration::from_secs(2))) != ParkEnd::Woken,
                        );
                        turn.wait();
                    }
                    assert_eq!(missing, 0);
                });
            }

            #[test]
            fn a_wake_by_the_last_waker_is_not_lost() {
                {
                    let (mut parker, waker) = Parker::new();
                    waker.wake();
                    drop(waker);
                    assert_eq!(parker.sleep(Some(LONG)), ParkEnd::Woken);
                }
            }

            #[test]
            fn the_waker_is_for_any_thread() {
                fn any_thread<T: Clone + Send + Sync + 'static>(_: &T) {}
                let (parker, waker) = Parker::new();
                any_thread(&waker);
                drop(parker);
                // Waking a parker that is gone does no harm.
                waker.wake();
            }
        }
    };
}

#[cfg(target_os = "linux")]
tests_of!(linux);
tests_of!(portable);
