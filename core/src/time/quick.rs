//! A quicker reading of the monotonic clock for those who schedule: never behind it, ahead by two microseconds at most.
//!
//! Reading the machine's clock is the dearest step of a schedule. Where the processor's counter is known to be steady,
//! a thread remembers one reading of both, its *anchor*. For the next 4 us it computes the time from the counter alone,
//! with a rate that is rounded up. `anchor` says why that is never behind, however the clock is slewed.
//!
//! Ahead is the safe side: a delay that is counted from a moment later than now gives a deadline that is later,
//! never earlier. Threads that *fire* timers read the real clock.
//!
//! The counter is trusted on Linux on x86-64, if the kernel itself keeps its time by it: then it has found that all
//! cores' counters agree and never stop. The trust ends when a thread finds that a time computed from the counter was
//! behind. Everywhere else each reading is one of the real clock. The counter of aarch64 would be as cheap, but has not
//! been measured on a real processor.

mod anchor;

use crate::time::{MonotonicClock, Time};
use anchor::{Anchor, Calibration, Source};
use std::cell::Cell;
use std::sync::OnceLock;

static CALIBRATION: Calibration = Calibration::new();

/// Whether the counter can be trusted.
static TRUSTED: OnceLock<bool> = OnceLock::new();

thread_local! {
    static ANCHOR: Cell<Anchor> = const { Cell::new(Anchor::NONE) };
}

/// See the module. Any thread; reads share no memory that is written.
#[derive(Clone, Copy, Debug)]
pub struct QuickClock {
    clock: MonotonicClock,
    trusted: bool,
}

impl Source for MonotonicClock {
    #[inline(always)]
    fn counter(&self) -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and the kernel allows it, because its own reading
        // of the clock in user space uses it; on a kernel that does not the counter is not trusted.
        #[cfg(target_arch = "x86_64")]
        return unsafe { std::arch::x86_64::_rdtsc() };
        #[cfg(not(target_arch = "x86_64"))]
        return 0;
    }

    fn nanos(&self) -> u64 {
        self.now().as_nanos()
    }
}

fn kernel_trusts_the_counter() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(all(
        target_arch = "x86_64",
        target_os = "linux",
        not(tickwheel_loom)
    )) && std::fs::read_to_string(path).is_ok_and(|name| name.trim() == "tsc")
}

impl QuickClock {
    pub(crate) fn new(clock: MonotonicClock) -> Self {
        Self {
            clock,
            trusted: *TRUSTED.get_or_init(kernel_trusts_the_counter),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        if !self.trusted {
            return self.clock.now();
        }
        Time::from_nanos(ANCHOR.with(|anchor| CALIBRATION.now(anchor, &self.clock)))
    }
}

#[cfg(test)]
mod tests {
    use super::anchor::AHEAD_NS;
    use super::*;
    use std::time::{Duration, Instant};

    fn never_behind_nor_far_ahead(clock: MonotonicClock, quick: QuickClock, rounds: u32) -> u32 {
        let mut computed = 0;
        for _ in 0..rounds {
            let before = clock.now();
            let read = quick.now();
            let after = clock.now();
            assert!(read >= before, "{read:?} is behind {before:?}");
            let most = after + Duration::from_nanos(AHEAD_NS);
            assert!(read <= most, "{read:?} is ahead of {after:?}");
            computed += u32::from(ANCHOR.get().serves());
        }
        computed
    }

    #[test]
    fn it_is_never_behind_the_clock_and_hardly_ahead() {
        let clock = MonotonicClock::new();
        let quick = QuickClock::new(clock);
        let until = Instant::now() + Duration::from_millis(100);
        let mut computed = 0;
        while Instant::now() < until {
            computed += never_behind_nor_far_ahead(clock, quick, 1000);
            // A sleep is seen in full.
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || never_behind_nor_far_ahead(clock, quick, 100_000));
            }
        });
        assert!(
            computed > 0 || !kernel_trusts_the_counter(),
            "nothing was computed"
        );
    }
}
