//! The node table: a timer's deadline moves.
//!
//! Any thread moves a deadline. The owner learns of it when the entry that is inserted comes due, or, if that would be
//! too late, by a message. Wherever a mover stops, the timer fires at its old deadline at the latest, and other
//! threads may move it as if the mover were not there.

use super::magazine::ThreadCache;
use super::table::Table;
use crate::state::Moved;

/// The result of a move.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Done; the entry that is already inserted finds the new deadline when it comes due.
    Later,
    /// Done; the owner must be told by an entry with this mark, because an earlier deadline than what is inserted may
    /// hold.
    Earlier { mark: u32 },
    /// Done, and the timer has ended since.
    Overtaken,
    /// The timer has ended, or the key is stale.
    Gone,
}

impl<T> Table<T> {
    /// Moves a living timer's deadline.
    #[inline]
    pub(crate) fn move_to(
        &self,
        cache: &ThreadCache,
        index: u32,
        generation: u64,
        deadline: u64,
    ) -> Move {
        let Some(node) = self.nodes.get(index) else {
            return Move::Gone;
        };
        let Some(begun) = node.state.begin_move(generation) else {
            return Move::Gone;
        };
        let Some(old) = node.deadline.move_to(deadline, !begun.is_periodic()) else {
            // It is being fired right now.
            if node.state.give_up_move() {
                cache.give(&self.depot, index);
            }
            return Move::Gone;
        };
        match node.state.finish_move(begun, deadline < old) {
            Moved::Tell { mark } => Move::Earlier { mark },
            Moved::Noted => Move::Later,
            Moved::Ended { recycle } => {
                if recycle {
                    cache.give(&self.depot, index);
                }
                Move::Overtaken
            }
        }
    }

    /// Decides, as the owner, what to insert for an entry that has just arrived with `mark`: the timer's deadline, and a
    /// mark.
    ///
    /// The deadline may be another one already than when the message was sent: a later one, or that of a move whose
    /// message is under way, or of the node's next timer; then the entry is dead.
    #[inline]
    pub(crate) fn arrive(&self, index: u32, mark: u32) -> Option<(u64, u32)> {
        let node = self.nodes.get(index)?;
        let mark = node.state.arrive(mark)?;
        Some((node.deadline.load().tick(), mark))
    }
}
