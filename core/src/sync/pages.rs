//! Zeroed memory from the system, which can take it back for a while: the addresses stay, and read as zero.
//!
//! Large pieces are mappings of their own, so that it is known what lies beside them and what the system makes of
//! them. Small pieces come from the allocator and are never given back; so does everything where there is no
//! `madvise`. Models under loom take none: `sync::segments` has its own way there.
//!
//! Any thread.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Pieces of so many bytes and more can be given back in part.
#[cfg(target_os = "linux")]
const LARGE: usize = 16 * 1024;

/// Pieces of so many bytes and more are worth huge pages, of which each takes 2 MiB on most machines.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 * 1024 * 1024;

/// Returns whether a piece with this layout consists of whole pages, from which some can be given back.
#[cfg(target_os = "linux")]
pub fn can_be_given_back(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= size()
}

/// Returns false: there is no way here.
#[cfg(not(target_os = "linux"))]
pub const fn can_be_given_back(_: Layout) -> bool {
    false
}

/// Returns the bytes of a page, a power of two.
#[cfg(target_os = "linux")]
pub fn size() -> usize {
    super::system::page_size()
}

/// Like its twin; no page is given back here.
#[cfg(not(target_os = "linux"))]
pub const fn size() -> usize {
    4096
}

/// Allocates zeroed memory; `None` if there is none.
///
/// # Safety
///
/// The layout has a size.
pub unsafe fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    if can_be_given_back(layout) {
        return map(layout.size());
    }
    // SAFETY: the layout has a size (the function's contract).
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// Frees memory for good.
///
/// # Safety
///
/// `place` came from [`allocate`] with this layout, and no thread uses it from now on.
pub unsafe fn free(place: NonNull<u8>, layout: Layout) {
    if can_be_given_back(layout) {
        // SAFETY: the function's contract: this is a mapping of that size.
        unsafe { unmap(place, layout.size()) };
    } else {
        // SAFETY: the function's contract: it came from the allocator with this layout.
        unsafe { std::alloc::dealloc(place.as_ptr(), layout) };
    }
}

#[cfg(target_os = "linux")]
pub(super) use super::system::{map, unmap};

#[cfg(not(target_os = "linux"))]
pub(super) fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

/// # Safety
///
/// None is needed: there are no mappings.
#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn unmap(_: NonNull<u8>, _: usize) {}

/// Gives pages back to the system: they read as zero until they are written again, which takes new memory. False if
/// the system does not take them (locked memory, for one): then they are as they were.
///
/// # Safety
///
/// The bytes are whole pages, of a piece that [`can_be_given_back`] or of the caller alone. Threads that read them
/// meanwhile do so by atomics and accept zeros, and no thread writes them.
pub unsafe fn give_back(place: NonNull<u8>, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: pages of ours (the function's contract): they are replaced by zeroed ones and nothing else happens.
        unsafe { super::system::advise(place.as_ptr(), bytes, libc::MADV_DONTNEED) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (place, bytes);
        false
    }
}

/// Advises the system to lay memory of the caller's in huge pages, if it is large and if the system takes advice.
///
/// Meant for memory that grows by being copied and is never given back in part. The first touch of a huge page waits
/// until all of it is zeroed, and a part that is given back stays with the process until the whole page is. What lies
/// beside the piece in its first and last page is advised as well, which has no visible effect.
pub(crate) fn prefer_huge(place: *const u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= HUGE {
        let before = place.addr() % size();
        let start = place.wrapping_sub(before).cast_mut();
        let whole = (before + bytes).next_multiple_of(size());
        // SAFETY: an advice: the contents stay as they are. It fails where the kernel knows no huge pages.
        unsafe { super::system::advise(start, whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (place, bytes);
}

/// Lets the system have the whole pages inside of a piece of memory, whose contents are lost.
///
/// # Safety
///
/// Zeros are a valid `T`, or no thread looks at the piece again, its destructor included.
pub unsafe fn empty<T: ?Sized>(piece: &T) {
    if cfg!(tickwheel_loom) {
        return;
    }
    let start = std::ptr::from_ref(piece).cast::<u8>();
    let first = start.addr().next_multiple_of(size());
    let end = (start.addr() + size_of_val(piece)) / size() * size();
    if let (true, Some(place)) = (first < end, NonNull::new(start.cast_mut())) {
        // SAFETY: whole pages inside of the piece, which no thread uses any more (the function's contract).
        unsafe { give_back(place.add(first - start.addr()), end - first) };
    }
}

#[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::system::{prefers_huge, takes_pages_back};
    use core::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn large_pieces_prefer_huge_pages_and_stay_what_they_are() {
        // A mapping of its own: an allocator may hand out what has been advised before.
        let layout = Layout::array::<u8>(3 * HUGE).unwrap();
        // SAFETY: the layout has a size.
        let place = unsafe { allocate(layout) }.unwrap();
        // SAFETY: zeroed memory of this length, with no other user.
        let large = unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), layout.size()) };
        large.fill(7);
        prefer_huge(large.as_ptr(), HUGE - 1);
        assert_ne!(
            prefers_huge(large.as_ptr()),
            Some(true),
            "small ones do not"
        );
        prefer_huge(large.as_ptr(), large.len());
        assert_ne!(prefers_huge(large.as_ptr()), Some(false));
        assert_ne!(prefers_huge(&large[large.len() - 1]), Some(false));
        assert!(large.iter().all(|byte| *byte == 7));
        // SAFETY: it came from `allocate`, and this is the last use.
        unsafe { free(place, layout) };
    }

    #[test]
    fn emptying_a_piece_leaves_its_neighbours() {
        let taken = takes_pages_back();
        // Neighbours in the allocator's heap, no piece of which begins or ends with a page.
        let piece = || (0..3000).map(|_| AtomicU64::new(7)).collect();
        let pieces: Vec<Box<[AtomicU64]>> = (0..64).map(|_| piece()).collect();
        for (at, piece) in pieces.iter().enumerate() {
            if at % 2 == 0 {
                // SAFETY: zeros are integers.
                unsafe { empty(&**piece) };
            }
        }
        for (at, piece) in pieces.iter().enumerate() {
            // ORDERING: Relaxed: one thread.
            let is_zero = |word: &&AtomicU64| word.load(Ordering::Relaxed) == 0;
            let (zeros, page) = (piece.iter().filter(is_zero).count(), size() / 8);
            let whole_pages = zeros % page == 0 && zeros + 2 * page > 3000;
            assert!(if at % 2 == 0 && taken {
                whole_pages
            } else {
                zeros == 0
            });
        }
    }

    #[test]
    fn returned_memory_reads_as_zero_and_serves_again() {
        if !takes_pages_back() {
            return;
        }
        let layout = Layout::array::<u64>(LARGE / 8).unwrap();
        assert!(can_be_given_back(layout) && !can_be_given_back(Layout::new::<u64>()));
        // SAFETY: the layout has a size.
        let place = unsafe { allocate(layout) }.unwrap();
        // SAFETY: zeroed memory of this length, aligned to a page.
        let words: &[AtomicU64] =
            unsafe { std::slice::from_raw_parts(place.cast().as_ptr(), LARGE / 8) };
        // ORDERING: Relaxed throughout: one thread.
        words
            .iter()
            .for_each(|word| word.store(7, Ordering::Relaxed));
        let middle = size() / 8..3 * size() / 8;
        // SAFETY: the second and the third page; there are only atomics in them.
        assert!(unsafe { give_back(place.add(size()), 2 * size()) });
        for (at, word) in words.iter().enumerate() {
            let left = if middle.contains(&at) { 0 } else { 7 };
            assert_eq!(word.swap(9, Ordering::Relaxed), left);
        }
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 9));
        // SAFETY: it came from `allocate`, and this is the last use.
        unsafe { free(place, layout) };
    }
}
