//! Bytes that a forked child finds zero, so that something which is read anyway tells that the process is another.
//!
//! A fork copies the memory of all threads and none of the threads but one. An engine in the child looks started and
//! has no workers. Asking for the process id costs a system call; here the kernel clears a page instead when it
//! copies the process (`MADV_WIPEONFORK`, Linux 4.14).
//!
//! All bytes of a process share pages, so that engines do not use up the kernel's limit on mappings. Where there is
//! no such page a byte lives in a box, which a fork copies as it is.
//!
//! Any thread. The lock is taken when a byte is made and when it is dropped.

use crate::sync::atomic::AtomicU8;

/// One such byte; 0 at first.
pub(crate) struct WipedByte(Storage);

enum Storage {
    Page(&'static AtomicU8),
    Box(Box<AtomicU8>),
}

impl WipedByte {
    pub(crate) fn new() -> Self {
        let boxed = || Storage::Box(Box::new(AtomicU8::new(0)));
        Self(page::take().map_or_else(boxed, Storage::Page))
    }

    #[inline]
    pub(crate) fn get(&self) -> &AtomicU8 {
        match &self.0 {
            Storage::Page(byte) => byte,
            Storage::Box(byte) => byte,
        }
    }

    /// Whether a fork clears it; one in a box stays as it was.
    pub(crate) const fn is_wiped(&self) -> bool {
        !matches!(self.0, Storage::Box(_))
    }
}

impl Drop for WipedByte {
    fn drop(&mut self) {
        if let Storage::Page(byte) = self.0 {
            page::give(byte);
        }
    }
}

#[cfg(any(not(target_os = "linux"), tickwheel_loom))]
mod page {
    use crate::sync::atomic::AtomicU8;

    pub(super) const fn take() -> Option<&'static AtomicU8> {
        None
    }

    pub(super) const fn give(_: &'static AtomicU8) {}
}

#[cfg(all(target_os = "linux", not(tickwheel_loom)))]
mod page {
    use crate::sync::atomic::{AtomicU8, Ordering};
    use crate::sync::pages;
    use rustix::mm::{Advice, madvise};
    use std::sync::{Mutex, PoisonError};

    /// Bytes of a page; smaller than or equal to the system's.
    const PAGE: usize = 4096;
    /// Bytes lie on lines of their own: each is read on every schedule of its engine.
    const APART: usize = 128;

    /// Free bytes.
    static FREE: Mutex<Vec<&'static AtomicU8>> = Mutex::new(Vec::new());

    /// A zero byte, unless the system has no such pages.
    pub(super) fn take() -> Option<&'static AtomicU8> {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        if free.is_empty() {
            free.extend(map()?);
        }
        let byte = free.pop()?;
        // ORDERING: Relaxed: handed over under the lock, or by what hands the new owner to other threads.
        byte.store(0, Ordering::Relaxed);
        Some(byte)
    }

    pub(super) fn give(byte: &'static AtomicU8) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(byte);
    }

    /// A new page, which lives as long as the process.
    fn map() -> Option<impl Iterator<Item = &'static AtomicU8>> {
        let page = pages::map(PAGE)?.as_ptr();
        // SAFETY: the page is ours, and being zeroed in a child is what its bytes are for.
        unsafe { madvise(page.cast(), PAGE, Advice::LinuxWipeOnFork) }.ok()?;
        Some((0..PAGE / APART).map(move |line| {
            // SAFETY: within the mapping, which is never unmapped; zero bytes are a valid atomic integer, and
            // no plain reference to them exists.
            unsafe { AtomicU8::from_ptr(page.add(line * APART)) }
        }))
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::sync::atomic::Ordering;

    #[test]
    fn bytes_are_apart_zero_at_first_and_used_again() {
        let bytes: Vec<WipedByte> = (0..100).map(|_| WipedByte::new()).collect();
        for (n, byte) in bytes.iter().enumerate() {
            // ORDERING: Relaxed, here and below: one thread.
            assert_eq!(byte.get().swap(n as u8 + 1, Ordering::Relaxed), 0);
        }
        for (n, byte) in bytes.iter().enumerate() {
            assert_eq!(byte.get().load(Ordering::Relaxed), n as u8 + 1);
        }
        drop(bytes);
        assert_eq!(WipedByte::new().get().load(Ordering::Relaxed), 0);
    }
}
