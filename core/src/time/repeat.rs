//! The payload and the recurrence of a periodic timer: the part that all timers share.

use super::{Deadline, Period, TickRate, Time};
use core::mem;

/// The parts of a periodic timer when it is scheduled.
pub struct Repeat<T> {
    pub payload: T,
    /// `T::clone`, kept here so that only those who schedule periodic timers need a `T: Clone`.
    pub clone: fn(&T) -> T,
    pub recurrence: Recurrence,
}

/// How a periodic timer goes from one deadline to the next.
#[derive(Clone, Copy)]
pub struct Recurrence {
    period: Period,
    /// The next ones are counted from it before it is rounded to a tick, so that nothing drifts.
    coming: Deadline,
    rate: TickRate,
    /// The coming deadline is to be counted anew from the end of the call, unless it is moved.
    pub rests: bool,
}

impl Recurrence {
    pub const fn new(first: Deadline, period: Period, rate: TickRate) -> Self {
        Self {
            period,
            coming: first,
            rate,
            rests: false,
        }
    }

    /// Returns the tick of the coming deadline.
    pub const fn tick(&self) -> u64 {
        self.coming.tick
    }

    /// Goes on from a deadline that is handled at `now`.
    pub fn advance(&mut self, now: Time) {
        self.go_on_to(self.period.next(self.coming.nominal, now));
        self.rests = self.period.is_fixed_delay();
    }

    fn go_on_to(&mut self, nominal: Time) {
        self.coming = Deadline {
            nominal,
            tick: self.rate.deadline_at(nominal),
        };
    }

    /// Moves the coming deadline; the later ones are counted from it.
    pub(crate) const fn move_to(&mut self, deadline: Deadline) {
        self.coming = deadline;
        self.rests = false;
    }

    /// Like [`move_to`](Self::move_to), where only the tick is known.
    pub const fn move_to_tick(&mut self, tick: u64) {
        self.move_to(Deadline {
            nominal: self.rate.start_of(tick),
            tick,
        });
    }

    /// Counts a fixed delay from `ended`, the end of the call; false if that changes nothing, or the handler has moved
    /// the coming deadline.
    pub fn rest(&mut self, ended: Time) -> bool {
        let next = self.period.next(self.coming.nominal, ended);
        let counts = mem::take(&mut self.rests) && next > self.coming.nominal;
        if counts {
            self.go_on_to(next);
        }
        counts
    }
}
