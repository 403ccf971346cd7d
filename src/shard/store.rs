//! What a shard's turn asks about each entry that came due: the node decides.
//!
//! Owner only; O(1) per entry, but for periodic timers, whose book is looked up.

use super::Expiry;
use super::handle::ShardHandle;
use super::thread_state::ThreadState;
use crate::drive::{Fate, TimerStore};
use crate::node::table::Fired;
use crate::wheel::Entry;

/// The node table, as the owner of the shard uses it.
pub(super) struct Nodes<'a, T> {
    pub(super) handle: &'a ShardHandle<T>,
    pub(super) thread: &'a ThreadState,
    pub(super) running: &'a mut Option<u64>,
}

impl<T> Nodes<'_, T> {
    /// A timer has fired: what the handler is to see, or nothing if it was a period of a periodic timer
    /// that somebody cancelled a moment ago.
    #[inline]
    fn expiry(&mut self, entry: Entry, fired: Fired<T>) -> Option<Expiry<T>> {
        let Fired { payload, generation, deadline, periodic } = fired;
        let counters = &self.handle.counters;
        let key = self.handle.key(entry.index, generation);
        if periodic {
            *self.running = self.handle.periodics.fired(key, deadline);
            if self.running.is_none() {
                counters.own_cancelled.bump();
                drop_quietly(payload);
                return None;
            }
        } else {
            // The place is free before the handler runs, so that it can schedule at the limit.
            self.handle.release_permit();
        }
        counters.fired.bump();
        Some(Expiry { payload, key, deadline, periodic })
    }
}

/// Drops a payload whose destructor may panic.
pub(super) fn drop_quietly<T>(payload: T) {
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
    if dropped.is_err() {
        log::error!("the destructor of a cancelled timer's payload panicked");
    }
}

impl<T> TimerStore for Nodes<'_, T> {
    type Fired = Expiry<T>;

    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        self.handle.table.is_live(entry.index, entry.mark)
    }

    #[inline]
    fn prefetch(&self, entry: &Entry) {
        self.handle.table.prefetch(entry.index);
    }

    #[inline]
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Expiry<T>> {
        match self.handle.table.due(&self.thread.cache, entry.index, entry.mark, now) {
            Fate::Fire(fired) => self.expiry(entry, fired).map_or(Fate::Drop, Fate::Fire),
            Fate::Refile(deadline) => Fate::Refile(deadline),
            Fate::Drop => Fate::Drop,
        }
    }

    fn renew_entry(&mut self, entry: Entry) -> Option<Entry> {
        let (deadline, mark) = self.handle.table.renew_entry(entry.index, entry.mark)?;
        Some(Entry { deadline, index: entry.index, mark })
    }

    fn pending(&self) -> u64 {
        self.handle.pending()
    }
}
