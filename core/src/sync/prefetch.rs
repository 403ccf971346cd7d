//! Telling the processor what will be needed soon.
//!
//! Timers fire in the order of deadlines, so their nodes lie at random places: without this, one cache miss
//! follows the other. A prefetch retires at once and leaves its miss behind; plain loads, which were tried first,
//! fill the processor's window and were slower than no look ahead at all.

/// Asks for the cache line at the beginning of `place`, which may be any address. Changes nothing that a program can
/// see.
///
/// Where the language has no stable way to say so, it does nothing.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(tickwheel_loom)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction; it never faults and writes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(tickwheel_loom))))]
    let _ = place;
}
