//! The node table: deadlines that move.
//!
//! Any thread moves a deadline; the owner learns of it when the entry that is filed comes due, or, if that would be too
//! late, by a message. Wherever a mover stops, the timer fires at its old deadline at the latest, and others may move
//! it as if the mover were not there.

use super::magazine::ThreadCache;
use super::table::Table;
use crate::state::{Arrival, Moved};

/// What a reschedule came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rescheduled {
    /// Done; the entry that is already filed finds the new deadline when it comes due.
    Later,
    /// Done; the owner must be told by an entry with this mark, because an earlier deadline than what is filed may hold.
    Earlier { mark: u32 },
    /// Done, and the timer has ended since.
    Overtaken,
    /// The timer has ended, or the key is stale.
    Gone,
}

impl<T> Table<T> {
    /// Moves a living timer's deadline.
    #[inline]
    pub(crate) fn reschedule(
        &self,
        cache: &ThreadCache,
        index: u32,
        generation: u64,
        deadline: u64,
    ) -> Rescheduled {
        let Some(node) = self.node(index) else {
            return Rescheduled::Gone;
        };
        let Some(begun) = node.state.begin_move(generation) else {
            return Rescheduled::Gone;
        };
        let periodic = begun.is_periodic();
        let Some(old) = node.deadline.exchange(deadline, !periodic) else {
            // It is being fired right now.
            if node.state.give_up_move() {
                cache.give(self.depot(), index);
            }
            return Rescheduled::Gone;
        };
        // Only its owner knows when a periodic timer is due.
        let earlier = periodic || deadline < old;
        match node.state.finish_move(begun, earlier, || node.deadline.load().is_settled()) {
            Moved::Tell { mark } => Rescheduled::Earlier { mark },
            Moved::Noted => Rescheduled::Later,
            Moved::Ended { recycle } => {
                if recycle {
                    cache.give(self.depot(), index);
                }
                Rescheduled::Overtaken
            }
        }
    }

    /// Gives a pending timer whose current mark this is a new one, so that every entry it has is dead; what a new entry
    /// needs: deadline and mark.
    pub(crate) fn renew_entry(&self, index: u32, mark: u32) -> Option<(u64, u32)> {
        let node = self.node(index)?;
        let state = node.state.renew_mark(mark)?;
        // At least as new as the last completed move, which the exchange acquired. A move that makes it earlier from now
        // on sends a message of its own; one that makes it later finds this entry.
        Some((node.deadline.load().tick(), state.mark()))
    }

    /// Owner: what to file for an entry that has just arrived with `mark` for `tick`, if anything: tick and mark.
    #[inline]
    pub(crate) fn arrive(&self, index: u32, mark: u32, tick: u64) -> Option<(u64, u32)> {
        let node = self.node(index)?;
        match node.state.arrive(mark) {
            Arrival::Current => Some((tick, mark)),
            Arrival::Pulled { mark } => Some((node.deadline.load().tick(), mark)),
            Arrival::Dead => None,
        }
    }
}
