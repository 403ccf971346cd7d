//! An allocator that counts: proof that a steady state allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, which counts what all threads allocate; a program makes it its `#[global_allocator]`.
pub struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

impl Counting {
    /// Returns the allocations and reallocations so far, and the bytes that they asked for.
    pub fn count() -> (u64, u64) {
        // ORDERING: Relaxed: a statistic; the tests read it when the threads that count are joined or idle.
        (CALLS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed))
    }
}

// SAFETY: both methods hand their arguments on to the system's allocator and return its answer unchanged, so
// the system's guarantees are this allocator's; counting neither allocates nor unwinds. The other methods are made of
// these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // ORDERING: Relaxed, here and below: a statistic.
        CALLS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout, since all allocation goes there.
        unsafe { System.dealloc(block, layout) }
    }
}
