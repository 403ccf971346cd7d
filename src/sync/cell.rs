//! An `UnsafeCell` with closure access, so that loom can check every read and write of a payload.

#[cfg(not(tickwheel_loom))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(tickwheel_loom))]
impl<T> UnsafeCell<T> {
    /// Runs `f` with a pointer for reading; loom's twin checks that nobody writes meanwhile.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Runs `f` with a pointer for writing; loom's twin checks that nobody else looks meanwhile.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

#[cfg(tickwheel_loom)]
pub(crate) use loom::cell::UnsafeCell;
