//! The clock that an engine or an event loop was given; the usual one is called without a table.
//!
//! Any thread; lock-free.

use super::{Clock, MonotonicClock, QuickClock, TickRate, Time, When};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// See the module.
pub(crate) enum TimeSource {
    Monotonic {
        clock: MonotonicClock,
        quick: QuickClock,
    },
    Custom {
        clock: Box<dyn Clock>,
        /// The latest reading, in nanoseconds: a clock that goes back stands still.
        latest: AtomicU64,
    },
}

impl TimeSource {
    pub(crate) fn monotonic() -> Self {
        let clock = MonotonicClock::new();
        Self::Monotonic { clock, quick: QuickClock::new(clock) }
    }

    pub(crate) fn custom(clock: impl Clock) -> Self {
        Self::Custom { clock: Box::new(clock), latest: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        match self {
            Self::Monotonic { clock, .. } => Clock::now(clock),
            Self::Custom { clock, latest } => {
                let now = clock.now().as_nanos();
                // ORDERING: Relaxed: one word's modification order is all that is asked for.
                Time::from_nanos(now.max(latest.fetch_max(now, Ordering::Relaxed)))
            }
        }
    }

    /// The time that a delay counts from: now, or a little later.
    #[inline]
    pub(crate) fn start_of_delay(&self) -> Time {
        match self {
            Self::Monotonic { quick, .. } => quick.now(),
            Self::Custom { .. } => self.now(),
        }
    }

    /// The time of `instant` on this clock: exact on the machine's own, on another one as far from its present
    /// as it is from the machine's, or later by as long as reading both takes.
    #[inline]
    pub(crate) fn time_of(&self, instant: Instant) -> Time {
        match self {
            Self::Monotonic { clock, .. } => clock.time_of(instant),
            Self::Custom { .. } => self.distant(instant),
        }
    }

    #[cold]
    fn distant(&self, instant: Instant) -> Time {
        // In this order: what passes between the two readings makes a timer later, never earlier.
        let here = Instant::now();
        let now = self.now();
        match instant.checked_duration_since(here) {
            Some(ahead) => now + ahead,
            None => now - here.saturating_duration_since(instant),
        }
    }

    /// The deadline of a timer that is set now, before it is rounded to a tick.
    pub(crate) fn time(&self, when: When) -> Time {
        when.time(|| self.start_of_delay(), |instant| self.time_of(instant))
    }

    /// As [`time`](Self::time), for a timer that is set at `now`.
    pub(crate) fn time_from(&self, now: Time, when: When) -> Time {
        when.time(|| now, |instant| self.time_of(instant))
    }

    /// The tick of a timer that is set now.
    #[inline(always)] // see `When::tick`
    pub(crate) fn tick(&self, rate: &TickRate, when: When) -> u64 {
        when.tick(rate, || self.start_of_delay(), |instant| self.time_of(instant))
    }

    /// The tick of a timer that is set at `now`.
    #[inline(always)]
    pub(crate) fn tick_from(&self, rate: &TickRate, now: Time, when: When) -> u64 {
        when.tick(rate, || now, |instant| self.time_of(instant))
    }

    pub(crate) fn is_virtual(&self) -> bool {
        match self {
            Self::Monotonic { .. } => false,
            Self::Custom { clock, .. } => clock.is_virtual(),
        }
    }

    pub(crate) fn on_advance(&self, wake: Box<dyn Fn() + Send + Sync>) {
        if let Self::Custom { clock, .. } = self {
            clock.on_advance(wake);
        }
    }
}
