//! The owner's own timers: past the inbox, from its handlers too.

use super::owner::Owner;
use super::store::Nodes;
use crate::node::table::Armed;
use crate::state::Phase;
use crate::types::{Key, ScheduleError};
use crate::wheel::{Entry, no_memory};

impl<T> Owner<T> {
    /// Arms a timer past the inbox.
    #[inline]
    pub(crate) fn schedule(
        &mut self,
        deadline: u64,
        payload: T,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let Self { handle, thread, .. } = self;
        if let Err(kind) = handle.acquire_permit() {
            return Err(ScheduleError::new(kind, payload));
        }
        let count = || _ = handle.counters.own_scheduled.bump();
        let armed = handle
            .table
            .arm(&thread.cache, deadline, payload, false, count)
            .map_err(|payload| handle.no_node(payload))?;
        self.file_new(armed, deadline)
    }

    /// Files the entry of a timer that has just been armed and counted, or takes it back if there is no memory.
    #[inline(always)]
    pub(super) fn file_new(
        &mut self,
        Armed { index, generation, mark }: Armed,
        deadline: u64,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let key = self.handle.key(index, generation);
        let has_room = self.driver.file(Entry { deadline, index, mark });
        if !has_room && !self.make_room(deadline, index, mark) {
            if let Some(payload) = self.take_back(index, generation) {
                return Err(ScheduleError::no_memory(payload));
            }
        }
        Ok(key)
    }

    /// The payload of an own timer for which there is no memory, unless somebody has ended it, who can only have
    /// guessed its key.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, index: u32, generation: u64) -> Option<T> {
        let Self { handle, thread, .. } = self;
        let payload = handle.table.end(&thread.cache, index, generation, Phase::Cancelled)?;
        handle.counters.own_scheduled.undo();
        handle.release_permit();
        Some(payload)
    }

    /// Files an entry whose timer was accepted long ago; ends the process if there is no memory.
    #[inline(always)]
    pub(super) fn file(&mut self, entry: Entry) {
        if !self.driver.file(entry) && !self.make_room(entry.deadline, entry.index, entry.mark) {
            no_memory();
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, deadline: u64, index: u32, mark: u32) -> bool {
        let Self { handle, driver, thread, .. } = self;
        driver.make_room(Entry { deadline, index, mark }, &Nodes { handle, thread })
    }
}
