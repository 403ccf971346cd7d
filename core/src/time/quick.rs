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
//! cores' counters agree and never stop. Asking costs as much as a thousand readings, so a process is some milliseconds
//! old when it asks. The trust ends when a thread finds that a time computed from the counter was
//! behind. Everywhere else each reading is one of the real clock. The counter of aarch64 would be as cheap, but has not
//! been measured on a real processor.

mod anchor;

use crate::time::{MonotonicClock, Time};
use anchor::{Anchor, Calibration, Source};
use core::sync::atomic::{AtomicU8, Ordering};
use std::cell::Cell;
use std::io::Read;

static CALIBRATION: Calibration = Calibration::new();

/// Whether the counter can be trusted: [`UNASKED`], [`TRUSTED`] or [`UNTRUSTED`].
static TRUST: AtomicU8 = AtomicU8::new(UNASKED);
const UNASKED: u8 = 0;
const TRUSTED: u8 = 1;
const UNTRUSTED: u8 = 2;

/// The time from which on the kernel is asked. Earlier the counter would not serve, because its rate is measured over
/// a longer time.
const ASKED_FROM: Time = Time::from_nanos(10_000_000);

thread_local! {
    static ANCHOR: Cell<Anchor> = const { Cell::new(Anchor::NONE) };
}

/// See the module. Any thread; reads share no memory that is written.
#[derive(Clone, Copy, Debug)]
pub struct QuickClock {
    clock: MonotonicClock,
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
    )) && std::fs::File::open(path).is_ok_and(|mut file| {
        // On the stack, because a worker calls no allocator.
        let mut name = [0; 8];
        let read = file.read(&mut name);
        read.is_ok_and(|len| name[..len].trim_ascii() == b"tsc")
    })
}

impl QuickClock {
    pub(crate) fn new(clock: MonotonicClock) -> Self {
        Self { clock }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        // ORDERING: Relaxed: one word that stands for itself.
        if TRUST.load(Ordering::Relaxed) != TRUSTED {
            return self.read_untrusted();
        }
        Time::from_nanos(ANCHOR.with(|anchor| CALIBRATION.now(anchor, &self.clock)))
    }

    /// Reads the real clock, and asks the kernel about the counter if that is to be done. Threads that find it undone
    /// together ask together, so that none waits for another.
    #[cold]
    fn read_untrusted(&self) -> Time {
        let now = self.clock.now();
        // ORDERING: Relaxed, both: as in `now`.
        if now >= ASKED_FROM && TRUST.load(Ordering::Relaxed) == UNASKED {
            let trust = if kernel_trusts_the_counter() {
                TRUSTED
            } else {
                UNTRUSTED
            };
            TRUST.store(trust, Ordering::Relaxed);
        }
        now
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
