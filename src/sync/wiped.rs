//! Bytes that a forked child finds zero, so that something which is read anyway tells that the process is another.
//!
//! A fork copies the memory of all threads and none of the threads but one. An engine in the child looks started and
//! has no workers. Asking for the process id costs a system call. Instead the bytes are cleared in the child, twice:
//! by the kernel, which clears their page when it copies the process (`MADV_WIPEONFORK`, Linux 4.14), and by a handler
//! of `pthread_atfork`. The kernel's way covers forks that bypass libc; the handler covers every other Unix, and a
//! kernel or a filter that refuses the advice. Both miss a fork that bypasses libc where the advice is refused.
//!
//! All bytes of a process share pages, so that engines do not use up the kernel's limit on mappings. Pages live as
//! long as the process. Under loom, and so in models, a byte is a box.
//!
//! Any thread. The lock is taken when a byte is made and when it is dropped.

use crate::sync::atomic::AtomicU8;

#[cfg(not(tickwheel_loom))]
type Place = &'static AtomicU8;
#[cfg(tickwheel_loom)]
type Place = Box<AtomicU8>;

/// One such byte; 0 at first.
pub(crate) struct WipedByte(Place);

impl WipedByte {
    pub(crate) fn new() -> Self {
        #[cfg(not(tickwheel_loom))]
        return Self(page::take());
        #[cfg(tickwheel_loom)]
        return Self(Box::new(AtomicU8::new(0)));
    }

    #[inline]
    pub(crate) fn get(&self) -> &AtomicU8 {
        std::ops::Deref::deref(&self.0)
    }
}

#[cfg(not(tickwheel_loom))]
impl Drop for WipedByte {
    fn drop(&mut self) {
        page::give(self.0);
    }
}

#[cfg(not(tickwheel_loom))]
mod page {
    #[cfg(unix)]
    use crate::sync::atomic::AtomicPtr;
    use crate::sync::atomic::{AtomicU8, Ordering};
    use crate::sync::pages;
    use crossbeam_utils::CachePadded;
    use std::sync::{Mutex, PoisonError};

    /// Bytes on lines of their own: each is read on every schedule of its engine.
    type Bytes = [CachePadded<AtomicU8>; 32];

    /// A page, and the one that was made before it.
    #[cfg(unix)]
    struct Page {
        bytes: &'static Bytes,
        earlier: Option<&'static Page>,
    }

    /// The page that was made last.
    #[cfg(unix)]
    static LAST: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());

    /// Bytes that belong to no engine.
    static FREE: Mutex<Vec<&'static AtomicU8>> = Mutex::new(Vec::new());

    /// Takes a zero byte.
    pub(super) fn take() -> &'static AtomicU8 {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let byte = free.pop().unwrap_or_else(|| {
            let [first, rest @ ..] = add_page();
            free.extend(rest.iter().map(|byte| -> &AtomicU8 { byte }));
            first
        });
        // ORDERING: Relaxed: the lock, or the owner's own way to other threads, publishes the byte.
        byte.store(0, Ordering::Relaxed);
        byte
    }

    pub(super) fn give(byte: &'static AtomicU8) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(byte);
    }

    /// Makes a page. Under the lock of `FREE`.
    fn add_page() -> &'static Bytes {
        let bytes = map().unwrap_or_else(|| Box::leak(Box::default()));
        #[cfg(unix)]
        {
            // ORDERING: Acquire: another thread may have stored it. [P41]
            // SAFETY: null, or a page that was leaked below.
            let earlier = unsafe { LAST.load(Ordering::Acquire).as_ref() };
            if earlier.is_none() {
                // It fails only without memory. Then the kernel's way is left.
                // SAFETY: the handler stores to atomics that live for ever, and calls nothing.
                let _ = unsafe { libc::pthread_atfork(None, None, Some(wipe_all)) };
            }
            // ORDERING: Release pairs with `wipe_all`. [P41]
            LAST.store(Box::leak(Box::new(Page { bytes, earlier })), Ordering::Release);
        }
        bytes
    }

    /// Maps a page that the kernel clears in a child, if it can.
    fn map() -> Option<&'static Bytes> {
        let page = pages::map(size_of::<Bytes>())?;
        #[cfg(target_os = "linux")]
        // Refused by Linux before 4.14 and by some filters.
        // SAFETY: the page is ours, and its bytes are meant to be cleared in a child.
        let _ = unsafe {
            use rustix::mm::{Advice, madvise};
            madvise(page.as_ptr().cast(), size_of::<Bytes>(), Advice::LinuxWipeOnFork)
        };
        // SAFETY: zeroed memory that is never unmapped; zeros are valid atomics.
        Some(unsafe { page.cast().as_ref() })
    }

    /// Clears all bytes of all pages: in a child, whose only thread runs it before `fork` returns.
    #[cfg(unix)]
    extern "C" fn wipe_all() {
        // ORDERING: Acquire pairs with `add_page`, which another thread may have called before the fork. [P41]
        let last = LAST.load(Ordering::Acquire);
        // SAFETY: null, or a page that was leaked.
        let mut next = unsafe { last.as_ref() };
        while let Some(page) = next {
            // ORDERING: Relaxed: one thread.
            page.bytes.iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
            next = page.earlier;
        }
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

    /// Two bytes of different pages, which the kernel has been told to keep: the handler clears them in the child.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_fork_clears_the_bytes_where_the_kernel_does_not() {
        use crate::sync::pages;
        use rustix::mm::{Advice, madvise};
        let size = pages::size();
        let bytes: Vec<WipedByte> = (0..100).map(|_| WipedByte::new()).collect();
        for byte in &bytes {
            byte.get().store(1, Ordering::Relaxed);
            let page = std::ptr::from_ref(byte.get()).map_addr(|place| place / size * size);
            // SAFETY: an advice about a page of these bytes; it fails where the other one did.
            let _ = unsafe { madvise(page.cast_mut().cast(), size, Advice::LinuxKeepOnFork) };
        }
        // SAFETY: the child reads atomics and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no fork");
        if child == 0 {
            let left = bytes.iter().filter(|byte| byte.get().load(Ordering::Relaxed) != 0).count();
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(left.try_into().unwrap_or(-1)) };
        }
        let mut status = 0;
        // SAFETY: waits for our own child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "bytes that were left in the child, or a signal");
        assert!(bytes.iter().all(|byte| byte.get().load(Ordering::Relaxed) == 1));
    }
}
