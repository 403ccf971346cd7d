//! The calls of Linux that the crate makes beside those of std, each as a small function.
//!
//! They go through libc, which valgrind and the sanitizers can follow. Any thread; none of them allocates or blocks.

use libc::c_int;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// Returns the time since the machine was started, while it was suspended included.
pub(crate) fn since_boot() -> Duration {
    Duration::from_nanos(clock_ns(libc::CLOCK_BOOTTIME))
}

/// Returns the monotonic clock's nanoseconds.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

#[inline(always)]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes the time there.
    unsafe { libc::clock_gettime(clock, &mut time) };
    // Neither is negative: the clock begins at zero. It wraps after 584 years.
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Returns the bytes of a page.
pub(crate) fn page_size() -> usize {
    // SAFETY: reads a number of the system's.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Returns a new mapping of zeroes; `None` if there is no memory.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new private mapping at a place of the kernel's choice disturbs no other memory.
    let place = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
    NonNull::new(place.cast()).filter(|_| place != libc::MAP_FAILED)
}

/// Ends a mapping. That fails only if the kernel has no memory to split one; then the pages stay, which is a leak and
/// nothing worse.
///
/// # Safety
///
/// `place` is a mapping of this many bytes, which no thread uses any more.
pub(crate) unsafe fn unmap(place: NonNull<u8>, bytes: usize) {
    // SAFETY: the function's contract.
    unsafe { libc::munmap(place.as_ptr().cast(), bytes) };
}

/// Gives the kernel an advice about whole pages, and returns whether it takes it.
///
/// # Safety
///
/// No thread minds what the advice does to the contents.
pub(crate) unsafe fn advise(start: *mut u8, bytes: usize, advice: c_int) -> bool {
    // SAFETY: the function's contract.
    unsafe { libc::madvise(start.cast(), bytes, advice) == 0 }
}
