//! A type-stable table: slots that are addressed by number, never move and are freed only with the table.
//!
//! Segment `k` holds `BASE << k` slots, so a table of any size has few segments and no growth ever copies
//! or blocks. A segment comes zeroed from the system: pages that are never used are never touched, and pages that are
//! not used any more can be given back, while their slots stay where they are and read as zero.
//!
//! Any thread may call everything here. A reference stays valid as long as the table, which is why a stale
//! index is harmless: it leads to a slot, perhaps to another timer's, never to freed memory.

use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::bounded;
use crate::sync::pages;
use std::alloc::Layout;
use std::ptr::NonNull;

/// Slots in the first segment; tiny under loom, so that models cross a segment border.
const BASE_BITS: u32 = bounded(6, 1);

/// Enough segments to address every `u32`; few under loom, which tracks each pointer.
const SEGMENTS: usize = bounded((u32::BITS - BASE_BITS) as usize, 4);

/// The largest number of slots a table can have.
pub(crate) const MAX_SLOTS: u64 = ((1 << SEGMENTS) - 1) << BASE_BITS;
const _: () = assert!(MAX_SLOTS < u32::MAX as u64);

/// A type whose all-zero bytes are a valid, idle value.
///
/// # Safety
///
/// All-zero bytes must be a valid value of the type.
pub(crate) unsafe trait Zeroable: Default {
    /// Makes the idle value of this one, as the system does with pages that are given back. For loom, whose atomics
    /// have no byte representation.
    fn make_idle(&self) {}
}

/// Returns a slot's place in the row of all segments, in which segment `k` begins at `BASE << k`: never 0.
#[inline]
pub(crate) const fn place_of(index: u32) -> u32 {
    // Below 2^32, because the table has no more slots.
    index + (1 << BASE_BITS)
}

/// Returns the slot at a place.
#[inline]
pub(crate) const fn index_of(place: u32) -> u32 {
    place - (1 << BASE_BITS)
}
const _: () = assert!(MAX_SLOTS + (1 << BASE_BITS) <= 1 << u32::BITS);

/// Entries of the table of segments: one for each length of a place in binary digits, so that a place leads to its
/// segment without a subtraction or a check. The first ones stay null, because no place is so short, and so does the
/// last one, which is for numbers beyond the last slot.
const LENGTHS: usize = bounded(u32::BITS as usize + 1, SEGMENTS + BASE_BITS as usize);

/// See the module.
pub(crate) struct Segments<T> {
    /// The [origin](origin_of) of each segment, null where there is none, by the length of its places.
    origins: [AtomicPtr<T>; LENGTHS],
    /// The first slot of each segment: an origin lies outside of it, so that the leak sanitizer misses it.
    #[cfg(fuzzing)]
    firsts: [AtomicPtr<T>; SEGMENTS],
}

// SAFETY: the table owns its slots and hands out only shared references to them.
unsafe impl<T: Send + Sync> Send for Segments<T> {}
// SAFETY: as above; segments are installed by compare-and-swap.
unsafe impl<T: Send + Sync> Sync for Segments<T> {}

/// Returns the segment and the offset of a slot.
#[inline]
const fn locate(index: u32) -> (usize, usize) {
    let shifted = index as u64 + (1 << BASE_BITS);
    let segment = u64::BITS - 1 - shifted.leading_zeros() - BASE_BITS;
    (
        segment as usize,
        (shifted - (1 << (segment + BASE_BITS))) as usize,
    )
}

const fn segment_len(segment: usize) -> usize {
    1 << (segment as u32 + BASE_BITS)
}

/// Returns the address that place 0 would have if the places before this segment lay directly before it, one byte
/// further: no segment begins at an odd address, so this is never null.
fn origin_of<T>(first: NonNull<T>, segment: usize) -> *mut T {
    let place_0 = first.as_ptr().wrapping_sub(segment_len(segment));
    place_0.wrapping_byte_add(1)
}

/// Returns the slot at a place of the segment that has this origin.
#[inline]
const fn slot_at<T>(origin: *mut T, place: u64) -> *mut T {
    origin.wrapping_byte_sub(1).wrapping_add(place as usize)
}

impl<T: Zeroable> Segments<T> {
    pub(crate) fn new() -> Self {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() > 1) };
        Self {
            origins: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            #[cfg(fuzzing)]
            firsts: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    /// Returns the slot with this number, if its segment exists. O(1).
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        // SAFETY: the slots of a segment are initialised and live as long as `self`.
        self.find(index).map(|slot| unsafe { slot.as_ref() })
    }

    /// Returns the address of a slot, if its segment exists.
    #[inline]
    fn find(&self, index: u32) -> Option<NonNull<T>> {
        // In 64 bits, of which it needs 33 at most. The bit that is set has no effect but a copy: an x86 processor reads
        // the register that `bsr` writes, and here it is the one of its operand. In a loop it would wait for what the
        // slot before has left there.
        let place = u64::from(index) + (1 << BASE_BITS);
        let origin = self.origins.get((place | 1).ilog2() as usize)?;
        // ORDERING: Acquire pairs with the Release in `install`: the segment's contents are initialised. [P4]
        let origin = origin.load(Ordering::Acquire);
        // SAFETY: the segment has the slots of all places of this length, and none of them lies at address 0.
        (!origin.is_null()).then(|| unsafe { NonNull::new_unchecked(slot_at(origin, place)) })
    }

    /// Returns the entry of a segment.
    const fn origin(&self, segment: usize) -> &AtomicPtr<T> {
        &self.origins[segment + BASE_BITS as usize]
    }

    /// Returns whether a segment exists.
    fn exists(&self, segment: usize) -> bool {
        // ORDERING: Relaxed: only null is asked for.
        !self.origin(segment).load(Ordering::Relaxed).is_null()
    }

    /// Returns the slot with this number, allocating its segment if need be. `index < MAX_SLOTS`. Aborts if there is
    /// no memory: only for what is small and happens seldom.
    pub(crate) fn get_or_alloc(&self, index: u32) -> &T {
        let slot = self.try_get_or_alloc(index);
        slot.unwrap_or_else(|| std::alloc::handle_alloc_error(Layout::new::<T>()))
    }

    /// Like [`get_or_alloc`](Self::get_or_alloc), but returns `None` if there is no memory.
    #[inline]
    pub(crate) fn try_get_or_alloc(&self, index: u32) -> Option<&T> {
        self.get(index).or_else(|| self.grow(index))
    }

    #[cold]
    fn grow(&self, index: u32) -> Option<&T> {
        let origin = self.install(locate(index).0)?;
        // SAFETY: as in `get`.
        Some(unsafe { &*slot_at(origin, place_of(index).into()) })
    }

    /// Allocates a segment and returns its origin; the second of two threads takes the first one's.
    fn install(&self, segment: usize) -> Option<*mut T> {
        let fresh = allocate::<T>(segment_len(segment))?;
        let origin = origin_of(fresh, segment);
        // ORDERING: Release pairs with the Acquire in `get` [P4]; Acquire on failure, to use the winner's.
        match self.origin(segment).compare_exchange(
            std::ptr::null_mut(),
            origin,
            Ordering::Release,
            Ordering::Acquire,
        ) {
            Ok(_) => {
                // ORDERING: Relaxed: only the sanitizer looks at it.
                #[cfg(fuzzing)]
                self.firsts[segment].store(fresh.as_ptr(), Ordering::Relaxed);
                Some(origin)
            }
            Err(winner) => {
                // SAFETY: `fresh` came from `allocate` with this length and no other thread saw it.
                unsafe { release(fresh, segment_len(segment)) };
                Some(winner)
            }
        }
    }

    /// Returns whether the memory of this slot can be given back.
    pub(crate) fn can_give_back(&self, index: u32) -> bool {
        let layout = Layout::array::<T>(segment_len(locate(index).0));
        cfg!(tickwheel_loom) || layout.is_ok_and(pages::can_be_given_back)
    }

    /// Gives the memory of `count` slots from `first` on back to the system: they are idle now. False if it does not
    /// take it: then they are as they were.
    ///
    /// # Safety
    ///
    /// The slots lie in one segment, their memory [can be given back](Self::can_give_back) and consists of whole
    /// pages. The caller has the slots alone, but for those who look at their atomics and make do with idle ones; and
    /// the values that the slots own are forgotten.
    pub(crate) unsafe fn give_back(&self, first: u32, count: u32) -> bool {
        if cfg!(tickwheel_loom) {
            (first..first + count)
                .filter_map(|index| self.get(index))
                .for_each(T::make_idle);
            return true;
        }
        self.find(first).is_some_and(|slot| {
            // SAFETY: whole pages, in which threads use nothing but atomics (the function's contract).
            unsafe { pages::give_back(slot.cast(), count as usize * size_of::<T>()) }
        })
    }

    /// Visits every slot of every existing segment below `end`, in order.
    pub(crate) fn for_each(&self, end: u64, mut visit: impl FnMut(u32, &T)) {
        for index in 0..u32::try_from(end.min(MAX_SLOTS)).unwrap_or(u32::MAX) {
            match self.get(index) {
                Some(slot) => visit(index, slot),
                None if locate(index).1 == 0 && self.none_from(locate(index).0) => return,
                None => {}
            }
        }
    }

    /// Allocates the segments of all slots below `end`, as far as there is memory.
    pub(crate) fn reserve(&self, end: u64) {
        let last = u32::try_from(end.min(MAX_SLOTS))
            .unwrap_or(u32::MAX)
            .saturating_sub(1);
        for segment in 0..=locate(last).0 {
            if !self.exists(segment) && self.install(segment).is_none() {
                return;
            }
        }
    }

    fn none_from(&self, segment: usize) -> bool {
        (segment..SEGMENTS).all(|segment| !self.exists(segment))
    }

    /// Returns the bytes allocated for slots, used or not.
    pub(crate) fn allocated_bytes(&self) -> usize {
        (0..SEGMENTS)
            .filter(|&k| self.exists(k))
            .map(|k| segment_len(k) * size_of::<T>())
            .sum()
    }
}

impl<T> Drop for Segments<T> {
    fn drop(&mut self) {
        for k in 0..SEGMENTS {
            let len = segment_len(k);
            // ORDERING: Relaxed: `&mut self` means that everything happened before.
            let origin = self.origins[k + BASE_BITS as usize].load(Ordering::Relaxed);
            if !origin.is_null() {
                // SAFETY: the segment begins at the place with as many places before it as there are slots in it.
                let first = unsafe { NonNull::new_unchecked(slot_at(origin, len as u64)) };
                // SAFETY: the segment came from `allocate` with this length; no borrow of `self` is left.
                unsafe { release(first, len) };
            }
        }
    }
}

fn allocate<T: Zeroable>(len: usize) -> Option<NonNull<T>> {
    if cfg!(tickwheel_loom) {
        let slots: Box<[T]> = (0..len).map(|_| T::default()).collect();
        return NonNull::new(Box::into_raw(slots).cast());
    }
    let layout = Layout::array::<T>(len).ok()?;
    // SAFETY: the layout is not zero-sized (`new` asserts it of T, and len > 0). Zero bytes are a valid
    // value of every slot (`Zeroable`).
    unsafe { pages::allocate(layout) }.map(NonNull::cast)
}

/// # Safety
///
/// `base` must come from `allocate(len)` and must not be used afterwards.
unsafe fn release<T>(base: NonNull<T>, len: usize) {
    let slots = std::ptr::slice_from_raw_parts_mut(base.as_ptr(), len);
    if cfg!(tickwheel_loom) {
        // SAFETY: `slots` came from `Box::into_raw` with the same length.
        return drop(unsafe { Box::from_raw(slots) });
    }
    if std::mem::needs_drop::<T>() {
        // SAFETY: all slots are initialised and no thread uses them any more.
        unsafe { std::ptr::drop_in_place(slots) };
    }
    if let Ok(layout) = Layout::array::<T>(len) {
        // SAFETY: same layout as in `allocate`.
        unsafe { pages::free(base.cast(), layout) };
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicU32;
    use std::cell::Cell;

    /// A slot that counts how often one of its kind is dropped.
    #[derive(Default)]
    struct Counted(u16);

    thread_local!(static DROPS: Cell<usize> = const { Cell::new(0) });

    // SAFETY: zero is a number.
    unsafe impl Zeroable for Counted {
        fn make_idle(&self) {}
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            DROPS.set(DROPS.get() + 1 + usize::from(self.0));
        }
    }

    #[derive(Default)]
    struct Word(#[expect(dead_code, reason = "only its size counts")] u64);

    // SAFETY: zero is a number.
    unsafe impl Zeroable for Word {}

    #[test]
    fn the_second_of_two_threads_gives_its_segment_back() {
        let segments = Segments::<Counted>::new();
        let [first, second] = [0, 0].map(|segment| segments.install(segment));
        assert!(first.is_some() && first == second);
        assert_eq!(DROPS.get(), segment_len(0), "the second one's slots");
        drop(segments);
        assert_eq!(DROPS.get(), 2 * segment_len(0));
    }

    /// One for which there was no memory when other threads had found some for a later one.
    #[test]
    fn a_segment_that_is_missing_hides_no_later_one() {
        let segments = Segments::<Counted>::new();
        for segment in [0, 2] {
            assert!(segments.install(segment).is_some());
        }
        let mut visited = Vec::new();
        segments.for_each(MAX_SLOTS, |index, _| visited.push(locate(index)));
        let slots = |segment| (0..segment_len(segment)).map(move |offset| (segment, offset));
        assert!(visited.into_iter().eq(slots(0).chain(slots(2))));
    }

    #[test]
    fn each_number_leads_to_a_slot_of_its_own() {
        let segments = Segments::<AtomicU32>::new();
        for number in (0..2000).rev() {
            // ORDERING: Relaxed, both: one thread.
            segments
                .get_or_alloc(number)
                .store(number, Ordering::Relaxed);
        }
        let slot = |number| {
            segments
                .get(number)
                .map(|slot| slot.load(Ordering::Relaxed))
        };
        assert!((0..2000).all(|number| slot(number) == Some(number)));
        // Of segments that are not there, and of none.
        for number in [
            64 * 63,
            u32::MAX / 2,
            MAX_SLOTS as u32 - 1,
            MAX_SLOTS as u32,
            u32::MAX,
        ] {
            assert_eq!(slot(number), None, "{number}");
        }
    }

    #[test]
    fn reserved_slots_are_there_and_counted() {
        let segments = Segments::<Word>::new();
        assert_eq!(segments.allocated_bytes(), 0);
        for (end, slots) in [(0, 64), (65, 192), (192, 192), (193, 448)] {
            segments.reserve(end);
            assert_eq!(segments.allocated_bytes(), slots * 8);
            assert!(segments.get(slots as u32 - 1).is_some());
        }
    }

    #[test]
    fn location_covers_the_whole_range_without_gaps() {
        assert_eq!(locate(0), (0, 0));
        for k in 1..SEGMENTS {
            let first = ((1u64 << k) - 1) << BASE_BITS;
            assert_eq!(locate(first as u32), (k, 0));
            assert_eq!(locate(first as u32 - 1), (k - 1, segment_len(k - 1) - 1));
        }
        let (segment, offset) = locate((MAX_SLOTS - 1) as u32);
        assert_eq!(
            (segment, offset),
            (SEGMENTS - 1, segment_len(SEGMENTS - 1) - 1)
        );
    }
}
