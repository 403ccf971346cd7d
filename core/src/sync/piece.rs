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

/// Returns memory that holds nothing yet; `None` if there is none.
///
/// # Safety
///
/// The layout has a size.
unsafe fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    if is_mapped(layout) {
        pages::map(layout.size())
    } else {
        // SAFETY: the layout has a size (the function's contract).
        NonNull::new(unsafe { alloc(layout) })
    }
}

/// Frees memory.
///
/// # Safety
///
/// It came from [`allocate`] with this layout, and no thread uses it any more.
unsafe fn free(place: NonNull<u8>, layout: Layout) {
    if is_mapped(layout) {
        // SAFETY: `allocate` has mapped it (the function's contract).
        unsafe { pages::unmap(place, layout.size()) };
    } else {
        // SAFETY: `allocate` has it from the allocator (the function's contract).
        unsafe { dealloc(place.as_ptr(), layout) };
    }
}

impl<T: Copy> Piece<[T]> {
    /// Returns a row of `len` times the same value; `None` if there is no memory.
    pub fn filled(len: usize, value: T) -> Option<Self> {
        let layout = Layout::array::<T>(len).ok()?;
        let place: NonNull<T> = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: the layout has a size.
            unsafe { allocate(layout) }?.cast()
        };
        for at in 0..len {
            // SAFETY: within the memory, which has room for `len` values.
            unsafe { place.add(at).write(value) };
        }
        Some(Self(NonNull::slice_from_raw_parts(place, len)))
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
        if layout.size() > 0 {
            // SAFETY: `filled` has allocated it with this layout. Its values are plain, and no thread uses it any more.
            unsafe { free(self.0.cast(), layout) };
        }
    }
}

/// The same with a fixed number of places, of which the first `len` have values. Pages beyond these are not touched, so
/// they take no memory of the machine. The default has no places.
pub struct Room<T> {
    place: NonNull<T>,
    /// Values that are there.
    len: usize,
    capacity: usize,
}

// SAFETY: it owns its values, as a box does.
unsafe impl<T: Send> Send for Room<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Room<T> {}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self {
            place: NonNull::dangling(),
            len: 0,
            capacity: 0,
        }
    }
}

impl<T: Copy> Room<T> {
    /// Returns so many places without values, at least one; `None` if there is no memory.
    pub fn with_capacity(capacity: usize) -> Option<Self> {
        let layout = Layout::array::<T>(capacity).ok()?;
        assert!(layout.size() > 0, "it has a size");
        // SAFETY: the layout has a size, as was just checked.
        let place = unsafe { allocate(layout) }?.cast();
        Some(Self {
            place,
            len: 0,
            capacity,
        })
    }

    /// Appends a value, and returns its number.
    ///
    /// # Panics
    ///
    /// If there is no place left.
    pub fn push(&mut self, value: T) -> usize {
        let at = self.len;
        assert!(at < self.capacity, "there is a place");
        // SAFETY: within the memory, which has room for `capacity` values.
        unsafe { self.place.add(at).write(value) };
        self.len += 1;
        at
    }
}

impl<T> Room<T> {
    /// Returns the number of places.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<T> Deref for Room<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `push` has written `len` values, and they are the room's own.
        unsafe { core::slice::from_raw_parts(self.place.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Room<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`.
        unsafe { core::slice::from_raw_parts_mut(self.place.as_ptr(), self.len) }
    }
}

impl<T> Drop for Room<T> {
    fn drop(&mut self) {
        if let (1.., Ok(layout)) = (self.capacity, Layout::array::<T>(self.capacity)) {
            // SAFETY: `with_capacity` has allocated it with this layout. Its values are plain, and no thread uses it any
            // more.
            unsafe { free(self.place.cast(), layout) };
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
