//! What any thread may do with a shard's periodic timers; their book is in `periodic`.

use super::handle::{Refusal, ShardHandle};
use super::periodic::{PeriodicKey, Plan};
use super::store::drop_payload;
use super::thread_state::ThreadState;
use crate::state::Phase;

impl<T> ShardHandle<T> {
    /// Begins a periodic timer. Takes a lock that only periodic timers use.
    pub(crate) fn schedule_periodic(
        &self,
        thread: &ThreadState,
        plan: Plan<T>,
    ) -> Result<PeriodicKey, Refusal<T>> {
        let plan = self.acquire_permit_for(plan)?;
        let (id, first) = self.periodics.begin(plan).map_err(|plan| self.give_up(plan.payload))?;
        let armed = match self.table.arm_periodic(&thread.cache, first.tick, first.payload) {
            Ok(armed) => armed,
            Err(payload) => {
                self.release_permit();
                drop_payload(self.periodics.forget(id));
                return Err(Refusal::Full(payload));
            }
        };
        let node = self.key(armed.index, armed.generation);
        thread.scheduled.bump();
        self.periodics.armed(id, node);
        if !self.send(first.tick, armed.index, armed.mark) {
            // Nobody else knows the number yet, so what is kept is ours to drop.
            let period =
                self.table.end(&thread.cache, armed.index, armed.generation, Phase::Cancelled);
            self.periodics.unlink(node, id);
            drop_payload(self.periodics.forget(id));
            if let Some(payload) = period {
                thread.scheduled.undo();
                self.release_permit();
                return Err(Refusal::Closed(payload));
            }
            // `stop` has found the period and returned it: the timer was accepted after all.
        }
        Ok(PeriodicKey { id, shard: self.id })
    }

    fn acquire_permit_for(&self, plan: Plan<T>) -> Result<Plan<T>, Refusal<T>> {
        let Plan { payload, again, period, nominal, rate } = plan;
        let payload = self.acquire_permit(payload)?;
        Ok(Plan { payload, again, period, nominal, rate })
    }

    /// A periodic timer whose payload cannot be copied.
    fn give_up(&self, payload: T) -> Refusal<T> {
        self.release_permit();
        Refusal::NotCopied(payload)
    }

    /// Ends a periodic timer: no handler call begins after this returns. The kept payload, if it was active.
    pub(crate) fn cancel_periodic(&self, thread: &ThreadState, key: PeriodicKey) -> Option<T> {
        let cancelled = self.periodics.cancel(key.id)?;
        self.release_permit();
        if let Some(node) = cancelled.node {
            let (index, generation) = (node.index(), node.generation());
            if self.table.end(&thread.cache, index, generation, Phase::Cancelled).is_some() {
                thread.cancelled.bump();
                self.periodics.unlink(node, key.id);
            }
            // Otherwise the owner has won the node: it looks the period up, and finds that its timer is gone.
        }
        Some(cancelled.payload)
    }

    /// Whether a periodic timer goes on.
    pub(crate) fn is_active(&self, key: PeriodicKey) -> bool {
        self.periodics.is_active(key.id)
    }
}
