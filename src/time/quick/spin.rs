//! `SpinClock`: the machine's clock for loops that ask for the time in every round and never sleep.

use super::anchor::Anchor;
use super::{CALIBRATION, QuickClock};
use crate::time::{MonotonicClock, Time};
use std::cell::Cell;

/// The machine's clock for a loop that spins: each reading is a real one, at most 4 microseconds old.
///
/// A loop that polls sockets without ever sleeping spends most of an idle round on reading the clock. This one reads
/// it only every few microseconds: in between it looks at the processor's counter, which takes a third of that time,
/// and gives the last reading again. So the time stands still for a moment and then jumps. It is never ahead of
/// [`MonotonicClock`](crate::MonotonicClock), of which it is a reading, and so no timer is early, however the clock is
/// slewed and whatever the counter does; a timer may be 4 microseconds later. The time never goes back.
///
/// Its times are those of [`MonotonicClock`](crate::MonotonicClock), and so of every timer that was given no clock of
/// its own. Each loop has its own `SpinClock`; it cannot be shared.
///
/// The counter is used on Linux on x86-64, if the kernel itself keeps its time by it, and from some twenty milliseconds
/// of readings on that are no more than a second apart. Everywhere else, and before, each reading reads the clock. Where
/// a machine sleeps and its counter goes on, or begins anew, the 4 microseconds hold as well.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, SpinClock};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = SpinClock::new();
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// timer.schedule(clock.now(), Duration::from_millis(2), "retransmit")?;
/// let mut fired = 0;
/// while fired == 0 {
///     // ... receive packets, without waiting for them ...
///     fired += timer.poll(clock.now(), |due| assert_eq!(due.payload, "retransmit")).fired;
/// }
/// # Ok(()) }
/// ```
///
/// What is scheduled at such a time is due by up to 4 microseconds earlier than if the clock had been read, as with any
/// time that is read once per round.
#[derive(Debug)]
pub struct SpinClock {
    quick: QuickClock,
    anchor: Cell<Anchor>,
}

impl SpinClock {
    /// Creates the clock.
    #[must_use]
    pub fn new() -> Self {
        Self {
            quick: QuickClock::new(MonotonicClock::new()),
            anchor: Cell::new(Anchor::NONE),
        }
    }

    /// Returns the time, or that of a moment ago: at most 4 microseconds, as long as the thread is not preempted. Some
    /// 10 ns.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Time {
        if !self.quick.trusted {
            return self.quick.clock.now();
        }
        Time::from_nanos(CALIBRATION.recent(&self.anchor, &self.quick.clock))
    }
}

impl Default for SpinClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// By the counter, and as where there is none that can be trusted.
    #[test]
    fn it_is_never_ahead_of_the_clock_and_never_goes_back() {
        let clock = MonotonicClock::new();
        let mut portable = SpinClock::new();
        portable.quick.trusted = false;
        for (spin, is_portable) in [(SpinClock::new(), false), (portable, true)] {
            let until = Instant::now() + Duration::from_millis(50);
            let (mut last, mut again) = (Time::ZERO, 0);
            while Instant::now() < until {
                for _ in 0..1_000 {
                    let before = clock.now();
                    let read = spin.now();
                    assert!(read <= clock.now(), "{read:?} is ahead");
                    assert!(read >= last, "{read:?} comes after {last:?}");
                    assert!(
                        !is_portable || read >= before,
                        "the clock is read each time"
                    );
                    again += u32::from(read == last);
                    last = read;
                }
            }
            assert!(
                is_portable || again > 0 || !spin.quick.trusted,
                "the clock was read each time"
            );
        }
    }
}
