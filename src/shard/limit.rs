//! The exact bound on pending timers (`max_pending`), shared by all shards of an engine.
//!
//! Each permit is either held, by a pending timer or by the call that begins or ends it, or lies in one of several
//! words: the common one, or the purse of a thread or of an owner (`purse`). A permit goes from where it lies to who
//! needs it, one at a time, and back to any word: it is never on the way between two words, so whoever is stopped
//! half-way keeps nothing from the others.
//!
//! A thread puts what it gives back into its purse and takes its next one from there: as long as about as many timers
//! begin as end on it, it writes no line that others write. Near the limit that ends. Whoever finds the common word
//! empty looks through the purses, takes the first permit that it finds, and closes each purse that it passes;
//! afterwards everything goes through the common word until plenty is free there again.
//!
//! **A refusal is never wrong**: at some moment during the call no permit lay anywhere. The common word counts the
//! purses that are not shut, so that one look at it says that when all of them are. If somebody is about to count one
//! out, two looks through all purses say it: none has changed from the first to the second, and the common word was
//! empty in between.

use super::purse::{Holder, MOST, Purse, Robbed};
use crate::node::segments::Segments;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::types::ScheduleErrorKind;
use crossbeam_utils::CachePadded;

/// One purse that is not shut, in the common word; the bits below count free permits.
const PURSE: u64 = 1 << 40;
/// No purse gets more than one of so many permits: near the limit each is worth looking for.
const SHARE: u64 = 16;
/// A purse is opened while so many times what fits in it is free.
const PLENTY: u64 = 4;

/// Hands out permits; never more than `max`.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Permits that lie in no purse, and how many purses are not shut.
    common: CachePadded<AtomicU64>,
    purses: Segments<CachePadded<Purse>>,
    /// One past the last purse that was ever opened.
    end: AtomicU32,
    /// Owners have the first places, threads those after them.
    owners: u32,
    /// What fits in a purse; none for small limits.
    most: u64,
    pub(crate) max: usize,
}

impl Limit {
    /// For an engine of so many shards.
    pub(crate) fn new(max: usize, shards: u32) -> Self {
        // More than a million million timers have no room in any machine's memory.
        let free = u64::try_from(max).unwrap_or(u64::MAX).min(PURSE - 1);
        Self {
            common: CachePadded::new(AtomicU64::new(free)),
            purses: Segments::new(),
            end: AtomicU32::new(0),
            owners: shards,
            most: (free / SHARE).min(MOST),
            max,
        }
    }

    /// The place of the thread that holds `slot`. An owner's is its shard's number.
    pub(crate) fn place_of(&self, slot: u32) -> u32 {
        self.owners.saturating_add(slot)
    }

    /// Takes a permit; false if none is free.
    #[inline(never)] // what has no limit shall not be larger for it
    pub(crate) fn acquire(&self, holder: &Holder) -> bool {
        match holder.purse().and_then(Purse::take) {
            Some(was_shut_by_it) => {
                self.count_out(was_shut_by_it);
                true
            }
            None => self.acquire_common(),
        }
    }

    #[inline]
    fn count_out(&self, was_shut: bool) {
        if was_shut {
            // ORDERING: Relaxed: later than the purse's count in, by the order of this word.
            self.common.fetch_sub(PURSE, Ordering::Relaxed);
        }
    }

    fn acquire_common(&self) -> bool {
        let mut changes_before = None;
        loop {
            // ORDERING: Acquire pairs with the Release below: whoever finds the last permit taken finds all that was
            // given back before. [P26]
            let common = self.common.load(Ordering::Acquire);
            if common % PURSE > 0 {
                // ORDERING: Release: see above [P26]; Relaxed on failure: looked at again.
                let taken = self.common.compare_exchange_weak(
                    common,
                    common - 1,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    return true;
                }
                continue;
            }
            if common == 0 {
                return false;
            }
            let Some(changes) = self.search() else { return true };
            if changes_before == Some(changes) {
                return false;
            }
            changes_before = Some(changes);
        }
    }

    /// Why there was no permit.
    #[cold]
    pub(crate) fn refusal(&self) -> ScheduleErrorKind {
        ScheduleErrorKind::TooManyPending { pending: self.max, max_pending: self.max }
    }

    /// Takes a permit out of the first purse that has one. Otherwise how often all purses together have changed so
    /// far: each of them was shut when it was looked at. O(threads).
    #[cold]
    fn search(&self) -> Option<u64> {
        // ORDERING: Relaxed: whoever has found the common word empty is behind the first opening of every purse that
        // it must know of. [P26]
        let end = self.end.load(Ordering::Relaxed);
        let mut all_changes = 0_u64;
        for purse in (0..end).filter_map(|place| self.purses.get(place)) {
            let Robbed { took_one, was_shut_by_it, changes } = purse.rob();
            self.count_out(was_shut_by_it);
            if took_one {
                return None;
            }
            all_changes = all_changes.wrapping_add(changes);
        }
        Some(all_changes)
    }

    /// Gives a permit back.
    #[inline(never)] // as `acquire`
    pub(crate) fn release(&self, holder: &Holder) {
        if !holder.purse().is_some_and(|purse| purse.put(self.most)) {
            self.release_common(holder);
        }
    }

    fn release_common(&self, holder: &Holder) {
        // ORDERING: Relaxed: nothing but the permit is handed over. A later `acquire` by the same thread sees it.
        let before = self.common.fetch_add(1, Ordering::Relaxed);
        if self.most > 0 && before % PURSE >= PLENTY * self.most {
            self.open(holder);
        }
    }

    /// Opens the holder's purse, if it is shut. A thread is the holder of one purse in all shards.
    fn open(&self, holder: &Holder) {
        let place = holder.place();
        let Some(purse) = self.purses.try_get_or_alloc(place) else { return };
        // SAFETY: purses stay where they are as long as this, which everybody has who uses the holder.
        unsafe { holder.set_purse(purse) };
        if purse.is_shut() {
            // ORDERING: Relaxed: what comes out of the purse later is behind it, in this thread or by P26.
            self.end.fetch_max(place + 1, Ordering::Relaxed);
            // Before it is opened, so that a purse that is not counted is shut.
            // ORDERING: Relaxed: as above.
            self.common.fetch_add(PURSE, Ordering::Relaxed);
            purse.open();
        }
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    fn at(place: u32) -> Holder {
        let holder = Holder::default();
        holder.set_place(place);
        holder
    }

    fn acquire(limit: &Limit, holder: &Holder, permits: usize) {
        for n in 0..permits {
            assert!(limit.acquire(holder), "refused after {n} of {permits}");
        }
    }

    fn release(limit: &Limit, holder: &Holder, permits: usize) {
        (0..permits).for_each(|_| limit.release(holder));
    }

    fn common(limit: &Limit) -> u64 {
        limit.common.load(Ordering::Relaxed)
    }

    #[test]
    fn a_steady_thread_leaves_the_common_word_alone() {
        let limit = Limit::new(10_000, 2);
        // Of one thread, in two shards.
        let holders = [at(2), at(2)];
        holders.iter().for_each(|holder| acquire(&limit, holder, 200));
        holders.iter().for_each(|holder| release(&limit, holder, 100));
        let before = common(&limit);
        for _ in 0..10_000 {
            acquire(&limit, &holders[0], 1);
            release(&limit, &holders[1], 1);
        }
        acquire(&limit, &holders[1], 50);
        release(&limit, &holders[0], 50);
        assert_eq!(common(&limit), before);
    }

    #[test]
    fn what_lies_in_purses_is_found_before_a_refusal() {
        let limit = Limit::new(1000, 2);
        let holders: Vec<Holder> = (0..20).map(at).collect();
        for holder in &holders {
            acquire(&limit, holder, 40);
            release(&limit, holder, 40);
        }
        assert!(common(&limit) % PURSE < 300, "most of the permits lie in purses");
        let other = at(30);
        acquire(&limit, &other, 1000);
        for holder in [&holders[0], &holders[7], &other] {
            assert!(!limit.acquire(holder), "all are taken");
        }
        assert_eq!(common(&limit), 0, "every purse is shut, and a refusal is one look");
    }

    #[test]
    fn a_purse_that_its_holder_empties_is_counted_out() {
        let (limit, holder, other) = (Limit::new(1000, 0), at(0), at(1));
        acquire(&limit, &holder, 40);
        release(&limit, &holder, 40);
        let elsewhere = (common(&limit) % PURSE) as usize;
        assert!(elsewhere < 990);
        // One of the purse, too, which is closed by that.
        acquire(&limit, &other, elsewhere + 1);
        acquire(&limit, &holder, 1000 - elsewhere - 1);
        assert_eq!(common(&limit), 0);
    }

    #[test]
    fn each_owner_and_each_thread_has_a_place_of_its_own() {
        let limit = Limit::new(1000, 3);
        assert_eq!([0, 1, 77].map(|slot| limit.place_of(slot)), [3, 4, 80], "behind the owners'");
    }

    #[test]
    fn near_the_limit_nothing_goes_into_purses_and_with_plenty_free_it_does_again() {
        let (limit, holder) = (Limit::new(1600, 0), at(3));
        acquire(&limit, &holder, 1600);
        release(&limit, &holder, 300);
        assert_eq!(common(&limit), 300, "all of it where everybody looks first");
        release(&limit, &holder, 300);
        assert_eq!(common(&limit), PURSE + 600 - limit.most, "the purse is open, and full");
    }

    #[test]
    fn a_small_limit_has_no_purses() {
        let (limit, holder) = (Limit::new(SHARE as usize - 1, 1), at(1));
        for _ in 0..100 {
            acquire(&limit, &holder, 15);
            assert!(!limit.acquire(&at(0)));
            release(&limit, &holder, 15);
        }
        assert_eq!(common(&limit), 15);
    }

    #[test]
    fn the_largest_limit_is_one_that_no_machine_reaches() {
        let (limit, holder) = (Limit::new(usize::MAX, 1), at(1));
        acquire(&limit, &holder, 10);
        release(&limit, &holder, 10);
        assert_eq!(limit.max, usize::MAX);
    }
}
