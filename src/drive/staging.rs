//! The staging buffer: where the owner's young entries wait before they are filed.
//!
//! Most timers die young. An entry in the staging buffer costs one append to a line that is hot anyway; if its timer
//! is cancelled while it lies here, the wheel never hears of it. What survives is filed when the staging buffer is
//! full of the living, or when something in it may be due.
//!
//! ```text
//! push ---> [ young entries in the order of arrival ] -- full: the dead leave; many living: all filed --> wheel
//!                                                     -- due:  the dead leave; all filed -------------> wheel
//! ```
//!
//! Rules that keep the order of insertion within a tick, in which a wheel yields its entries: the staging buffer only
//! holds deadlines at or after its threshold, all others go past it; while it holds entries the threshold does not
//! move beyond the present. So an entry that goes past it never overtakes an older one of the same tick, unless that
//! tick has come already, and what has come already is never kept back.

use super::TimerStore;
use crate::wheel::Entry;
use alloc::vec::Vec;

/// Entries that an owner with few timers keeps back: 8 KiB, which stay in the first-level cache.
const SMALLEST: usize = 512;

/// Entries kept back at most: going through them and filing them, at some ten nanoseconds each, takes less than a
/// tenth of a millisecond.
#[cfg(not(tickwheel_loom))]
const LARGEST: usize = 8 * 1024;
#[cfg(tickwheel_loom)]
const LARGEST: usize = SMALLEST;

/// How often a staging buffer is filed without a look after one that did not pay: then looking costs an eighth.
const SKIPPED_LOOKS: u32 = 7;

/// How many entries ahead their records are asked for.
const AHEAD: usize = 16;

/// Ticks from the hand to the threshold: what is due so soon is filed at once, as a recent entry.
const NEAR: u64 = 64;

/// An entry in two words: what is put together of three fields would be written in parts and read back as a
/// whole, a stall that costs as much as all else here.
#[derive(Clone, Copy)]
struct Young {
    deadline: u64,
    name: u64,
}

impl Young {
    const NONE: Self = Self { deadline: 0, name: 0 };

    #[inline(always)]
    const fn new(entry: Entry) -> Self {
        Self { deadline: entry.deadline, name: (entry.mark as u64) << 32 | entry.index as u64 }
    }

    #[inline(always)]
    const fn entry(self) -> Entry {
        Entry { deadline: self.deadline, index: self.name as u32, mark: (self.name >> 32) as u32 }
    }
}

/// See the module.
pub(crate) struct StagingBuffer {
    /// The places; those before `len` are taken.
    places: Vec<Young>,
    len: usize,
    /// At or before every deadline; `u64::MAX` when there is none.
    min: u64,
    threshold: u64,
    /// How often a full staging buffer is filed without a look at its entries, because hardly any was dead the
    /// last time.
    skipped_looks: u32,
}

impl Default for StagingBuffer {
    fn default() -> Self {
        Self { places: Vec::new(), len: 0, min: u64::MAX, threshold: NEAR, skipped_looks: 0 }
    }
}

impl StagingBuffer {
    /// Whether an entry with this deadline is to be kept here.
    #[inline(always)]
    pub(crate) const fn admits(&self, deadline: u64) -> bool {
        deadline >= self.threshold
    }

    /// Keeps an entry, if there is a place left: otherwise call [`evict_dead`](Self::evict_dead) and try again. O(1).
    #[inline(always)]
    #[must_use]
    pub(crate) fn push(&mut self, entry: Entry) -> bool {
        debug_assert!(self.admits(entry.deadline));
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
    pub(crate) const fn earliest(&self) -> u64 {
        self.min
    }

    /// Lets the threshold follow the present: well ahead of it if the staging buffer is empty, else just behind it.
    #[inline]
    pub(crate) fn follow(&mut self, now: u64) {
        let ahead = if self.len == 0 { NEAR } else { 1 };
        self.threshold = self.threshold.max(now.saturating_add(ahead));
    }

    /// Makes room: removes the dead. If so many are left that keeping them back does not pay, or there is no memory for
    /// more places, they go to `file` in the order in which they came, up to the first that it has no room for. Says
    /// how many were removed.
    pub(crate) fn evict_dead(
        &mut self,
        records: &impl TimerStore,
        file: impl FnMut(Entry) -> bool,
    ) -> usize {
        let limit = self.places.len();
        if self.skipped_looks > 0 {
            self.skipped_looks -= 1;
            self.empty(file);
            return 0;
        }
        let removed = self.remove_dead(records);
        if self.len > limit / 4 || limit == 0 {
            if limit < LARGEST {
                if !self.grow() {
                    self.empty(file);
                }
            } else if self.len > limit / 2 {
                if removed < limit / 8 {
                    self.skipped_looks = SKIPPED_LOOKS;
                }
                self.empty(file);
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

    /// Removes the dead and hands all others to `file`, in the order in which they came. Says how many were
    /// removed.
    pub(crate) fn file_all(
        &mut self,
        records: &impl TimerStore,
        mut file: impl FnMut(Entry),
    ) -> usize {
        let removed = self.remove_dead(records);
        self.empty(|entry| {
            file(entry);
            true
        });
        removed
    }

    /// Hands entries to `file` until it has no room for one; those stay.
    fn empty(&mut self, mut file: impl FnMut(Entry) -> bool) {
        let young = &self.places[..self.len];
        let stays = young.iter().position(|young| !file(young.entry())).unwrap_or(self.len);
        self.places.copy_within(stays..self.len, 0);
        self.len -= stays;
        let left = self.places[..self.len].iter().map(|young| young.deadline);
        self.min = left.min().unwrap_or(u64::MAX);
    }

    fn remove_dead(&mut self, records: &impl TimerStore) -> usize {
        // The records of few timers are in cache anyway.
        let far = self.places.len() == LARGEST;
        let (mut kept, mut min) = (0, u64::MAX);
        for at in 0..self.len {
            let young = self.places[at];
            if far {
                if let Some(later) = self.places[..self.len].get(at + AHEAD) {
                    records.prefetch(&later.entry());
                }
            }
            self.places[kept] = young;
            // Without a branch: no branch predictor knows which entries are dead, and the loads overlap.
            let alive = records.is_live(&young.entry());
            kept += usize::from(alive);
            min = min.min(if alive { young.deadline } else { u64::MAX });
        }
        let removed = self.len - kept;
        self.len = kept;
        self.min = min;
        removed
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.min = u64::MAX;
    }

    /// Entries kept, dead ones included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The memory that it holds, in bytes, its reserve included.
    pub(crate) fn held_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Young>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(index: u32, deadline: u64) -> Entry {
        Entry { deadline, index, mark: !index }
    }

    /// Which indices are dead.
    struct Book<'a>(&'a [bool]);

    impl TimerStore for Book<'_> {
        type Fired = ();

        fn is_live(&self, entry: &Entry) -> bool {
            !self.0[entry.index as usize]
        }

        fn prefetch(&self, entry: &Entry) {
            assert!((entry.index as usize) < self.0.len(), "only entries that are there");
        }

        fn decide(&mut self, _: Entry, _: u64) -> crate::drive::Fate<()> {
            crate::drive::Fate::Drop
        }

        fn renew_entry(&mut self, _: Entry) -> Option<Entry> {
            None
        }

        fn pending(&self) -> u64 {
            self.0.iter().filter(|dead| !**dead).count() as u64
        }
    }

    /// Evicts the dead, and pushes again until the entry is taken.
    fn insert(staging: &mut StagingBuffer, dead: &[bool], filed: &mut Vec<Entry>, entry: Entry) {
        while !staging.push(entry) {
            staging.evict_dead(&Book(dead), |entry| {
                filed.push(entry);
                true
            });
        }
    }

    proptest! {
        /// What lives comes out, once, whole and in the order of arrival; the minimum is never too late.
        #[test]
        fn the_living_are_filed_in_order(
            steps in prop::collection::vec((NEAR..100_000, any::<u16>(), 0..8_u8), 1..3_000),
            often in 1..8_u8,
        ) {
            let mut staging = StagingBuffer::default();
            let (mut filed, mut dead) = (Vec::new(), Vec::new());
            let mut expected = Vec::new();
            for (deadline, victim, chance) in steps {
                let young = entry(dead.len() as u32, deadline);
                dead.push(false);
                insert(&mut staging, &dead, &mut filed, young);
                expected.push(young);
                if chance < often {
                    let victim = usize::from(victim) % dead.len();
                    // What is filed already is no business of the staging buffer any more.
                    let of_victim = |entry: &Entry| entry.index as usize == victim;
                    dead[victim] |= !filed.iter().any(of_victim);
                }
                prop_assert!(staging.earliest() <= young.deadline);
            }
            staging.file_all(&Book(&dead), |entry| filed.push(entry));
            expected.retain(|entry| !dead[entry.index as usize]);
            prop_assert_eq!(filed, expected);
            prop_assert_eq!((staging.len(), staging.earliest()), (0, u64::MAX));
        }
    }

    #[test]
    fn a_buffer_full_of_the_living_grows_and_then_files_them() {
        let (mut staging, mut filed, dead) =
            (StagingBuffer::default(), Vec::new(), vec![false; LARGEST + 1]);
        assert_eq!(staging.held_bytes(), 0, "who schedules nothing holds nothing");
        for index in 0..=LARGEST as u32 {
            assert!(filed.is_empty());
            insert(&mut staging, &dead, &mut filed, entry(index, 1_000 - u64::from(index % 10)));
            if index < LARGEST as u32 {
                assert_eq!(staging.earliest(), 1_000 - u64::from(index.min(9)), "after {index}");
            }
        }
        assert_eq!((staging.len(), filed.len()), (1, LARGEST));
        assert_eq!(staging.held_bytes(), LARGEST * 16);
    }

    #[test]
    fn a_buffer_shrinks_again_when_few_live() {
        let (mut staging, mut filed) = (StagingBuffer::default(), Vec::new());
        let mut dead = vec![false; LARGEST];
        for index in 0..LARGEST as u32 {
            insert(&mut staging, &dead, &mut filed, entry(index, 1_000));
        }
        assert_eq!(staging.held_bytes(), LARGEST * 16);
        dead.fill(true);
        for index in 0..LARGEST as u32 {
            insert(&mut staging, &dead, &mut filed, entry(index, 2_000));
        }
        assert!(filed.is_empty() && staging.held_bytes() == SMALLEST * 16);
        assert_eq!(staging.earliest(), 2_000, "the dead are forgotten");
    }

    #[test]
    fn the_threshold_waits_for_an_empty_buffer() {
        let mut staging = StagingBuffer::default();
        assert!(!staging.admits(NEAR - 1) && staging.admits(NEAR));
        insert(&mut staging, &[false], &mut Vec::new(), entry(0, 500));
        staging.follow(400);
        assert!(!staging.admits(400), "what is due is not kept back");
        assert!(staging.admits(401), "an entry for 500 must not go past the one that is here");
        assert_eq!(staging.file_all(&Book(&[false]), |_| ()), 0);
        staging.follow(400);
        assert!(!staging.admits(463) && staging.admits(464));
        staging.follow(10);
        assert!(!staging.admits(463), "a threshold does not come back");
        staging.follow(u64::MAX);
        assert!(staging.admits(u64::MAX));
    }
}
