//! Computing the time from a counter, with every error on the late side. Pure: clock and counter are arguments.
//!
//! Four things could make a computed time lie behind the clock, and each has its answer:
//!
//! * *The clock runs faster than the rate says.* Time servers slew it by up to 10 % and the kernel by 11 % at most, in
//!   either direction, also while the rate was measured: 1.11 / 0.89 = 1.25. The rate is rounded up by a
//!   third ([`MARGIN`]), and an anchor serves for 4 us only, so that this puts a time ahead by 1 us at most.
//! * *A reading of the clock belongs to another moment than the counter beside it*, because the thread was preempted
//!   between the two. The counter is read before and after, and a pair that took too long is no anchor and measures
//!   nothing: neither the first one nor any other. What is left of the error is ordered: an anchor counts from the
//!   reading *before* the clock's, and the rate is measured from the reading *after* the first anchor's clock to the
//!   one *before* the second's.
//! * *The clock stands while a machine sleeps, and the counter may go on.* A rate that was measured over such a sleep
//!   is too small. So a thread measures over a second at most, and twice in a row; only two rates that differ by no
//!   more than slewing explains become the process's rate, and the larger one does. A sleep within a measurement, the
//!   thread's or the machine's, makes the two differ. What is measured over a longer time begins anew.
//! * *The processor reads its counter early*, because nothing orders it behind the instructions before it: by the
//!   length of its window of instructions, a few hundred of them with a few misses of the cache ([`SLACK_NS`]).

use core::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;

/// How far a computed time goes beyond its anchor.
const WINDOW_NS: u64 = 4_000;
/// The rate is rounded up by this part of it.
const MARGIN: u64 = 3;
/// Added to every computed time.
const SLACK_NS: u64 = 500;
/// A rate is measured over at least this time, and at most over that one.
const BASE_NS: u64 = 10_000_000;
const LONGEST_BASE_NS: u64 = 1_000_000_000;
/// Two measurements differ by this part of the smaller one at most: 1.11 / 0.89, as above.
const DIFFERENCE: u64 = 4;
/// A reading of clock and counter that took more counts than this was interrupted.
const LONGEST_READING: u64 = 1_500;
/// By how much a computed time may seem to be behind a reading, which takes some time itself.
const TOLERANCE_NS: u64 = 2_000;

/// How far ahead of the clock a computed time may be, however much the clock is slewed.
#[cfg(test)]
pub(super) const AHEAD_NS: u64 = SLACK_NS + WINDOW_NS * 2 / 5 + 100;

/// Where time comes from.
pub(super) trait Source {
    /// Returns the processor's counter.
    fn counter(&self) -> u64;
    /// Returns the clock, in nanoseconds.
    fn nanos(&self) -> u64;
}

/// One reading of both, from which a thread computes the time for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    counter: u64,
    nanos: u64,
    /// Nanoseconds per count, with 32 binary digits after the point.
    rate: u64,
    /// In counts; none at first.
    window: u64,
    /// The thread's measurement of the rate, until the process has one.
    measured: Option<Measurement>,
}

/// A measurement of the rate under way.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    /// Counter and clock at its beginning.
    counter: u64,
    nanos: u64,
    /// The rate as measured over the time before; `UNKNOWN` at first.
    before: u64,
}

impl Anchor {
    pub(super) const NONE: Self = Self {
        counter: 0,
        nanos: 0,
        rate: UNKNOWN,
        window: 0,
        measured: None,
    };

    #[cfg(test)]
    pub(super) fn serves(&self) -> bool {
        self.window > 0
    }
}

/// The rate, which the threads of a process share.
pub(super) struct Calibration {
    /// As in an anchor, rounded up; or `UNKNOWN`, or `BROKEN`.
    rate: AtomicU64,
}

const UNKNOWN: u64 = 0;
const BROKEN: u64 = u64::MAX;

impl Calibration {
    pub(super) const fn new() -> Self {
        Self {
            rate: AtomicU64::new(UNKNOWN),
        }
    }

    /// Returns the time: not before that of the call, and ahead by little.
    #[inline(always)]
    pub(super) fn now(&self, anchor: &Cell<Anchor>, source: &impl Source) -> u64 {
        let Anchor {
            counter: from,
            nanos,
            rate,
            window,
            ..
        } = anchor.get();
        // A counter that has gone back looks as if it were far ahead.
        let counts = source.counter().wrapping_sub(from);
        if counts < window {
            return nanos + SLACK_NS + ((counts * rate) >> 32);
        }
        self.read(anchor, source)
    }

    /// Reads the clock, and makes that reading the thread's anchor if it is a good one.
    #[cold]
    #[inline(never)]
    fn read(&self, anchor: &Cell<Anchor>, source: &impl Source) -> u64 {
        let before = source.counter();
        let nanos = source.nanos();
        let after = source.counter();
        if after.wrapping_sub(before) >= LONGEST_READING {
            return nanos;
        }
        let last = anchor.get();
        self.distrust_if_behind(last, before, nanos);
        // ORDERING: Relaxed, here and below: one word that stands for itself.
        let mut rate = self.rate.load(Ordering::Relaxed);
        let mut measured = None;
        if rate == UNKNOWN {
            let next = Measurement {
                counter: after,
                nanos,
                before: UNKNOWN,
            };
            (rate, measured) = self.measure(last.measured, before, next);
        }
        let window = if matches!(rate, UNKNOWN | BROKEN) {
            0
        } else {
            (WINDOW_NS << 32) / rate
        };
        anchor.set(Anchor {
            counter: before,
            nanos,
            rate,
            window,
            measured,
        });
        nanos
    }

    /// Measures from the beginning of `under_way` to a reading with the counter `before` it, from which on `next` would
    /// measure. Returns the rate, if it is known now, and what is measured from now on.
    fn measure(
        &self,
        under_way: Option<Measurement>,
        before: u64,
        next: Measurement,
    ) -> (u64, Option<Measurement>) {
        let Some(start) = under_way else {
            return (UNKNOWN, Some(next));
        };
        let passed = next.nanos.saturating_sub(start.nanos);
        if passed < BASE_NS {
            return (UNKNOWN, under_way);
        }
        let counts = before.wrapping_sub(start.counter);
        let Some(measured) = rate_of(counts, passed).filter(|_| passed <= LONGEST_BASE_NS) else {
            return (UNKNOWN, Some(next));
        };
        let (low, high) = (measured.min(start.before), measured.max(start.before));
        if start.before == UNKNOWN || high - low > low / DIFFERENCE {
            let before = measured;
            return (UNKNOWN, Some(Measurement { before, ..next }));
        }
        let rate = high + high / MARGIN;
        // ORDERING: Relaxed: as above; every thread's measurement is as good as any.
        let known = self
            .rate
            .compare_exchange(UNKNOWN, rate, Ordering::Relaxed, Ordering::Relaxed);
        (known.map_or_else(|other| other, |_| rate), None)
    }

    /// Stops trusting the counter for good, if what it gives from this anchor lies behind a reading of the clock,
    /// however long ago the anchor was set.
    fn distrust_if_behind(&self, anchor: Anchor, counter: u64, nanos: u64) {
        // An anchor that does not serve gives nothing.
        if anchor.window == 0 {
            return;
        }
        let counts = counter.wrapping_sub(anchor.counter);
        let passed = (u128::from(counts) * u128::from(anchor.rate)) >> 32;
        let computed = u128::from(anchor.nanos) + passed;
        if computed + u128::from(TOLERANCE_NS) < u128::from(nanos) {
            crate::contain::warn(format_args!(
                "the processor's counter is not steady; every schedule reads the clock from now on"
            ));
            // ORDERING: Relaxed: anchors that are in use expire within microseconds.
            self.rate.store(BROKEN, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(super) fn is_broken(&self) -> bool {
        // ORDERING: Relaxed: one word that stands for itself.
        self.rate.load(Ordering::Relaxed) == BROKEN
    }
}

/// Returns the rate of so many counts in so many nanoseconds, if a steady counter can have it: one of 100 MHz or more,
/// and of 100 GHz or less.
fn rate_of(counts: u64, passed: u64) -> Option<u64> {
    let exact = (u128::from(passed) << 32) / u128::from(counts).max(1);
    let rate = u64::try_from(exact).ok()?;
    ((1 << 32) / 100 < rate && rate < 10 << 32).then_some(rate)
}

#[cfg(test)]
mod tests;
