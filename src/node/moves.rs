//! The node table: a timer's deadline moves.
//!
//! Any thread moves a deadline; that of a future's timer, only the thread that has the future. The owner learns of it when
//! the entry that is inserted comes due, or, if that would be too late, by a message. Wherever a mover stops, the timer
//! fires at its old deadline at the latest, and other threads may move it as if the mover were not there.

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

/// A move by the only thread that moves the timer.
#[cfg(any(feature = "futures", test))]
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MoveAlone {
    /// The tick by which the owner looks at the timer next, if it is told nothing.
    pub(crate) look: u64,
    /// The mark of the message by which the owner must be told.
    pub(crate) tell: Option<u32>,
}

impl<T> Table<T> {
    /// Moves the deadline of a timer whose node the caller holds, and which no other thread moves; `None` if it has ended.
    ///
    /// `look` is the tick by which the owner looks at the timer: what the last move returned, or that of the message that
    /// was sent for it. The owner is told only of a deadline before that: a timer that is pushed out and pulled in again
    /// still has the entry at its first deadline. `MOVED` says whether that holds: who looks clears it. Then the owner has
    /// read the deadline before this move, so it looks again by that.
    #[cfg(any(feature = "futures", test))]
    #[inline]
    pub(crate) fn move_alone(&self, index: u32, deadline: u64, look: u64) -> Option<MoveAlone> {
        let node = self.nodes.get(index)?;
        let (mut seen, looked) = node.state.begin_move_alone()?;
        let before = node.deadline.load().tick();
        node.deadline.set(deadline);
        let mut look = if looked { before } else { look };
        loop {
            let is_told = deadline < look;
            match node.state.finish_move_alone(seen, is_told) {
                Ok(moved) => {
                    let tell = is_told.then(|| moved.mark());
                    return Some(MoveAlone { look, tell });
                }
                Err(now) if !now.is_live() => return None,
                Err(now) => {
                    // Of the two deadlines the owner has read one.
                    look = before.max(deadline);
                    seen = now;
                }
            }
        }
    }

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
        let mut mark = mark;
        loop {
            let seen = node.state.arrive(mark)?;
            let tick = node.deadline.load().tick();
            if node.state.is_still(seen) {
                return Some((tick, seen.mark()));
            }
            mark = seen.mark();
        }
    }
}
