//! Many timers at once: armed one after the other, announced to the owner together.

use super::handle::ShardHandle;
use super::thread_state::ThreadState;
use crate::node::table::Armed;
use crate::types::{Key, ScheduleErrorKind};
use std::vec::IntoIter;

/// Why a batch was not accepted as a whole.
pub(crate) struct PartlyRefused<T> {
    pub(crate) cause: ScheduleErrorKind,
    /// Timers that were accepted, in the order in which they came.
    pub(crate) accepted: Vec<Key<T>>,
    /// Ticks and payloads of all others, in the same order.
    pub(crate) refused: Vec<(u64, T)>,
}

impl<T> ShardHandle<T> {
    /// Arms a timer for each tick and payload. As [`ShardHandle::schedule`] once per timer, but for the fence, the look
    /// at whether the shard is closed, and the decision to wake its owner, which come once, after the last.
    ///
    /// Nothing of the user's runs here. A thread that stops half-way delays the timers of its own batch.
    pub(crate) fn schedule_batch(
        &self,
        thread: &ThreadState,
        timers: Vec<(u64, T)>,
    ) -> Result<Vec<Key<T>>, PartlyRefused<T>> {
        let mut accepted = Vec::with_capacity(timers.len());
        let mut timers = timers.into_iter();
        let mut alarm = u64::MAX;
        let mut stopped_at = None;
        for (tick, payload) in timers.by_ref() {
            match self.arm(thread, tick, payload, false) {
                Ok(armed) => {
                    alarm = alarm.min(self.publish(thread, tick, armed.index, armed.mark));
                    accepted.push(self.key(armed.index, armed.generation));
                }
                Err(refusal) => {
                    let (cause, payload) = refusal.into_parts();
                    stopped_at = Some((cause, tick, payload));
                    break;
                }
            }
        }
        let is_open = accepted.is_empty() || self.tell(alarm);
        match stopped_at {
            None if is_open => Ok(accepted),
            None => self.withdraw(thread, accepted, timers),
            Some((cause, tick, payload)) => {
                let mut refused = vec![(tick, payload)];
                refused.extend(timers);
                if is_open {
                    return Err(PartlyRefused { cause, accepted, refused });
                }
                self.withdraw(thread, accepted, refused.into_iter())
            }
        }
    }

    /// As [`schedule_batch`](Self::schedule_batch), on the thread that holds `slot`.
    pub(crate) fn schedule_batch_by(
        &self,
        slot: u32,
        timers: Vec<(u64, T)>,
    ) -> Result<Vec<Key<T>>, PartlyRefused<T>> {
        match self.try_thread(slot) {
            Some(thread) => self.schedule_batch(thread, timers),
            None => {
                let cause = ScheduleErrorKind::OutOfMemory;
                Err(PartlyRefused { cause, accepted: Vec::new(), refused: timers })
            }
        }
    }

    /// The shard is closed: takes the timers of a batch back that `stop` has not returned already. All of them are
    /// accepted if it has returned each.
    #[cold]
    fn withdraw(
        &self,
        thread: &ThreadState,
        armed: Vec<Key<T>>,
        rest: IntoIter<(u64, T)>,
    ) -> Result<Vec<Key<T>>, PartlyRefused<T>> {
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        for key in armed {
            let (index, generation) = (key.index(), self.table.generation(key));
            // Nobody else has the key, so nobody moves it.
            let tick = self.table.deadline(index);
            match self.take_back(thread, Armed { index, generation, mark: 0 }, false) {
                Some(payload) => refused.push((tick, payload)),
                None => accepted.push(key),
            }
        }
        refused.extend(rest);
        if refused.is_empty() {
            return Ok(accepted);
        }
        Err(PartlyRefused { cause: ScheduleErrorKind::Stopped, accepted, refused })
    }
}
