//! The staging buffer: where the owner's young entries wait before they are filed.
//!
//! Most timers die young. An entry in the staging buffer costs one append to a line that is hot anyway; if its timer
//! is cancelled while it lies here, the wheel never hears of it. What survives until the staging buffer is full of
//! the living goes on to the sealed log, which is like it but large; what may be due is filed.
//!
//! ```text
//! push ---> [ young entries in the order of arrival ] -- full: the dead leave; many living: all --> sealed log
//!                                                     -- due:  the dead leave; the others --------> wheel
//! ```
//!
//! Rules that keep the order of insertion within a tick, in which a wheel yields its entries: the staging buffer only
//! holds deadlines at or after its threshold, all others go past it; while it or the log holds earlier entries the
//! threshold does not move beyond the present. So an entry that goes past it never overtakes an older one of the same
//! tick, unless that tick has come already, and what has come already is never kept back. For the same reason a young
//! entry is filed before the log only if it is due before all of it.

use super::TimerStore;
use super::sealed::{SealedLog, Taken};
use super::young::{Kept, Young, earliest, keep, keep_live};
use crate::wheel::{Entry, Sweep};
use alloc::vec::Vec;

/// Entries that an owner with few timers keeps back: 8 KiB, which stay in the first-level cache.
#[cfg(not(fuzzing))]
const SMALLEST: usize = 512;
#[cfg(fuzzing)]
const SMALLEST: usize = 4;

/// Entries kept back at most: going through them and filing them, at some ten nanoseconds each, takes less than a
/// tenth of a millisecond.
#[cfg(not(any(tickwheel_loom, fuzzing)))]
const LARGEST: usize = 8 * 1024;
#[cfg(any(tickwheel_loom, fuzzing))]
const LARGEST: usize = 2 * SMALLEST;

/// How often a staging buffer is sealed without a look after one that did not pay: then looking costs an eighth.
const SKIPPED_LOOKS: u32 = 7;

/// Ticks from the hand to the threshold: what is due so soon is filed at once, as a recent entry.
const NEAR: u64 = 64;

/// What is due within so many ticks is not sealed, and what has been sealed is filed when it is due so soon: or few
/// entries at short notice would bring all that is older along when they are due.
const SOON: u64 = 512;

/// See the module.
pub(crate) struct StagingBuffer {
    /// The places; those before `len` are taken.
    places: Vec<Young>,
    len: usize,
    /// At or before every deadline in the places; `u64::MAX` when there is none.
    min: u64,
    threshold: u64,
    /// Before it, deadlines are too soon to be sealed.
    soon: u64,
    /// How often a full staging buffer is sealed without a look at its entries, because hardly any was dead the
    /// last time.
    skipped_looks: u32,
    /// What is older than all in the places.
    sealed: SealedLog,
}

impl Default for StagingBuffer {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            len: 0,
            min: u64::MAX,
            threshold: NEAR,
            soon: SOON,
            skipped_looks: 0,
            sealed: SealedLog::default(),
        }
    }
}

impl StagingBuffer {
    /// Whether an entry with this deadline is to be kept here.
    #[inline(always)]
    pub(crate) const fn admits(&self, deadline: u64) -> bool {
        deadline >= self.threshold
    }

    /// Whether the entry of a timer that was accepted earlier need not be kept here: if it is not
    /// [admitted](Self::admits), and is due before all that is here. Its tick may have come, and so may that of others.
    #[inline]
    pub(crate) fn is_passed_by(&self, deadline: u64) -> bool {
        !self.admits(deadline) && deadline < self.earliest()
    }

    /// Keeps an entry, if there is a place left: otherwise call [`evict_dead`](Self::evict_dead) and try again. O(1).
    #[inline(always)]
    #[must_use]
    pub(crate) fn push(&mut self, entry: Entry) -> bool {
        debug_assert!(self.admits(entry.deadline) || entry.deadline >= self.earliest());
        let Some(place) = self.places.get_mut(self.len) else {
            return false;
        };
        *place = Young::new(entry);
        self.len += 1;
        self.min = self.min.min(entry.deadline);
        true
    }

    /// At or before the earliest deadline; `u64::MAX` when there is none. Exact as long as none of the timers in
    /// here has been cancelled since the last look at them.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.min.min(self.sealed.earliest())
    }

    /// Lets the threshold follow the present: well ahead of it if nothing is here that is due so soon, else just
    /// behind it.
    #[inline]
    pub(crate) fn follow(&mut self, now: u64) {
        let next = now.saturating_add(1);
        let ahead =
            if self.len == 0 { now.saturating_add(NEAR).min(self.sealed.earliest()) } else { next };
        self.threshold = self.threshold.max(next).max(ahead);
        self.soon = now.saturating_add(SOON);
    }

    /// Makes room: removes the dead. If so many are left that keeping them back does not pay, or there is no memory for
    /// more places, they are sealed, if that `pays`; else all go to `file`, in the order in which they came, up to the
    /// first that it has no room for. Says how many were removed. It may still be [full](Self::is_full) then, without
    /// memory.
    pub(crate) fn evict_dead(
        &mut self,
        records: &impl TimerStore,
        pays: impl FnOnce() -> bool,
        file: impl FnMut(Entry) -> bool,
    ) -> usize {
        let limit = self.places.len();
        if self.skipped_looks > 0 {
            self.skipped_looks -= 1;
            self.empty(pays(), file);
            return 0;
        }
        let removed = self.remove_dead(records);
        if self.len > limit / 4 || limit == 0 {
            if limit < LARGEST {
                if !self.grow() {
                    self.empty(false, file);
                }
            } else if self.len > limit / 2 {
                if removed < limit / 8 {
                    self.skipped_looks = SKIPPED_LOOKS;
                }
                self.empty(pays(), file);
            }
        } else if self.len < limit / 16 && limit > SMALLEST {
            self.places.truncate(limit / 2);
            self.places.shrink_to_fit();
        }
        removed
    }

    /// Twice as many places; false if there is no memory.
    fn grow(&mut self) -> bool {
        let more = self.places.len().max(SMALLEST);
        let has_room = self.places.try_reserve_exact(more).is_ok();
        if has_room {
            self.places.resize(self.places.len() + more, Young::NONE);
        }
        has_room
    }

    /// Files what is due soon and before all that is sealed, and seals the others; files all if nothing `seals` and
    /// nothing has been sealed. What there is no memory for stays.
    #[inline(never)] // once, so that `file` is inlined into it
    fn empty(&mut self, seals: bool, mut file: impl FnMut(Entry) -> bool) {
        let is_sealed = seals || self.sealed.len() > 0;
        let soon = if seals { self.soon } else { u64::MAX };
        let end = is_sealed.then(|| soon.min(self.sealed.earliest()));
        if end.is_none_or(|end| self.min < end) {
            let (len, mut has_room) = (self.len, true);
            let kept = keep(&mut self.places[..len], |young| {
                let waits = end.is_some_and(|end| young.deadline >= end);
                has_room = has_room && (waits || file(young));
                waits || !has_room
            });
            self.keep(&kept);
        }
        if is_sealed {
            let sealed = self.sealed.append(&self.places[..self.len]);
            self.forget(sealed);
        }
    }

    /// Whether there is no place for another one.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.places.len()
    }

    /// Without memory to seal more, `file` gets the log and all that is here until it has no room for one.
    #[cold]
    pub(crate) fn empty_all(&mut self, mut file: impl FnMut(Entry) -> bool) {
        self.sealed.empty(&mut file);
        if self.sealed.len() == 0 {
            let young = self.places[..self.len].iter();
            let filed = young.take_while(|young| file(young.entry())).count();
            self.forget(filed);
        }
    }

    /// Removes the first entries.
    fn forget(&mut self, first: usize) {
        self.places.copy_within(first..self.len, 0);
        self.len -= first;
        self.min = earliest(&self.places[..self.len]);
    }

    /// The tick at which [`file_due`](Self::file_due) has something to do.
    #[inline]
    pub(crate) fn next_look(&self) -> u64 {
        self.min.min(self.sealed.earliest().saturating_sub(SOON))
    }

    /// Hands what may be due at `now` to `file`, in order and with what is older; the others are sealed if that `pays`.
    /// Of the log about `limit` entries at a time: call again while something is [due](Self::earliest).
    pub(crate) fn file_due(
        &mut self,
        now: u64,
        limit: usize,
        records: &impl TimerStore,
        pays: impl FnOnce() -> bool,
        mut file: impl FnMut(Entry),
    ) -> Taken {
        // What is not due yet leaves most of the time to what is.
        let limit = if self.sealed.earliest() <= now { limit } else { limit / 4 };
        let mut taken = self.sealed.file_due(now.saturating_add(SOON), limit, records, &mut file);
        if self.min <= now && (self.sealed.earliest() > now || self.sealed.len() == 0) {
            taken.removed += self.remove_dead(records);
            let seals = self.len > SMALLEST / 2 && pays();
            self.empty(seals, |young| {
                file(young);
                taken.filed += 1;
                true
            });
        }
        taken
    }

    fn keep(&mut self, kept: &Kept) {
        (self.len, self.min) = (kept.len, kept.min);
    }

    fn remove_dead(&mut self, records: &impl TimerStore) -> usize {
        // The records of few timers are in cache anyway.
        let (len, far) = (self.len, self.places.len() == LARGEST);
        let kept = keep_live(&mut self.places[..len], records, far);
        self.keep(&kept);
        len - self.len
    }

    /// Goes on with a round of the sweep through the log; see there.
    pub(crate) fn sweep(&mut self, budget: usize, keep: impl FnMut(&mut [Young]) -> Kept) -> Sweep {
        self.sealed.sweep(budget, keep)
    }

    /// The next sweep begins with the oldest entries.
    pub(crate) fn end_round(&mut self) {
        self.sealed.end_round();
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.min = u64::MAX;
        self.sealed.clear();
    }

    /// Entries kept, dead ones included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len + self.sealed.len()
    }

    /// The memory that it holds, in bytes, its reserve included.
    pub(crate) fn held_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Young>() + self.sealed.held_bytes()
    }
}

#[cfg(test)]
mod tests;
