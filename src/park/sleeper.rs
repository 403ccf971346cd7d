//! The sleep itself: wait until a timeout or a wake, whichever comes first.
//!
//! [`Sleeper`] belongs to the shard's owner and never leaves its thread while in use.
//! [`SleepWaker`] is the other end: any thread may clone it and call `wake`. A wake is never lost:
//! one that comes before the sleep ends the next sleep at once. Several wakes before a sleep end
//! one sleep. Which wakes are worth their price is decided above, in the handshake; here every
//! `wake` is a system call.
//!
//! The sleep is a `mio::Poll`. Polls only know milliseconds on Linux, so there a timerfd,
//! registered with the poll, ends sleeps to within tens of microseconds. It is registered
//! edge-triggered: each expiry is one event and nobody has to read the descriptor, because arming
//! it anew takes back an expiry that has not been delivered. Without a timerfd the poll sleeps the
//! whole milliseconds and the rest goes in short slices.

#[cfg(target_os = "linux")]
mod timer;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

#[cfg(target_os = "linux")]
use self::timer::Timer;

const WAKE: Token = Token(0);

/// At most one event of each token per poll.
const EVENTS: usize = 2;

/// The longest single sleep, 68 years: keeps every conversion to the system's types in range. The
/// caller looks again after any sleep, so a longer one is only cut in two.
const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

/// One slice of the remainder below a millisecond, where no timerfd is at hand: the longest that a
/// wake may go unnoticed there.
const SLICE: Duration = Duration::from_micros(50);

/// How long to stay away from a poll that fails, so that a broken one cannot spin.
const AFTER_FAILURE: Duration = Duration::from_millis(1);

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepEnd {
    /// A [`SleepWaker::wake`], before this sleep or during it.
    Woken,
    /// The timeout, or now and then nothing at all: a signal, or a timer of an earlier sleep.
    Timeout,
}

/// The owner's end: sleeps.
pub(crate) struct Sleeper {
    poll: Poll,
    events: Events,
    #[cfg(target_os = "linux")]
    timer: Option<Timer>,
    /// Keeps the waker's descriptor open: closing it takes back a wake that has not been delivered,
    /// so a waker that wakes and is dropped at once, the last of its kind, would wake nobody.
    _waker: SleepWaker,
    /// A failing poll is logged once, not once per turn.
    failed: bool,
}

/// The other end: ends a sleep. Any thread; cheap to clone.
#[derive(Clone)]
pub(crate) struct SleepWaker {
    waker: Arc<Waker>,
}

impl SleepWaker {
    /// Ends the owner's current sleep, or its next one. One system call, never blocks.
    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            // The descriptor is open as long as `self` lives, so no known system gets here.
            log::error!("a sleeping worker could not be woken: {error}");
        }
    }
}

impl Sleeper {
    /// A sleeper and its waker. Costs three descriptors on Linux (poll, waker, timer).
    ///
    /// # Errors
    ///
    /// When the system gives no poll or waker, mostly for lack of descriptors. A missing timerfd
    /// only costs precision and is logged.
    pub(crate) fn new() -> io::Result<(Self, SleepWaker)> {
        let poll = Poll::new()?;
        let waker = SleepWaker { waker: Arc::new(Waker::new(poll.registry(), WAKE)?) };
        #[cfg(target_os = "linux")]
        let timer = Timer::new(poll.registry())
            .inspect_err(|error| log::warn!("no timerfd, sleeps are less precise: {error}"))
            .ok();
        let sleeper = Self {
            poll,
            events: Events::with_capacity(EVENTS),
            #[cfg(target_os = "linux")]
            timer,
            _waker: waker.clone(),
            failed: false,
        };
        Ok((sleeper, waker))
    }

    /// Sleeps until `timeout` has passed (for ever where it is `None`) or a wake ends it.
    ///
    /// May end early, for example on a signal: the caller looks at the clock again. A zero
    /// timeout returns at once without a system call and leaves a pending wake for the next sleep.
    pub(crate) fn sleep(&mut self, timeout: Option<Duration>) -> SleepEnd {
        let timeout = timeout.map(|timeout| timeout.min(LONGEST));
        if timeout == Some(Duration::ZERO) {
            return SleepEnd::Timeout;
        }
        #[cfg(target_os = "linux")]
        if let Some(timer) = &mut self.timer {
            match timer.set(timeout) {
                Ok(()) => return self.wait(None),
                Err(error) => {
                    log::warn!("the timerfd failed, sleeps are less precise: {error}");
                    self.timer = None;
                }
            }
        }
        match timeout {
            Some(timeout) => self.sleep_in_slices(timeout),
            None => self.wait(None),
        }
    }

    /// The sleep of systems without a timerfd.
    ///
    /// A poll that rounds to milliseconds would end early or late, so it gets the whole
    /// milliseconds and the rest passes in slices, with a look for wakes after each.
    fn sleep_in_slices(&mut self, timeout: Duration) -> SleepEnd {
        let start = Instant::now();
        let whole = Duration::from_millis(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        // Polls built on kqueue take nanoseconds as they are.
        let precise =
            cfg!(any(target_vendor = "apple", target_os = "freebsd", target_os = "openbsd"));
        let first = if precise { timeout } else { whole };
        if self.wait(Some(first)) == SleepEnd::Woken {
            return SleepEnd::Woken;
        }
        loop {
            let rest = timeout.saturating_sub(start.elapsed());
            if rest.is_zero() {
                return SleepEnd::Timeout;
            }
            std::thread::sleep(rest.min(SLICE));
            if self.wait(Some(Duration::ZERO)) == SleepEnd::Woken {
                return SleepEnd::Woken;
            }
        }
    }

    /// One poll.
    fn wait(&mut self, timeout: Option<Duration>) -> SleepEnd {
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) if self.events.iter().any(|event| event.token() == WAKE) => SleepEnd::Woken,
            Ok(()) => SleepEnd::Timeout,
            // A signal: the caller looks at the clock again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => SleepEnd::Timeout,
            Err(error) => {
                if !self.failed {
                    self.failed = true;
                    log::error!(
                        "the poll of a worker fails, it now sleeps in steps of 1 ms: {error}"
                    );
                }
                std::thread::sleep(
                    timeout.map_or(AFTER_FAILURE, |timeout| timeout.min(AFTER_FAILURE)),
                );
                SleepEnd::Timeout
            }
        }
    }
}

impl fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleeper").field("poll", &self.poll).finish_non_exhaustive()
    }
}

impl fmt::Debug for SleepWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepWaker").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far longer than any test may take: ends only by a wake.
    const LONG: Duration = Duration::from_secs(60);

    /// Both kinds of sleep: as the system offers it, and without a timerfd.
    fn both() -> [(Sleeper, SleepWaker); 2] {
        #[cfg_attr(
            not(target_os = "linux"),
            expect(unused_mut, reason = "only Linux has a timer to take away")
        )]
        let mut pair = [Sleeper::new().unwrap(), Sleeper::new().unwrap()];
        #[cfg(target_os = "linux")]
        {
            assert!(pair[0].0.timer.is_some(), "this system has no timerfd");
            pair[1].0.timer = None;
        }
        pair
    }

    /// Sleeps to the end of `timeout` as a worker does, looking at the clock; returns the time
    /// slept and the number of sleeps it took.
    fn sleep_out(sleeper: &mut Sleeper, timeout: Duration) -> (Duration, usize) {
        let start = Instant::now();
        let mut sleeps = 0;
        loop {
            let rest = timeout.saturating_sub(start.elapsed());
            if rest.is_zero() {
                return (start.elapsed(), sleeps);
            }
            assert_eq!(sleeper.sleep(Some(rest)), SleepEnd::Timeout);
            sleeps += 1;
        }
    }

    #[test]
    fn sleeps_as_long_as_asked() {
        for (mut sleeper, _waker) in both() {
            for micros in [1, 50, 999, 1_000, 1_001, 2_500, 20_000] {
                let timeout = Duration::from_micros(micros);
                let start = Instant::now();
                assert_eq!(sleeper.sleep(Some(timeout)), SleepEnd::Timeout);
                // One early return for a stray signal is allowed by contract but does not happen
                // here.
                assert!(start.elapsed() >= timeout, "{:?} of {timeout:?}", start.elapsed());
            }
        }
    }

    #[test]
    fn a_thousand_short_sleeps_end_soon_after_their_time() {
        for (mut sleeper, _waker) in both() {
            let timeout = Duration::from_micros(100);
            let mut over: Vec<Duration> = (0..1_000)
                .map(|_| {
                    let (slept, sleeps) = sleep_out(&mut sleeper, timeout);
                    assert!(sleeps <= 3, "{sleeps} sleeps for one timeout");
                    slept - timeout
                })
                .collect();
            over.sort_unstable();
            // Some 30 us are usual; a poll in whole milliseconds would take 900 us more.
            assert!(over[500] < Duration::from_micros(700), "median overshoot {:?}", over[500]);
        }
    }

    #[test]
    fn a_wake_from_another_thread_ends_the_sleep() {
        for (mut sleeper, waker) in both() {
            for timeout in [None, Some(LONG)] {
                let start = Instant::now();
                let waker = waker.clone();
                let thread = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(5));
                    waker.wake();
                });
                assert_eq!(sleeper.sleep(timeout), SleepEnd::Woken);
                assert!(start.elapsed() >= Duration::from_millis(5));
                assert!(start.elapsed() < LONG / 2);
                thread.join().unwrap();
            }
        }
    }

    #[test]
    fn a_wake_before_the_sleep_is_not_lost_and_counts_once() {
        for (mut sleeper, waker) in both() {
            for timeout in [None, Some(LONG), Some(Duration::from_micros(500))] {
                waker.wake();
                waker.wake();
                assert_eq!(sleeper.sleep(Some(Duration::ZERO)), SleepEnd::Timeout);
                assert_eq!(sleeper.sleep(timeout), SleepEnd::Woken);
                let (slept, _) = sleep_out(&mut sleeper, Duration::from_millis(2));
                assert!(slept >= Duration::from_millis(2));
            }
        }
    }

    #[test]
    fn a_timer_of_an_earlier_sleep_does_not_end_a_later_one() {
        let (mut sleeper, waker) = Sleeper::new().unwrap();
        for _ in 0..20 {
            waker.wake();
            assert_eq!(sleeper.sleep(Some(Duration::from_millis(3))), SleepEnd::Woken);
            // The timer of 3 ms is still set here, or has even expired.
            std::thread::sleep(Duration::from_millis(4));
            let start = Instant::now();
            assert_eq!(sleeper.sleep(Some(Duration::from_millis(10))), SleepEnd::Timeout);
            assert!(start.elapsed() >= Duration::from_millis(10));
        }
        assert_eq!(sleeper.sleep(Some(Duration::from_millis(1))), SleepEnd::Timeout);
        waker.wake();
        assert_eq!(sleeper.sleep(Some(Duration::from_millis(20))), SleepEnd::Woken);
        // Without a timeout the timer must not end the sleep either: only the wake does.
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(40));
            waker.wake();
        });
        let start = Instant::now();
        assert_eq!(sleeper.sleep(None), SleepEnd::Woken);
        assert!(start.elapsed() >= Duration::from_millis(30));
        thread.join().unwrap();
    }

    #[test]
    fn the_longest_durations_are_accepted() {
        for (mut sleeper, waker) in both() {
            for timeout in [Duration::MAX, LONGEST, LONGEST + Duration::from_nanos(1)] {
                waker.wake();
                assert_eq!(sleeper.sleep(Some(timeout)), SleepEnd::Woken);
            }
        }
    }

    #[test]
    fn wakes_from_many_threads_never_go_missing() {
        let (mut sleeper, waker) = Sleeper::new().unwrap();
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
                // others wait at the barrier.
                missing +=
                    usize::from(sleeper.sleep(Some(Duration::from_secs(2))) != SleepEnd::Woken);
                turn.wait();
            }
            assert_eq!(missing, 0);
        });
    }

    #[test]
    fn a_wake_by_the_last_waker_is_not_lost() {
        for (mut sleeper, waker) in both() {
            waker.wake();
            drop(waker);
            assert_eq!(sleeper.sleep(Some(LONG)), SleepEnd::Woken);
        }
    }

    #[test]
    fn the_waker_is_for_any_thread() {
        fn any_thread<T: Clone + Send + Sync + 'static>(_: &T) {}
        let (sleeper, waker) = Sleeper::new().unwrap();
        any_thread(&waker);
        drop(sleeper);
        // Waking a sleeper that is gone does no harm.
        waker.wake();
    }
}
