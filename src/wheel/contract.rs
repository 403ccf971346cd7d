//! Defines the wheel trait and the entry.

use alloc::vec::Vec;
use core::alloc::Layout;

/// The part of a timer that a wheel stores: 16 bytes of plain data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The tick at which the entry is due.
    pub deadline: u64,
    /// The timer's place in its node table; the wheel only carries it.
    pub index: u32,
    /// A value for the owner, for example a generation; the wheel only carries it.
    pub mark: u32,
}

const _: () = assert!(core::mem::size_of::<Entry>() == 16);

/// The result of one call of [`Wheel::sweep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Entries looked at.
    pub examined: usize,
    /// Entries dropped because they were dead.
    pub removed: usize,
    /// The sweep has been through every bucket and starts over with the next call.
    pub cycle_done: bool,
}

/// Tells a sweep which entries of a batch are dead: bit `n` of the answer stands for entry `n`.
///
/// A batch has between 1 and 64 entries. Looking at a whole batch lets the owner load the records
/// of its timers side by side instead of one after the other.
pub type DeadMask<'a> = &'a mut dyn FnMut(&[Entry]) -> u64;

/// A set of entries ordered by deadline, with a hand that only moves forward.
pub trait Wheel {
    /// Inserts an entry. O(1); allocates only while the wheel grows beyond what it held before. False if there is no
    /// memory for that: then the wheel is as it was.
    ///
    /// A deadline at or before the hand is *overdue*: the next [`advance`](Self::advance) yields
    /// overdue entries first, in the order in which they were inserted.
    #[must_use = "an entry that is not inserted is lost"]
    fn try_insert(&mut self, entry: Entry) -> bool;

    /// Like [`try_insert`](Self::try_insert), but ends the process if there is no memory.
    #[inline(always)]
    fn insert(&mut self, entry: Entry) {
        if !self.try_insert(entry) {
            no_memory();
        }
    }

    /// Returns the earliest deadline of all entries, `None` when there are none. O(1).
    ///
    /// Exact as long as no sweep has removed an entry; after that it may be earlier than the
    /// earliest entry (never later) until the sweep has finished the bucket of the removed one. It is at or
    /// before the hand while overdue entries or a backlog wait, and at or before `to` while an advance to
    /// `to` is unfinished.
    fn earliest(&self) -> Option<u64>;

    /// Moves the hand towards `to` and appends the entries that are due by then to `due`: overdue
    /// ones first, then by deadline, and in the order of their insertion within one tick.
    ///
    /// At most `budget` entries are appended, and inserting work is bounded by a multiple of the
    /// budget. A `to` before the hand yields overdue entries only. The hand never passes a tick that
    /// has not been yielded completely, so an entry inserted for that tick meanwhile still comes
    /// last in it. With nothing due the cost is O(1) for any distance; otherwise it depends on
    /// the entries yielded and moved, never on the number of ticks passed.
    ///
    /// Neither a tick nor overdue entries keep what is due after them waiting for long: when [`BURST`](super::BURST) of
    /// one tick have come, the rest of them is set aside, and when as many overdue ones have come while the hand stood
    /// still, those that are left are, and all further ones until it moves.
    ///
    /// Answers whether the budget ran out: then entries due at `to` remain, besides those that were set aside, and the
    /// call is to be made again.
    #[must_use = "an advance that ran out of budget has to be called again"]
    fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> bool;

    /// Appends up to `limit` of the entries that were set aside to `due`; those of one tick come in the order of their
    /// insertion. A wheel that sets nothing aside need not have this.
    fn take_backlog(&mut self, limit: usize, due: &mut Vec<Entry>) {
        let _ = (limit, due);
    }

    /// Returns whether there are entries that were set aside.
    fn has_backlog(&self) -> bool {
        false
    }

    /// Examines about `budget` entries (one batch more at most), continuing where the last call
    /// ended, and drops those that `is_dead` marks.
    ///
    /// Once a call has reported `cycle_done`, the calls up to and including the next one that
    /// reports it see every entry that was present at their start and has neither come due nor
    /// belongs to an unfinished advance. The order of what remains does not change.
    fn sweep_batches(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep;

    /// Lets the next sweep begin with a whole cycle.
    fn restart_sweep(&mut self);

    /// Sweeps like [`sweep_batches`](Self::sweep_batches), with a question per entry.
    fn sweep(&mut self, budget: usize, is_dead: &mut dyn FnMut(Entry) -> bool) -> Sweep {
        self.sweep_batches(budget, &mut |entries| {
            let dead = |(place, entry): (usize, &Entry)| u64::from(is_dead(*entry)) << place;
            entries
                .iter()
                .enumerate()
                .map(dead)
                .fold(0, |mask, bit| mask | bit)
        })
    }

    /// Takes every entry out, in no particular order. The hand stays where it is.
    fn drain_all(&mut self, f: &mut dyn FnMut(Entry));

    /// Returns the number of entries inserted, dead ones included.
    fn len(&self) -> usize;

    /// Returns whether no entry is inserted.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the last tick of which every entry has been yielded; 0 at first.
    fn hand(&self) -> u64;

    /// Returns the memory that the wheel holds, in bytes, its reserves included.
    fn held_bytes(&self) -> usize;
}

/// Ends the process: there is no memory for an entry of an accepted timer, and no caller to tell.
#[cold]
#[inline(never)]
pub(crate) fn no_memory() -> ! {
    alloc::alloc::handle_alloc_error(Layout::new::<Entry>())
}
