//! A piece of memory with plain values, in pages of its own where the system gives some: no allocator is asked for it
//! and none gets it back, so its owner never waits for a thread that has stopped in one.

#[cfg(all(feature = "std", target_os = "linux", not(tickwheel_loom)))]
use super::pages;
use alloc::alloc::{Layout, alloc, dealloc};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// As its twin: the system gives no pages.
#[cfg(not(all(feature = "std", target_os = "linux", not(tickwheel_loom))))]
mod pages {
    use core::ptr::NonNull;

    pub(super) const fn size() -> usize {
        usize::MAX
    }

    pub(super) const fn map(_: usize) -> Option<NonNull<u8>> {
        None
    }

    /// # Safety
    ///
    /// None is asked for.
    pub(super) const unsafe fn unmap(_: NonNull<u8>, _: usize) {}
}

/// See the module.
pub struct Piece<T: ?Sized>(NonNull<T>);

// SAFETY: it owns its values, as a box does.
unsafe impl<T: ?Sized + Send> Send for Piece<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for Piece<T> {}

/// Returns whether pages of the system serve for such a piece.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= pages::size() && layout.align() <= pages::size()
}

impl<T: Copy> Piece<[T]> {
    /// Returns a row of `len` times the same value; `None` if there is no memory.
    pub fn filled(len: usize, value: T) -> Option<Self> {
        let layout = Layout::array::<T>(len).ok()?;
        let place: NonNull<T> = if layout.size() == 0 {
            NonNull::dangling()
        } else if is_mapped(layout) {
            pages::map(layout.size())?.cast()
        } else {
            // SAFETY: the layout has a size.
            NonNull::new(unsafe { alloc(layout) })?.cast()
        };
        for at in 0..len {
            // SAFETY: within the memory, which has room for `len` values.
            unsafe { place.add(at).write(value) };
        }
        Some(Self(NonNull::slice_from_raw_parts(place, len)))
    }

    /// Returns the same row with its length in the type; `None` if that is another one.
    pub(crate) fn into_array<const N: usize>(self) -> Option<Piece<[T; N]>> {
        let place = (self.len() == N).then_some(self.0.cast())?;
        core::mem::forget(self);
        Some(Piece(place))
    }
}

impl<T> Default for Piece<[T]> {
    fn default() -> Self {
        Self(NonNull::slice_from_raw_parts(NonNull::dangling(), 0))
    }
}

impl<T: ?Sized> Deref for Piece<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: initialised by `filled`, and the piece's own.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Piece<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { self.0.as_mut() }
    }
}

impl<T: ?Sized> Drop for Piece<T> {
    fn drop(&mut self) {
        let layout = Layout::for_value(&**self);
        if layout.size() == 0 {
            return;
        }
        if is_mapped(layout) {
            // SAFETY: `filled` has mapped it; no thread uses it any more.
            unsafe { pages::unmap(self.0.cast(), layout.size()) };
        } else {
            // SAFETY: `filled` has allocated it with this layout. Its values are plain.
            unsafe { dealloc(self.0.cast().as_ptr(), layout) };
        }
    }
}

#[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
mod tests {
    use super::*;

    /// Where each has pages of its own, all of them begin with one.
    #[test]
    fn small_pieces_share_pages() {
        let begins_a_page = |words| {
            let pieces: Vec<_> = (0..64_u64)
                .filter_map(|n| Piece::filled(words, n))
                .collect();
            let addresses = pieces.iter().map(|piece| piece.as_ptr().addr());
            addresses.filter(|it| it % pages::size() == 0).count()
        };
        assert_eq!(begins_a_page(pages::size() / 8), 64);
        assert!(begins_a_page(8) < 64);
    }
}
