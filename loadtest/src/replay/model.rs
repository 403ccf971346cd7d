//! What must come of a workload on a clock turned by hand: a sorted map and the rounding rule.

use std::collections::{BTreeSet, HashMap};

/// A tick that never comes: where a deadline beyond the range of time ends up.
const NEVER: u64 = u64::MAX;

/// The naive engine.
pub(super) struct Model {
    tick_ns: u64,
    now_ns: u64,
    max_pending: usize,
    /// Due tick and id of every pending timer.
    pending: BTreeSet<(u64, u64)>,
    /// Due tick of every pending timer, by id.
    due: HashMap<u64, u64>,
}

impl Model {
    /// A model whose clock stands at 0.
    pub(super) fn new(tick_ns: u64, max_pending: usize) -> Self {
        let (now_ns, pending, due) = Default::default();
        Self {
            tick_ns,
            now_ns,
            max_pending,
            pending,
            due,
        }
    }

    /// Schedules; `false` if too many are pending.
    pub(super) fn schedule(&mut self, id: u64, delay_ns: u64) -> bool {
        if self.pending.len() >= self.max_pending {
            return false;
        }
        self.insert(id, delay_ns)
    }

    fn insert(&mut self, id: u64, delay_ns: u64) -> bool {
        let due = self.due_tick(delay_ns);
        self.due.insert(id, due);
        self.pending.insert((due, id))
    }

    /// Cancels; whether the timer was pending.
    pub(super) fn cancel(&mut self, id: u64) -> bool {
        let due = self.due.remove(&id);
        due.is_some_and(|due| self.pending.remove(&(due, id)))
    }

    /// Moves; whether the timer was pending.
    pub(super) fn reschedule(&mut self, id: u64, delay_ns: u64) -> bool {
        self.cancel(id) && self.insert(id, delay_ns)
    }

    /// The next moment, not after `until_ns`, at which something fires: the start of its tick, or now
    /// if it is due already.
    pub(super) fn next_firing(&self, until_ns: u64) -> Option<u64> {
        let &(due, _) = self.pending.first()?;
        if due == NEVER {
            return None;
        }
        // A tick that starts beyond the range of the clock never comes either.
        let at_ns = due.checked_mul(self.tick_ns)?.max(self.now_ns);
        (at_ns <= until_ns).then_some(at_ns)
    }

    /// Turns the clock to `to_ns`; which timers fire.
    pub(super) fn advance(&mut self, to_ns: u64) -> Vec<u64> {
        self.now_ns = self.now_ns.max(to_ns);
        let current = (self.now_ns / self.tick_ns).min(NEVER - 1);
        let later = self.pending.split_off(&(current + 1, 0));
        let fired = std::mem::replace(&mut self.pending, later)
            .into_iter()
            .map(|(_, id)| id);
        fired.inspect(|id| _ = self.due.remove(id)).collect()
    }

    /// Timers that `stop` would return.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Rounded up, so never early; what is due already belongs to the current tick.
    fn due_tick(&self, delay_ns: u64) -> u64 {
        if delay_ns == 0 {
            return self.now_ns / self.tick_ns;
        }
        match self.now_ns.checked_add(delay_ns) {
            Some(u64::MAX) | None => NEVER,
            Some(deadline_ns) => deadline_ns.div_ceil(self.tick_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What recordings do not hold: the ends of time, and the limit.
    #[test]
    fn ends_of_time_are_never_reached_and_the_limit_holds() {
        let mut model = Model::new(1000, 4);
        for (id, delay_ns) in [1, 1000, u64::MAX, u64::MAX - 1].into_iter().enumerate() {
            assert!(model.schedule(id as u64, delay_ns));
        }
        assert!(!model.schedule(9, 10), "the limit is four");
        assert_eq!(
            (model.next_firing(999), model.next_firing(u64::MAX)),
            (None, Some(1000))
        );
        assert_eq!(model.advance(1000), [0, 1]);
        assert_eq!(model.next_firing(u64::MAX), None);
        assert!(model.advance(u64::MAX).is_empty());
        assert_eq!(model.pending(), 2);
    }
}
