//! The system's allocator, with orders that each thread gives for itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

thread_local! {
    static STOP_HERE: Cell<bool> = const { Cell::new(false) };
    /// Requests of so many bytes and more are refused.
    static REFUSED_FROM: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A thread stands still in the allocator, or has done so.
static STOPPED: AtomicBool = AtomicBool::new(false);
static GO_ON: AtomicBool = AtomicBool::new(false);

/// See the module.
struct Obedient;

/// Carries out what the calling thread has asked for; whether it may have so many bytes.
fn obey(bytes: usize) -> bool {
    // The cell is gone while a thread ends.
    if STOP_HERE.try_with(Cell::take).unwrap_or(false) {
        STOPPED.store(true, Ordering::SeqCst);
        while !GO_ON.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    REFUSED_FROM.try_with(Cell::get).is_ok_and(|least| bytes < least)
}

// SAFETY: every method hands its arguments to the system's allocator unchanged, or answers that there is no memory;
// the wait before that neither allocates nor unwinds.
unsafe impl GlobalAlloc for Obedient {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !obey(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !obey(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from one of the others, that is from `System`, with this layout.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // No allocator needs memory to take some back.
        if size > layout.size() && !obey(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: as in `dealloc`; the caller's promise about `layout` and `size` is passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Obedient = Obedient;

/// The calling thread stands still in its next allocation, until [`go_on`].
pub(crate) fn stop_at_the_next_allocation() {
    STOPPED.store(false, Ordering::SeqCst);
    GO_ON.store(false, Ordering::SeqCst);
    STOP_HERE.set(true);
}

/// The calling thread gets less than so many bytes at a time while `what` runs.
pub(crate) fn refusing_from<R>(bytes: usize, what: impl FnOnce() -> R) -> R {
    REFUSED_FROM.set(bytes);
    let result = what();
    REFUSED_FROM.set(usize::MAX);
    result
}

/// From now on, within [`refusing_from`], the calling thread gets less than so many bytes at a time.
pub(crate) fn refuse_from(bytes: usize) {
    REFUSED_FROM.set(bytes);
}

/// Whether a thread stands still, or has done so, since the last order.
pub(crate) fn has_stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

/// Lets it go on.
pub(crate) fn go_on() {
    GO_ON.store(true, Ordering::SeqCst);
}
