//! The node table: deadlines that move.
//!
//! Any thread moves a deadline; the owner learns of it when the entry that is inserted comes due, or, if that would be
//! too late, by a message. Wherever a mover stops, the timer fires at its old deadline at the latest, and other
//! threads may move it as if the mover were not there.

use super::magazine::ThreadCache;
use super::table::Table;
use crate::state::{Arrival, Moved};

/// The result of a reschedule.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rescheduled {
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
        let Some(old) = node.deadline.move_to(deadline, !begun.is_periodic()) else {
            // It is being fired right now.
            if node.state.give_up_move() {
                cache.give(self.depot(), index);
            }
            return Rescheduled::Gone;
        };
        match node.state.finish_move(begun, deadline < old) {
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

    /// Decides, as the owner, what to insert for an entry that has just arrived with `mark` for `tick`: its tick and
    /// mark.
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

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::drive::{Fate, Fired};
    use crate::node::table::Armed;

    /// Returns a table with one timer for tick 10, and the state of a move that has begun and not ended.
    fn with_a_stopped_mover(cache: &ThreadCache) -> (Table<u32>, Armed) {
        let table = Table::new(0, u64::MAX);
        let timer = table.arm(cache, 10, 7, false, || ()).unwrap();
        assert!(table.node(timer.index).unwrap().state.begin_move(timer.generation).is_some());
        (table, timer)
    }

    fn fired(fate: Fate<Fired<u32>>) -> (u32, u64) {
        match fate {
            Fate::Fire(fired) => (fired.payload, fired.deadline),
            Fate::Reinsert(tick) => panic!("to be looked at again at {tick}"),
            Fate::Drop => panic!("the entry stands for nobody"),
        }
    }

    #[test]
    fn a_mover_that_has_not_moved_anything_keeps_no_timer_waiting() {
        let cache = ThreadCache::default();
        let (table, timer) = with_a_stopped_mover(&cache);
        assert_eq!(fired(table.due(&cache, timer.index, timer.mark, 10, |_| ())), (7, 10));
        let node = table.node(timer.index).unwrap();
        assert_eq!(node.deadline.move_to(5, true), None, "who comes to move it is too late");
        assert!(node.state.give_up_move(), "the mover held the node last");
    }

    #[test]
    fn a_mover_that_has_not_told_anybody_keeps_no_timer_waiting() {
        for (to, looks) in [(5, &[10][..]), (30, &[10, 30])] {
            let cache = ThreadCache::default();
            let (table, timer) = with_a_stopped_mover(&cache);
            assert_eq!(table.node(timer.index).unwrap().deadline.move_to(to, true), Some(10));
            let (last, before) = looks.split_last().unwrap();
            for &now in before {
                let fate = table.due(&cache, timer.index, timer.mark, now, |_| ());
                assert!(
                    matches!(fate, Fate::Reinsert(tick) if tick == to),
                    "one look per deadline"
                );
            }
            let fate = table.due(&cache, timer.index, timer.mark, *last, |_| ());
            assert_eq!(fired(fate), (7, to));
        }
    }

    #[test]
    fn a_stopped_mover_keeps_no_other_mover_waiting() {
        let cache = ThreadCache::default();
        let (table, timer) = with_a_stopped_mover(&cache);
        let moved = table.reschedule(&cache, timer.index, timer.generation, 20);
        let Rescheduled::Earlier { mark } = moved else { panic!("{moved:?}") };
        // The owner is told, because the other one may have pulled the deadline in.
        let Some((20, mark)) = table.arrive(timer.index, mark, 20) else { panic!("not inserted") };
        assert!(matches!(table.due(&cache, timer.index, timer.mark, 10, |_| ()), Fate::Drop));
        assert_eq!(fired(table.due(&cache, timer.index, mark, 20, |_| ())), (7, 20));
    }
}
