//! A quicker reading of the monotonic clock for those who schedule: never behind it, ahead by a microsecond at most.
//!
//! Reading the machine's clock is the dearest step of a schedule. Where the processor's counter is known to be
//! steady, a thread remembers one reading of both (its *anchor*) and for the next 50 us computes the time from
//! the counter alone, with a rate that is rounded up by 0.4 %.
//!
//! Ahead is the safe side: a delay that is counted from a moment later than now gives a deadline that is later,
//! never earlier. Whoever *fires* timers reads the real clock.
//!
//! The counter is trusted on Linux on x86-64, if the kernel itself keeps its time by it (it has then found that
//! all cores' counters agree and never stop), and only until a thread finds that a time computed from it was
//! behind. Everywhere else every reading is one of the real clock.

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(tickwheel_loom)))]
pub(crate) use counted::QuickClock;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(tickwheel_loom))))]
pub(crate) use plain::QuickClock;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(tickwheel_loom))))]
mod plain {
    use crate::time::{Clock, MonotonicClock, Time};

    /// Reads the real clock.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct QuickClock(MonotonicClock);

    impl QuickClock {
        pub(crate) fn new(clock: MonotonicClock) -> Self {
            Self(clock)
        }

        #[inline]
        pub(crate) fn now(&self) -> Time {
            self.0.now()
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(tickwheel_loom)))]
mod counted {
    use crate::sync::process::{AtomicU64, Ordering};
    use crate::time::saturating_ns;
    use crate::time::{Clock, MonotonicClock, Time};
    use std::cell::Cell;
    use std::sync::OnceLock;

    /// How long an anchor serves.
    const WINDOW_NS: u64 = 50_000;
    /// The rate is rounded up by this part of it: eight times what time servers ever correct, and more than the
    /// error of measuring it.
    const MARGIN: u64 = 256;
    /// Added to every computed time: the processor may read its counter a few instructions early.
    const SLACK_NS: u64 = 64;
    /// The rate is measured over at least this time.
    const BASE_NS: u64 = 10_000_000;
    /// A reading of clock and counter that took longer than this was interrupted, and is no anchor.
    const LONGEST_READING: u64 = 1_500;

    /// Nanoseconds per count, with 32 binary digits after the point, rounded up as said; or `UNKNOWN`, or `BROKEN`.
    static RATE: AtomicU64 = AtomicU64::new(UNKNOWN);
    const UNKNOWN: u64 = 0;
    const BROKEN: u64 = u64::MAX;

    /// Where measuring the rate begins; nothing if the counter cannot be trusted. Its clock is what anchors count from.
    static START: OnceLock<Option<Start>> = OnceLock::new();

    #[derive(Clone, Copy, Debug)]
    struct Start {
        clock: MonotonicClock,
        counter: u64,
        nanos: u64,
    }

    #[derive(Clone, Copy)]
    struct Anchor {
        counter: u64,
        nanos: u64,
        rate: u64,
        /// In counts; none at first.
        window: u64,
    }

    thread_local! {
        static ANCHOR: Cell<Anchor> =
            const { Cell::new(Anchor { counter: 0, nanos: 0, rate: 0, window: 0 }) };
    }

    /// See the module. Any thread; reads share no memory that anybody writes.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct QuickClock {
        clock: MonotonicClock,
        /// What the process's anchors show at this clock's origin.
        shift: u64,
    }

    #[inline(always)]
    fn counter() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and the kernel allows it, because its own reading of
        // the clock in user space uses it; on a kernel that does not the counter is not trusted.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    fn kernel_trusts_the_counter() -> bool {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(path).is_ok_and(|name| name.trim() == "tsc")
    }

    impl QuickClock {
        pub(crate) fn new(clock: MonotonicClock) -> Self {
            let start = START.get_or_init(|| {
                let trusted = kernel_trusts_the_counter();
                trusted.then(|| Start { clock, counter: counter(), nanos: clock.now().as_nanos() })
            });
            let shift = start.map_or(0, |start| between(&start.clock, &clock));
            Self { clock, shift }
        }

        #[inline]
        pub(crate) fn now(&self) -> Time {
            let Anchor { counter: from, nanos, rate, window } = ANCHOR.get();
            // A counter that has gone back looks as if it were far ahead.
            let counts = counter().wrapping_sub(from);
            if counts < window {
                let nanos = nanos + SLACK_NS + ((counts * rate) >> 32);
                return Time::from_nanos(nanos.wrapping_sub(self.shift));
            }
            self.read()
        }

        /// Reads the real clock, and makes that reading the thread's anchor if it is one.
        #[cold]
        #[inline(never)]
        fn read(&self) -> Time {
            let before = counter();
            let now = self.clock.now();
            let reading = counter().wrapping_sub(before);
            let Some(start) = START.get().copied().flatten() else { return now };
            if reading < LONGEST_READING {
                // The clock was read after `before`, so that what is counted from there is never behind.
                let nanos = now.as_nanos().wrapping_add(self.shift);
                let rate = start.rate(before, nanos);
                distrust_if_behind(ANCHOR.get(), before, nanos);
                let window =
                    if matches!(rate, UNKNOWN | BROKEN) { 0 } else { (WINDOW_NS << 32) / rate };
                ANCHOR.set(Anchor { counter: before, nanos, rate, window });
            }
            now
        }
    }

    impl Start {
        /// The rate, which is measured here if it is unknown and enough time has passed.
        fn rate(&self, counter: u64, nanos: u64) -> u64 {
            // ORDERING: Relaxed, here and below: one word that stands for itself.
            let rate = RATE.load(Ordering::Relaxed);
            let passed = nanos.saturating_sub(self.nanos);
            if rate != UNKNOWN || passed < BASE_NS {
                return rate;
            }
            let counts = u128::from(counter.wrapping_sub(self.counter)).max(1);
            let exact = (u128::from(passed) << 32) / counts;
            let rate = u64::try_from(exact + exact / u128::from(MARGIN) + 1).unwrap_or(BROKEN);
            // A counter of less than 100 MHz or more than 100 GHz is not what it seems.
            let rate = if (1 << 32) / 100 < rate && rate < 10 << 32 { rate } else { BROKEN };
            // ORDERING: Relaxed: as above; every thread's measurement is as good as any.
            match RATE.compare_exchange(UNKNOWN, rate, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => rate,
                Err(other) => other,
            }
        }
    }

    /// Stops trusting the counter for good, if what it gives from this anchor lies behind a reading of the clock.
    fn distrust_if_behind(anchor: Anchor, counter: u64, nanos: u64) {
        /// By how much readings of a good counter may seem to be behind: as long as a reading takes.
        const TOLERANCE_NS: u64 = 10_000;
        let counts = counter.wrapping_sub(anchor.counter);
        // Not over long times: the product must fit.
        if anchor.window > 0 && counts < anchor.window * 1000 {
            let computed = anchor.nanos + ((counts * anchor.rate) >> 32);
            if computed + TOLERANCE_NS < nanos {
                log::warn!(
                    "the processor's counter is not steady; every schedule reads the clock from now on"
                );
                // ORDERING: Relaxed: anchors that are in use expire within 50 us.
                RATE.store(BROKEN, Ordering::Relaxed);
            }
        }
    }

    /// From one clock's origin to the other's, in nanoseconds that wrap if it is earlier.
    fn between(from: &MonotonicClock, to: &MonotonicClock) -> u64 {
        let (Some(from), Some(to)) = (from.instant_of(Time::ZERO), to.instant_of(Time::ZERO))
        else {
            return 0;
        };
        let later = saturating_ns(to.saturating_duration_since(from));
        later.wrapping_sub(saturating_ns(from.saturating_duration_since(to)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::time::{Duration, Instant};

        fn never_behind_nor_far_ahead(
            clock: MonotonicClock,
            quick: QuickClock,
            rounds: u32,
        ) -> u32 {
            let mut computed = 0;
            for _ in 0..rounds {
                let before = clock.now();
                let read = quick.now();
                let after = clock.now();
                assert!(read >= before, "{read:?} is behind {before:?}");
                assert!(read <= after + Duration::from_micros(1), "{read:?} is ahead of {after:?}");
                computed += u32::from(ANCHOR.get().window > 0);
            }
            computed
        }

        #[test]
        fn it_is_never_behind_the_clock_and_hardly_ahead() {
            let early = MonotonicClock::new();
            std::thread::sleep(Duration::from_millis(1));
            let late = MonotonicClock::new();
            // Whichever comes first, their origins differ.
            let clocks = [(late, QuickClock::new(late)), (early, QuickClock::new(early))];
            let until = Instant::now() + Duration::from_millis(100);
            let mut computed = 0;
            while Instant::now() < until {
                for (clock, quick) in clocks {
                    computed += never_behind_nor_far_ahead(clock, quick, 1000);
                }
            }
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    std::thread::spawn(move || {
                        for (clock, quick) in clocks {
                            never_behind_nor_far_ahead(clock, quick, 100_000);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(computed > 0 || !kernel_trusts_the_counter(), "nothing was computed");
        }

        #[test]
        fn a_sleep_is_seen_in_full() {
            let clock = MonotonicClock::new();
            let quick = QuickClock::new(clock);
            for _ in 0..20 {
                let before = quick.now();
                std::thread::sleep(Duration::from_millis(2));
                assert!(quick.now() - before >= Duration::from_micros(1990));
            }
        }
    }
}
