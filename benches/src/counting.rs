//! An allocator that counts: proof that a steady state allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator with two counters.
///
/// ```ignore
/// #[global_allocator]
/// static ALLOCATOR: Counting = Counting::new();
/// ```
pub struct Counting {
    calls: AtomicU64,
    bytes: AtomicU64,
}

/// What has been allocated so far: calls and bytes, frees not taken off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// Allocations and reallocations.
    pub calls: u64,
    /// Bytes asked for in them.
    pub bytes: u64,
}

impl Count {
    /// What came after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { calls: self.calls - earlier.calls, bytes: self.bytes - earlier.bytes }
    }
}

impl Counting {
    /// Nothing counted yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a static needs a const fn")]
    pub const fn new() -> Self {
        Self { calls: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// The count of all threads.
    pub fn count(&self) -> Count {
        // ORDERING: Relaxed: a statistic; the tests read it when the threads that count are joined or idle.
        let calls = self.calls.load(Ordering::Relaxed);
        // ORDERING: Relaxed: as above.
        Count { calls, bytes: self.bytes.load(Ordering::Relaxed) }
    }

    fn note(&self, size: usize) {
        // ORDERING: Relaxed: a statistic.
        self.calls.fetch_add(1, Ordering::Relaxed);
        // ORDERING: Relaxed: a statistic.
        self.bytes.fetch_add(size as u64, Ordering::Relaxed);
    }
}

// SAFETY: every method hands its arguments on to the system's allocator and returns its answer unchanged, so
// the system's guarantees are this allocator's; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout, since all allocation goes there.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.note(layout.size());
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.note(size);
        // SAFETY: as in `dealloc`, and the caller keeps `realloc`'s contract.
        unsafe { System.realloc(block, layout, size) }
    }
}
