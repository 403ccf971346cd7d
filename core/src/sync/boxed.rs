//! A box that the allocator may refuse: memory first, then what goes into it.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use core::mem::MaybeUninit;

/// Memory for one value.
pub struct EmptyBox<T>(Box<MaybeUninit<T>>);

impl<T> EmptyBox<T> {
    /// Allocates a place; `None` if there is no memory.
    pub fn new() -> Option<Self> {
        const { assert!(size_of::<T>() > 0) };
        // SAFETY: the layout has a size.
        let place = unsafe { alloc(Layout::new::<T>()) }.cast::<MaybeUninit<T>>();
        // SAFETY: memory of this layout from the global allocator, with no other user; it need not be initialised.
        (!place.is_null()).then(|| Self(unsafe { Box::from_raw(place) }))
    }

    /// Returns the box, with its value.
    pub fn put(mut self, value: T) -> Box<T> {
        self.0.write(value);
        // SAFETY: just written.
        unsafe { self.0.assume_init() }
    }
}
