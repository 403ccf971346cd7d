//! Calls for futures, which know the tick of their deadline and keep it: a zero delay stays one.

use super::remote::Remote;
use super::timer::EventLoopTimer;
use crate::time::{Time, When};
use crate::types::{Key, Reschedule, ScheduleError};

impl<T: Send + 'static> EventLoopTimer<T> {
    /// The tick of a deadline that lies ahead: rounded up.
    pub(crate) fn tick_of(&self, deadline: Time) -> u64 {
        self.rate.deadline_at(deadline)
    }

    pub(crate) fn schedule_tick(
        &mut self,
        tick: u64,
        payload: T,
    ) -> Result<Key<T>, ScheduleError<T>> {
        self.owner.schedule(tick, payload)
    }

    pub(crate) fn reschedule_tick(&mut self, key: Key<T>, tick: u64) -> Reschedule {
        Reschedule::from_moved(self.owner.reschedule(key, tick))
    }
}

impl<T: Send + 'static> Remote<T> {
    /// The deadline of a timer that is set now, before it is rounded to a tick.
    pub(crate) fn time(&self, when: When) -> Time {
        self.source.time(when)
    }
}
