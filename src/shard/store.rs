//! What a shard's turn asks about each entry that came due: the node decides.
//!
//! Owner only; O(1) per entry.

use super::handle::ShardHandle;
use super::thread_state::ThreadState;
use crate::drive::{Fate, Fired, TimerStore};
use crate::wheel::Entry;

/// The node table, as the owner of the shard uses it.
pub(super) struct Nodes<'a, T> {
    pub(super) handle: &'a ShardHandle<T>,
    pub(super) thread: &'a ThreadState,
}

impl<T> TimerStore for Nodes<'_, T> {
    type Fired = Fired<T>;

    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        self.handle.table.is_live(entry.index, entry.mark)
    }

    #[inline]
    fn prefetch(&self, entry: &Entry) {
        self.handle.table.prefetch(entry.index);
    }

    #[inline(always)] // as `Driver::next`, whose one step it is
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Fired<T>> {
        let Self { handle, thread } = self;
        handle.table.due(&thread.cache, entry.index, entry.mark, now, |fired| {
            if fired {
                // The permit is back before the handler runs, so that it can schedule at the limit.
                handle.release_permit();
                handle.counters.fired.bump();
            } else {
                handle.counters.panics.bump();
            }
        })
    }

    fn pending(&self) -> u64 {
        self.handle.pending()
    }
}
