//! How entries come in: to the log, or past it to the rings.

use super::{Entry, Records, Wheel, no_memory};

impl Wheel {
    /// Inserts the entry of a timer that the owner schedules, perhaps from a handler; false if there is no memory.
    /// O(1).
    ///
    /// It fires behind older entries of its tick. In a turn that has come to its tick it waits for the next one.
    #[inline(always)]
    #[must_use]
    pub(crate) fn insert(&mut self, entry: Entry, records: &impl Records) -> bool {
        self.push(entry) || self.insert_aside(entry.deadline, entry.index, entry.mark, records)
    }

    /// Does the usual case of [`insert`](Self::insert): the entry goes to the log's newest block. False if the other
    /// one, [`insert_aside`](Self::insert_aside), is to insert it.
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, entry: Entry) -> bool {
        self.log.admits(entry.deadline) && self.log.push(entry)
    }

    /// Inserts an entry that is due soon, or that finds the log's newest block full. Apart, and in three words, so that
    /// the entry of the usual case stays in registers: what one case passes by reference lies in memory for all of
    /// them.
    #[inline(never)]
    #[must_use]
    pub fn insert_aside(
        &mut self,
        deadline: u64,
        index: u32,
        mark: u32,
        records: &impl Records,
    ) -> bool {
        let entry = Entry {
            deadline,
            index,
            mark,
        };
        if self.log.admits(deadline) {
            self.make_room(records);
            self.look_ahead_again();
        }
        if self.log.admits(deadline) {
            self.insert_behind(entry)
        } else if self.is_turning && deadline <= self.latest {
            self.rings.defer(entry)
        } else {
            self.insert_in_rings(entry)
        }
    }

    /// Inserts the entry of a timer that was accepted before this turn's handlers; ends the process if there is no
    /// memory.
    ///
    /// It fires behind older entries of its tick, in this turn if it is due.
    #[inline]
    pub fn accept(&mut self, entry: Entry, records: &impl Records) {
        if !self.log.may_bypass(entry.deadline) {
            if self.log.push(entry) {
                return;
            }
            self.make_room(records);
        }
        let is_inserted = if self.log.may_bypass(entry.deadline) {
            self.insert_in_rings(entry)
        } else {
            self.insert_behind(entry)
        };
        if !is_inserted {
            no_memory();
        }
    }

    /// Inserts an entry behind all that the log has: there; without memory for a single block in the log, which has
    /// nothing then that it could overtake, in the rings. False if there is no memory at all.
    #[inline(always)] // see `Rings::try_insert`
    fn insert_behind(&mut self, entry: Entry) -> bool {
        self.log.push(entry) || (self.log.len() == 0 && self.insert_in_rings(entry))
    }

    /// Inserts an entry in the rings; false if there is no memory.
    #[inline(always)] // see `Rings::try_insert`
    fn insert_in_rings(&mut self, entry: Entry) -> bool {
        self.idle_until = self.idle_until.min(entry.deadline);
        self.earliest = self.earliest.min(entry.deadline);
        self.rings.try_insert(entry)
    }

    /// Makes room for an entry in the log, if there is memory.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, records: &impl Records) {
        self.has_all = false;
        self.begin_block(records);
        if self.log.is_full() {
            self.insert_all();
        }
        self.log.follow(self.latest);
    }
}
