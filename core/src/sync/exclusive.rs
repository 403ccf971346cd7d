//! `Exclusive`: a value that is reached only by its owner, which makes it `Sync` for any content.

/// See the module. There is no way to a `&T` from a `&Exclusive<T>` unless `T` is `Sync` itself.
pub struct Exclusive<T>(T);

// SAFETY: a shared reference to an `Exclusive<T>` gives access to a `&T` only where `T: Sync` (`get`), and everything
// else takes the `Exclusive` by value or by `&mut`.
unsafe impl<T> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    pub const fn get(&self) -> &T
    where
        T: Sync,
    {
        &self.0
    }

    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    pub fn into_inner(self) -> T {
        self.0
    }
}
