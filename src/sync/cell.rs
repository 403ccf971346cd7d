//! An `UnsafeCell` with closure access, so that loom can check every read and write of a payload.

#[cfg(tickwheel_loom)]
pub(crate) use super::explored::{Tracked, UnsafeCell};

#[cfg(not(tickwheel_loom))]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(tickwheel_loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Runs `f` with a pointer for reading; loom's twin checks that no thread writes meanwhile.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Runs `f` with a pointer for writing; loom's twin checks that no other thread reads meanwhile.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Part of an allocation that loom must see freed exactly once in each execution; nothing otherwise.
#[cfg(not(tickwheel_loom))]
pub(crate) struct Tracked;

#[cfg(not(tickwheel_loom))]
impl Tracked {
    pub(crate) fn new() -> Self {
        Self
    }
}
