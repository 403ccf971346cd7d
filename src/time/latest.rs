//! The present as a loop tells it: it never goes back.

use super::{TickRate, Time};

/// The latest time that a timer was told: its present, if it reads no clock of its own.
#[derive(Clone, Copy)]
pub(crate) struct MonotonicNow(pub(crate) Time);

impl MonotonicNow {
    pub(crate) const NONE: Self = Self(Time::ZERO);

    /// Returns the present of a call that is told `now`.
    #[inline]
    pub(crate) fn present(self, now: Time) -> Time {
        self.0.max(now)
    }

    /// Returns the tick of a point in time in a call that is told `now`: rounded up, unless it has passed.
    #[inline(always)] // the usual case is a comparison
    pub(crate) fn tick_of(&mut self, rate: &TickRate, now: Time, point: Time) -> u64 {
        let present = self.present(now);
        if point > present {
            rate.deadline_at(point)
        } else {
            self.tick_of_passed(rate, point, present)
        }
    }

    #[cold]
    #[inline(never)]
    fn tick_of_passed(&mut self, rate: &TickRate, point: Time, present: Time) -> u64 {
        let tick = rate.due(point, present);
        if tick < rate.deadline_at(point) {
            // Polls know of this present, too: a time that goes back must not make the timer early.
            self.0 = present;
        }
        tick
    }
}
