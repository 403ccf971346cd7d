//! The system's allocator, with orders that each thread gives for itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

thread_local! {
    static STOP_HERE: Cell<bool> = const { Cell::new(false) };
    /// Requests of so many bytes and more are refused.
    static REFUSED_FROM: Cell<usize> = const { Cell::new(usize::MAX) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// The pieces of memory that the thread gets before it gets none.
    static PIECES_LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The calls before the one to stop in, whether that is for memory or gives some back.
    static STOP_AFTER: Cell<Option<u64>> = const { Cell::new(None) };
    /// Whether the thread waits in the allocator for one that has stopped there, as for the lock of an arena.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// A thread stands still in the allocator, or has done so.
static STOPPED: AtomicBool = AtomicBool::new(false);
static GO_ON: AtomicBool = AtomicBool::new(false);
/// The bytes that the process has got and not given back.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// See the module.
struct Obedient;

/// Notes a call of the allocator, and waits or stops in it if the calling thread was told to.
fn enter() {
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    // The cells are gone while a thread ends.
    if let Ok(Some(before)) = STOP_AFTER.try_with(Cell::get) {
        STOP_AFTER.set(before.checked_sub(1));
        if before == 0 {
            stand();
        }
    } else if WAITS.try_with(Cell::get).unwrap_or(false) && STOPPED.load(Ordering::SeqCst) {
        wait();
    }
}

/// Stands still until [`go_on`].
fn stand() {
    STOPPED.store(true, Ordering::SeqCst);
    wait();
}

fn wait() {
    while !GO_ON.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The bytes that the process has got and not given back.
pub(crate) fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// How often the calling thread has been in the allocator, to get memory or to give it back.
pub(crate) fn calls() -> u64 {
    CALLS.get()
}

/// Carries out what the calling thread has asked for; whether it may have so many bytes.
fn obey(bytes: usize) -> bool {
    enter();
    if STOP_HERE.try_with(Cell::take).unwrap_or(false) {
        stand();
    }
    REFUSED_FROM
        .try_with(Cell::get)
        .is_ok_and(|least| bytes < least)
        && PIECES_LEFT.try_with(take_piece).unwrap_or(true)
}

/// Counts a piece of those that the calling thread still gets; whether there was one left.
fn take_piece(left: &Cell<u64>) -> bool {
    if left.get() == u64::MAX {
        return true;
    }
    let rest = left.get().checked_sub(1);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}

/// The calling thread gets so many pieces of memory while `what` runs, and then none.
pub(crate) fn refusing_after<R>(pieces: u64, what: impl FnOnce() -> R) -> R {
    PIECES_LEFT.set(pieces);
    let result = what();
    PIECES_LEFT.set(u64::MAX);
    result
}

/// Counts what the process has more and less, unless there was no memory.
fn hold(place: *mut u8, more: usize, less: usize) -> *mut u8 {
    if !place.is_null() {
        HELD.fetch_add(more, Ordering::Relaxed);
        HELD.fetch_sub(less, Ordering::Relaxed);
    }
    place
}

// SAFETY: every method hands its arguments to the system's allocator unchanged, or answers that there is no memory;
// the wait before that neither allocates nor unwinds.
unsafe impl GlobalAlloc for Obedient {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !obey(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        hold(unsafe { System.alloc(layout) }, layout.size(), 0)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !obey(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as in `alloc`.
        hold(unsafe { System.alloc_zeroed(layout) }, layout.size(), 0)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        enter();
        // SAFETY: `place` came from one of the others, that is from `System`, with this layout.
        unsafe { System.dealloc(place, layout) }
        hold(place, 0, layout.size());
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Of a smaller size, too: an allocator without a `realloc` of its own makes a copy.
        if !obey(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: as in `dealloc`; the caller's promise about `layout` and `size` is passed on.
        let place = unsafe { System.realloc(place, layout, size) };
        hold(place, size, layout.size())
    }
}

#[global_allocator]
static ALLOCATOR: Obedient = Obedient;

/// Forgets earlier stops; the next one lasts until [`go_on`]. To be called before the other thread can get its order:
/// otherwise [`has_stopped`] may tell of an earlier stop, and [`go_on`] may come before the order.
pub(crate) fn expect_a_stop() {
    STOPPED.store(false, Ordering::SeqCst);
    GO_ON.store(false, Ordering::SeqCst);
}

/// The calling thread stands still in its next allocation, until [`go_on`].
pub(crate) fn stop_at_the_next_allocation() {
    expect_a_stop();
    STOP_HERE.set(true);
}

/// The calling thread stands still in the allocator after so many calls of it, until [`go_on`].
pub(crate) fn stop_at_the_next_call(after: u64) {
    STOP_AFTER.set(Some(after));
}

/// From now on the calling thread waits in the allocator for one that has stopped there.
pub(crate) fn wait_for_whoever_has_stopped() {
    WAITS.set(true);
}

/// The calling thread gets less than so many bytes at a time while `what` runs, and the process no mapping of as many.
pub(crate) fn refusing_from<R>(bytes: usize, what: impl FnOnce() -> R) -> R {
    refuse_from(bytes);
    let result = what();
    refuse_from(usize::MAX);
    result
}

/// Like [`refusing_from`], where the process may map what it wants.
pub(crate) fn refusing_pieces_from<R>(bytes: usize, what: impl FnOnce() -> R) -> R {
    REFUSED_FROM.set(bytes);
    let result = what();
    REFUSED_FROM.set(usize::MAX);
    result
}

/// From now on, within [`refusing_from`], the calling thread gets less than so many bytes at a time.
pub(crate) fn refuse_from(bytes: usize) {
    REFUSED_FROM.set(usize::MAX);
    #[cfg(target_os = "linux")]
    limit_mappings(bytes);
    REFUSED_FROM.set(bytes);
}

/// The bytes that the process has mapped.
#[cfg(target_os = "linux")]
pub(crate) fn mapped() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages * page as usize
}

/// Limits the memory that the process may map to less than so many bytes beyond what it has.
#[cfg(target_os = "linux")]
fn limit_mappings(bytes: usize) {
    let mut limit = libc::RLIM_INFINITY;
    if bytes < usize::MAX {
        // Smaller requests are served from what the allocator keeps of this.
        drop((0..7).map(|_| vec![1_u8; 16 * 1024]).collect::<Vec<_>>());
        limit = (mapped() + bytes - 1) as libc::rlim_t;
    }
    let limit = libc::rlimit {
        rlim_cur: limit,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a limit of this process, which only the tests of this program meet.
    let refused = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(refused, 0);
}

/// Whether a thread stands still, or has done so, since [`expect_a_stop`].
pub(crate) fn has_stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

/// Lets it go on.
pub(crate) fn go_on() {
    GO_ON.store(true, Ordering::SeqCst);
}
