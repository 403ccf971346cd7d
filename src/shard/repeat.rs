//! Periodic timers of a shard: how they begin, on any thread, and their calls, on the owner's.
//!
//! Everything else is as with other timers: one key, one `cancel`, one `reschedule`. A call counts as one timer
//! fired, and the next one as one scheduled; the permit under `max_pending` is kept from schedule to end.

use super::handle::ShardHandle;
use super::owner::Owner;
use super::thread_state::{Counter, ThreadState};
use crate::contain;
use crate::drive::{Fired, TurnState};
use crate::node::periodic::Call;
use crate::node::table::Armed;
use crate::time::{Repeat, Time};
use crate::types::{Key, ScheduleError, ScheduleErrorKind};
use crate::wheel::Entry;

impl<T> ShardHandle<T> {
    /// Begins a periodic timer on the thread that holds `slot`. Lock-free; allocates once.
    pub(crate) fn schedule_periodic(
        &self,
        slot: u32,
        repeat: Repeat<T>,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let Some(thread) = self.try_thread(slot) else {
            return Err(ScheduleError::no_memory(repeat.payload));
        };
        let tick = repeat.course.tick();
        let armed = self.arm_periodic(thread, &thread.scheduled, repeat, true)?;
        if !self.send(thread, tick, armed.index, armed.mark) {
            if let Some(payload) = self.take_back(thread, armed, false) {
                return Err(ScheduleError::new(ScheduleErrorKind::Stopped, payload));
            }
            // `stop` has found the timer and returned it: it was accepted after all.
        }
        Ok(self.key(armed.index, armed.generation))
    }

    /// `send`: a message is to follow, for which there must be a slot.
    fn arm_periodic(
        &self,
        thread: &ThreadState,
        scheduled: &Counter,
        repeat: Repeat<T>,
        send: bool,
    ) -> Result<Armed, ScheduleError<T>> {
        let Repeat { payload, clone, course } = repeat;
        if let Err(kind) = self.acquire_permit() {
            return Err(ScheduleError::new(kind, payload));
        }
        let Some(template) = contain::quietly("a payload's Clone", || clone(&payload)) else {
            self.release_permit();
            return Err(ScheduleError::new(ScheduleErrorKind::PayloadClonePanicked, payload));
        };
        // After the last that is the user's: a Clone may schedule timers, too.
        if let Err(kind) = if send { self.prepare(thread) } else { Ok(()) } {
            contain::drop_payload(template);
            return Err(ScheduleError::new(kind, payload));
        }
        let repeat = Repeat { payload, clone, course };
        let count = || {
            scheduled.bump();
        };
        self.table
            .arm_periodic(&thread.cache, repeat, template, count)
            .map_err(|payload| self.no_node(payload))
    }
}

impl<T> Owner<T> {
    /// As [`ShardHandle::schedule_periodic`], past the inbox.
    pub(crate) fn schedule_periodic(
        &mut self,
        repeat: Repeat<T>,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let deadline = repeat.course.tick();
        let Self { handle, thread, .. } = self;
        let armed = handle.arm_periodic(thread, &handle.counters.own_scheduled, repeat, false)?;
        self.file_new(armed, deadline)
    }

    /// Directly before the handler is called for a periodic timer that fired; nothing if somebody has ended it since,
    /// or moved it. Nothing of the user's may run between this and the handler. Timers that fire once need none of
    /// this.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub(crate) fn confirm(&mut self, turn: &mut TurnState, fired: Fired<T>) -> Option<Fired<T>> {
        let Self { handle, thread, calling, .. } = self;
        let index = fired.key.index();
        // The next call is counted before this one counts as over, so that the timer always counts as pending.
        match handle.table.confirm_call(&thread.cache, fired, turn.now) {
            Call::Begins(fired) => {
                handle.counters.own_scheduled.bump();
                handle.counters.fired.bump();
                return Some(fired);
            }
            Call::Moved(filed) => {
                *calling = None;
                if let Some((deadline, mark)) = filed {
                    self.file(Entry { deadline, index, mark });
                }
            }
            Call::Ended(payload) => {
                *calling = None;
                contain::drop_payload(payload);
            }
        }
        turn.fired -= 1;
        None
    }

    /// Whether a periodic timer is at a call.
    #[inline]
    pub(crate) fn is_calling(&self) -> bool {
        self.calling.is_some()
    }

    /// The handler has returned, or has panicked: sends a periodic timer on to its next deadline, counted from
    /// `now`. Does nothing after a timer that fires once, and does not ask for the time then.
    #[inline]
    pub(crate) fn finish_call(&mut self, now: impl FnOnce() -> Time) {
        if self.calling.is_some() {
            self.go_on(now());
        }
    }

    #[cold]
    #[inline(never)]
    fn go_on(&mut self, now: Time) {
        let Some(index) = self.calling.take() else { return };
        let filed = self.handle.table.finish_call(&self.thread.cache, index, now);
        if let Some((deadline, mark)) = filed {
            self.file(Entry { deadline, index, mark });
        }
    }

    /// Gives up the call that is prepared or under way, if there is one; for the end of the shard.
    pub(super) fn abandon_call(&mut self) {
        if let Some(index) = self.calling.take() {
            self.handle.table.abandon_call(&self.thread.cache, index);
        }
    }
}
