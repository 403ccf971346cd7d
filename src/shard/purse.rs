//! A purse: permits under `max_pending` that one holder has got back and uses again without asking anybody.
//!
//! One word: how many permits are in it, whether the holder puts more in (the purse is open), and how often the word
//! has changed. A purse that is neither open nor holds anything is shut: only its holder changes that. Anybody may
//! take permits out of a purse, and stops the holder's deposits by that, so nothing that lies in one is out of reach.

use crate::node::segments::Zeroable;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::ptr;

/// The holder puts permits in. The bits below count them.
const OPEN: u64 = 1 << 15;
/// One change. 48 bits of them do not come round while somebody looks twice.
const CHANGE: u64 = 1 << 16;
/// More permits than this are never in a purse.
pub(super) const MOST: u64 = 1024;
const _: () = assert!(MOST < OPEN);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Purse(AtomicU64);

// SAFETY: zero bytes are the integer 0: shut, and never changed.
unsafe impl Zeroable for CachePadded<Purse> {}

/// Where a thread, or an owner, has its purse; with one limit only. Zeroed it is the first place, without a purse.
#[derive(Debug, Default)]
pub(crate) struct Holder {
    place: AtomicU32,
    /// The purse at that place, so that it need not be looked up; null before there is one.
    purse: AtomicPtr<Purse>,
}

impl Holder {
    pub(crate) fn set_place(&self, place: u32) {
        // ORDERING: Relaxed, here and below: only the holder reads and writes it.
        self.place.store(place, Ordering::Relaxed);
    }

    pub(super) fn place(&self) -> u32 {
        // ORDERING: Relaxed: as in `set_place`.
        self.place.load(Ordering::Relaxed)
    }

    /// Notes where the holder's purse lies.
    ///
    /// # Safety
    ///
    /// It stays where it is as long as anybody calls [`purse`](Self::purse).
    pub(super) unsafe fn set_purse(&self, purse: &Purse) {
        // ORDERING: Relaxed: as in `set_place`.
        self.purse.store(ptr::from_ref(purse).cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn purse(&self) -> Option<&Purse> {
        // ORDERING: Relaxed: as in `set_place`.
        // SAFETY: null, or a purse that is still there (the contract of `set_purse`).
        unsafe { self.purse.load(Ordering::Relaxed).as_ref() }
    }
}

/// What was in a purse when somebody looked.
#[derive(Clone, Copy)]
struct Seen(u64);

impl Seen {
    const fn permits(self) -> u64 {
        self.0 & (OPEN - 1)
    }

    const fn is_open(self) -> bool {
        self.0 & OPEN != 0
    }

    const fn is_shut(self) -> bool {
        self.0 & (CHANGE - 1) == 0
    }

    const fn changes(self) -> u64 {
        self.0 / CHANGE
    }

    /// With one permit more.
    const fn with_one(self) -> Self {
        Self((self.0 + 1).wrapping_add(CHANGE))
    }

    /// With one permit less. There is one.
    const fn without_one(self) -> Self {
        Self((self.0 - 1).wrapping_add(CHANGE))
    }

    /// Closed, and with one permit less, if there is one.
    const fn robbed(self) -> Self {
        let left = self.permits().saturating_sub(1);
        Self((self.0 & !(CHANGE - 1) | left).wrapping_add(CHANGE))
    }
}

/// What came of a look into somebody else's purse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Robbed {
    /// There was a permit, which the caller has now.
    pub(super) took_one: bool,
    /// The purse is shut by that, and was not before.
    pub(super) was_shut_by_it: bool,
    /// How often the purse has changed so far.
    pub(super) changes: u64,
}

impl Purse {
    /// Takes a permit, if there is one; the answer is whether the purse is shut by that. For the holder.
    #[inline]
    pub(super) fn take(&self) -> Option<bool> {
        // ORDERING: Relaxed: the compare-and-swap decides.
        let mut seen = Seen(self.0.load(Ordering::Relaxed));
        while seen.permits() > 0 {
            let left = seen.without_one();
            // ORDERING: Release pairs with the Acquire in `rob`: whoever finds the permit gone finds all that was given
            // back before. [P26] Relaxed on failure: as above.
            match self.0.compare_exchange_weak(seen.0, left.0, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Some(left.is_shut()),
                Err(now) => seen = Seen(now),
            }
        }
        None
    }

    /// Puts a permit in, if the purse is open and has fewer than `most`. Holder only.
    #[inline]
    pub(super) fn put(&self, most: u64) -> bool {
        // ORDERING: Relaxed throughout: nothing but the permit is handed over, and read-modify-writes continue what a
        // `take` has released.
        let mut seen = Seen(self.0.load(Ordering::Relaxed));
        while seen.is_open() && seen.permits() < most {
            let next = seen.with_one().0;
            match self.0.compare_exchange_weak(seen.0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = Seen(now),
            }
        }
        false
    }

    /// Whether the purse is shut: stays true until the holder opens it.
    pub(super) fn is_shut(&self) -> bool {
        // ORDERING: Relaxed: asked by the holder, which alone ends that.
        Seen(self.0.load(Ordering::Relaxed)).is_shut()
    }

    /// Opens the purse, which is shut. Holder only.
    pub(super) fn open(&self) {
        // ORDERING: Relaxed: as in `put`. Nobody else changes a purse that is shut.
        self.0.fetch_add(OPEN.wrapping_add(CHANGE), Ordering::Relaxed);
    }

    /// Takes a permit, if there is one, and closes the purse in any case. For anybody.
    pub(super) fn rob(&self) -> Robbed {
        loop {
            // ORDERING: Acquire pairs with the Release in `take` and below. [P26]
            let seen = Seen(self.0.load(Ordering::Acquire));
            if seen.is_shut() {
                let changes = seen.changes();
                return Robbed { took_one: false, was_shut_by_it: false, changes };
            }
            let left = seen.robbed();
            // ORDERING: Release as in `take` [P26]; Relaxed on failure: looked at again.
            let swapped =
                self.0.compare_exchange_weak(seen.0, left.0, Ordering::Release, Ordering::Relaxed);
            if swapped.is_ok() {
                let (took_one, changes) = (seen.permits() > 0, left.changes());
                return Robbed { took_one, was_shut_by_it: left.is_shut(), changes };
            }
        }
    }
}
