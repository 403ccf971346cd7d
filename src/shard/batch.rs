//! Many timers at once: armed one after the other, announced to the owner together.

use super::producer::Producer;
use crate::node::table::Armed;
use crate::time::TickRate;
use crate::types::{BatchError, Key, ScheduleErrorKind};

impl<T> Producer<'_, T> {
    /// Arms a timer for each tick and payload. Like [`schedule`](Self::schedule) once per timer, but for the fence, the
    /// check whether the shard is closed, and the decision to wake its owner, which come once, after the last.
    ///
    /// Nothing of the user's runs here. A thread that stops half-way delays the timers of its own batch. There is
    /// memory for the keys before the first timer is armed; what is refused comes back in the memory that it came in.
    pub(crate) fn schedule_batch(
        self,
        timers: Vec<(u64, T)>,
        rate: &TickRate,
    ) -> Result<Vec<Key<T>>, BatchError<T>> {
        let mut accepted = Vec::new();
        if accepted.try_reserve_exact(timers.len()).is_err() {
            return Err(BatchError::no_memory(timers, rate));
        }
        // The next one is last, so that one that is refused goes back to where it lay.
        let mut rest = timers;
        rest.reverse();
        let (mut alarm, mut refused_by) = (u64::MAX, None);
        while let Some((tick, payload)) = rest.pop() {
            match self.arm(tick, payload, false, true) {
                Ok(armed) => {
                    alarm = alarm.min(self.publish(tick, armed.index, armed.mark));
                    accepted.push(self.shard.table.key(armed.index, armed.generation));
                }
                Err(refusal) => {
                    let (cause, payload) = refusal.into_parts();
                    rest.push((tick, payload));
                    refused_by = Some(cause);
                    break;
                }
            }
        }
        rest.reverse();
        let is_open = accepted.is_empty() || self.tell(alarm);
        match refused_by {
            _ if !is_open => self.withdraw(accepted, rest, rate),
            None => Ok(accepted),
            Some(cause) => Err(BatchError::of_ticks(cause, accepted, rest, rate)),
        }
    }

    /// Takes back, because the shard is closed, the timers of a batch that `stop` has not returned already. All of them
    /// are accepted if it has returned each.
    #[cold]
    fn withdraw(
        self,
        mut accepted: Vec<Key<T>>,
        mut rest: Vec<(u64, T)>,
        rate: &TickRate,
    ) -> Result<Vec<Key<T>>, BatchError<T>> {
        let never_armed = rest.len();
        accepted.retain(|&key| {
            let (index, generation) = (key.index(), self.shard.table.generation(key));
            // No other thread has the key, so no thread moves it.
            let tick = self.shard.table.deadline(index);
            let taken = self.take_back(
                Armed {
                    index,
                    generation,
                    mark: 0,
                },
                false,
            );
            let was_returned = taken.is_none();
            // In the place that it came out of.
            rest.extend(taken.map(|payload| (tick, payload)));
            was_returned
        });
        // In the order in which they came.
        rest.rotate_left(never_armed);
        if rest.is_empty() {
            return Ok(accepted);
        }
        Err(BatchError::of_ticks(
            ScheduleErrorKind::Stopped,
            accepted,
            rest,
            rate,
        ))
    }
}
