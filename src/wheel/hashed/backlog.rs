//! What the hashed wheel yields out of its overdue entries, a crowded tick and its sorter, and what it sets aside.

use super::super::burst::Row;
use super::super::{Entry, Hierarchical, Wheel};
use super::stage::Stage;
use super::{Hashed, LAST_BURSTS};
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Hashed {
    /// The same with bursts of `entries` in place of [`BURST`](super::BURST): for tests.
    #[must_use]
    pub fn with_bursts_of(mut self, entries: usize) -> Self {
        self.overdue_row = Row::of_at_most(entries);
        self.tick_row = Row::of_at_most(entries);
        self.last_row = Row::of_at_most(entries.saturating_mul(LAST_BURSTS));
        self.sorter = Some(Box::new(Hierarchical::new().with_bursts_of(entries)));
        self
    }

    /// Yields up to `limit` overdue entries, sets the rest of too many aside, and says how many came.
    pub(super) fn yield_overdue(&mut self, limit: usize, due: &mut Vec<Entry>) -> usize {
        self.sweeper.disturb(self.overdue_position());
        let Self { chunks, overdue, backlog, overdue_row, hand, .. } = self;
        let mut left = limit;
        overdue_row.give(*hand, chunks, overdue, backlog, &mut left, due);
        limit - left
    }

    /// Yields entries of the tick that is being visited: first ones, or last ones once all `is_seen`.
    pub(super) fn yield_ready(
        &mut self,
        tick: u64,
        is_seen: bool,
        left: &mut usize,
        due: &mut Vec<Entry>,
    ) {
        let first_ones = self.tick_row.rest(tick);
        if first_ones > 0 {
            let taken = self.take_ready(first_ones, left, due);
            self.tick_row.note(taken);
            return;
        }
        let last_ones = self.last_row.rest(tick);
        while self.ready_len > last_ones {
            let mut oldest = self.chunks.pop_whole(&mut self.ready);
            self.ready_len -= self.chunks.chunk(oldest.head).entries().len();
            self.chunks.append(&mut self.backlog, &mut oldest);
        }
        if is_seen {
            let taken = self.take_ready(last_ones, left, due);
            self.last_row.note(taken);
        }
    }

    fn take_ready(&mut self, limit: usize, left: &mut usize, due: &mut Vec<Entry>) -> usize {
        let taken = self.chunks.take(&mut self.ready, limit.min(*left), due);
        *left -= taken;
        self.ready_len -= taken;
        taken
    }

    /// Yields from the sorter what is due up to `to`. Ends in `Idle` when that was everything. What the sorter
    /// sets aside becomes the wheel's own backlog, within the looks.
    pub(super) fn hand_out(
        &mut self,
        target: u64,
        to: u64,
        left: &mut usize,
        looks: &mut usize,
        due: &mut Vec<Entry>,
    ) -> (Stage, bool) {
        let Self { sorter: Some(sorter), chunks, backlog, .. } = self else {
            return (Stage::Idle, false);
        };
        let before = due.len();
        let more = sorter.advance(to.min(target), *left, due);
        *left -= due.len() - before;
        self.hand = self.hand.max(sorter.hand());
        while *looks > 0 {
            let Some(aside) = sorter.pop_backlog() else { break };
            aside.entries().iter().for_each(|entry| chunks.push(backlog, *entry));
            *looks = looks.saturating_sub(aside.entries().len());
        }
        let idle = sorter.is_empty() && self.hand >= target;
        (if idle { Stage::Idle } else { Stage::Sorted { target } }, more || sorter.has_backlog())
    }
}
