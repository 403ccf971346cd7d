//! [`Scale`]: how instants lie on a clock that a test may move.

use super::Instant;
use tickwheel::Time;

/// Pairs instants with the times of one engine's clock.
///
/// Each clock that may stand has a scale of its own, because its ticks begin where it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    start: Instant,
    time_at_start: Time,
}

impl Scale {
    pub(crate) const fn new(start: Instant, time_at_start: Time) -> Self {
        Self {
            start,
            time_at_start,
        }
    }

    /// Returns the scale of the clock that the calling thread's timers use; `None` if that is the machine's.
    pub(crate) fn current() -> Option<Self> {
        let of_test = crate::test::scale();
        #[cfg(feature = "tokio")]
        return of_test.or_else(crate::tokio_rt::pausable::scale);
        #[cfg(not(feature = "tokio"))]
        of_test
    }

    /// Returns the time of an instant. It saturates at both ends of time.
    pub(crate) fn time_of(self, instant: Instant) -> Time {
        self.time_at_start + (instant - self.start) - (self.start - instant)
    }

    /// Returns the instant of a time, or one that no program lives to see.
    pub(crate) fn instant_of(self, time: Time) -> Instant {
        let later = self.start.far_add(time - self.time_at_start);
        later - (self.time_at_start - time)
    }
}
