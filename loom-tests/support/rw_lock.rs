//! A read-write lock for models that is tried only. Its state is a word of the model, so that others run while it is held:
//! loom's own lock is no place at which threads change when it is released.

use super::watched::AtomicU32;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// The state while a writer has it; otherwise the number of readers.
const WRITTEN: u32 = u32::MAX;

/// See the module.
#[derive(Default)]
pub(crate) struct RwLock<T> {
    state: AtomicU32,
    /// Free for whom the state lets in; no part of the model.
    value: std::sync::RwLock<T>,
}

/// The guard of the value within goes first.
pub(crate) struct Reader<'a, T>(Option<RwLockReadGuard<'a, T>>, &'a AtomicU32);

pub(crate) struct Writer<'a, T>(Option<RwLockWriteGuard<'a, T>>, &'a AtomicU32);

impl<T> RwLock<T> {
    pub(crate) fn try_read(&self) -> Result<Reader<'_, T>, TryLockError<Reader<'_, T>>> {
        // ORDERING: Relaxed to guess and on failure; Acquire pairs with the Release of the last writer. [P42]
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let mut readers = self.state.load(relaxed);
        while readers != WRITTEN {
            let more = readers + 1;
            match self.state.compare_exchange(readers, more, acquire, relaxed) {
                Ok(_) => return Ok(Reader(self.value.try_read().ok(), &self.state)),
                Err(now) => readers = now,
            }
        }
        Err(TryLockError::WouldBlock)
    }

    pub(crate) fn try_write(&self) -> Result<Writer<'_, T>, TryLockError<Writer<'_, T>>> {
        // ORDERING: Relaxed on failure; Acquire pairs with the Release of all who had it before. [P42]
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        match self.state.compare_exchange(0, WRITTEN, acquire, relaxed) {
            Ok(_) => Ok(Writer(self.value.try_write().ok(), &self.state)),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }
}

const FREE: &str = "the state has let this thread in";

impl<T> Deref for Reader<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect(FREE)
    }
}

impl<T> Deref for Writer<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect(FREE)
    }
}

impl<T> DerefMut for Writer<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(FREE)
    }
}

impl<T> Drop for Reader<'_, T> {
    fn drop(&mut self) {
        self.0 = None;
        // ORDERING: Release pairs with the Acquire of the next writer. [P42]
        self.1.fetch_sub(1, Ordering::Release);
    }
}

impl<T> Drop for Writer<'_, T> {
    fn drop(&mut self) {
        self.0 = None;
        // ORDERING: Release pairs with the Acquire of whoever has it next. [P42]
        self.1.store(0, Ordering::Release);
    }
}
