//! A pair of full fences of which one side is nearly free.
//!
//! Two threads that each write one place and then read the other's need a full fence in between, both of them, or
//! each may miss what the other wrote. Where one side runs millions of times a second and the other seldom, the
//! busy side should not pay: [`light`] stops only the compiler, and [`heavy`] makes every running thread of the
//! process execute a full fence at some point during the call (`membarrier(2)`: 0.2 to 3 microseconds). A thread
//! that does not run has executed one when it was switched out.
//!
//! The rule: what is before a `light` or after it is ordered against a `heavy` as if both were `SeqCst` fences. Two
//! `light`s order nothing between each other.
//!
//! Whether the system can do it is decided once, before the first `heavy`, and never taken back: see
//! [`is_asymmetric`]. Everywhere else (other systems, kernels before 4.14, processes that may not call it, Miri,
//! models under loom) both are `SeqCst` fences.

use super::atomic::{Ordering, fence};

/// The busy side's fence: after what it has written, before what it reads.
#[inline(always)]
#[allow(dead_code, reason = "the busy side of a shard's signal has its own switch")]
pub(crate) fn light() {
    if decision::allows_light() {
        compiler();
    } else {
        // ORDERING: SeqCst, because the other side may be one only. [F4]
        fence(Ordering::SeqCst);
    }
}

/// The rare side's fence, which orders for both. Up to a few microseconds.
pub(crate) fn heavy() {
    // ORDERING: SeqCst for the caller itself, and for all others where the system cannot do it for them. [F4]
    fence(Ordering::SeqCst);
    if is_asymmetric() {
        decision::fence_all_threads();
    }
}

/// Keeps the compiler from moving accesses across.
#[inline(always)]
pub(crate) fn compiler() {
    #[cfg(not(tickwheel_loom))]
    // ORDERING: SeqCst: nothing may cross in either direction; the processor is the other side's business. [F4]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// Whether [`heavy`] orders for a thread that executes no instruction for it. The first call decides.
pub(crate) fn is_asymmetric() -> bool {
    decision::is_asymmetric()
}

#[cfg(all(target_os = "linux", not(tickwheel_loom), not(miri)))]
mod decision {
    use crate::contain;
    use crate::sync::process::{AtomicUsize, Ordering};
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::Once;

    /// Whether `light` may be light. Never goes back, so a thread that has seen it may rely on it.
    static ALLOWED: AtomicUsize = AtomicUsize::new(0);
    static DECIDED: Once = Once::new();

    #[inline(always)]
    pub(super) fn allows_light() -> bool {
        // ORDERING: Relaxed: a full fence too many does no harm, and each `heavy` decides before it fences.
        ALLOWED.load(Ordering::Relaxed) != 0
    }

    pub(super) fn is_asymmetric() -> bool {
        DECIDED.call_once(|| {
            let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited);
            let works = registered.and_then(|()| membarrier(MembarrierCommand::PrivateExpedited));
            // ORDERING: Relaxed: as above.
            ALLOWED.store(usize::from(works.is_ok()), Ordering::Relaxed);
        });
        allows_light()
    }

    pub(super) fn fence_all_threads() {
        if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            again();
        }
    }

    /// It has worked before: a child after `fork` is not registered, and a filter may have been set since.
    #[cold]
    fn again() {
        let _ = membarrier(MembarrierCommand::RegisterPrivateExpedited);
        // The global form needs no registration, and takes milliseconds.
        let fenced = membarrier(MembarrierCommand::PrivateExpedited)
            .or_else(|_| membarrier(MembarrierCommand::Global));
        if let Err(error) = fenced {
            // Others rely on it already, and there is no way to reach them. What a processor has written becomes
            // visible within nanoseconds, if nothing asks for more.
            contain::error(format_args!("membarrier does not work any more: {error}"));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[cfg(not(all(target_os = "linux", not(tickwheel_loom), not(miri))))]
mod decision {
    #[inline(always)]
    pub(super) fn allows_light() -> bool {
        false
    }

    pub(super) fn is_asymmetric() -> bool {
        false
    }

    pub(super) fn fence_all_threads() {}
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicUsize;
    use std::sync::Barrier;

    /// The pattern that the pair is for: of two threads that write and then read, not both miss the other's.
    #[test]
    fn a_light_and_a_heavy_side_do_not_miss_each_other() {
        const ROUNDS: usize = 20_000;
        let (left, right) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let missed = [const { AtomicUsize::new(0) }; 2];
        let ready = Barrier::new(2);
        let run = |mine: &AtomicUsize, other: &AtomicUsize, miss: &AtomicUsize, fence: fn()| {
            for round in 1..=ROUNDS {
                ready.wait();
                // ORDERING: Relaxed here and below: the fences are what is tested.
                mine.store(round, Ordering::Relaxed);
                fence();
                let seen = other.load(Ordering::Relaxed) == round;
                miss.store(usize::from(!seen), Ordering::Relaxed);
                ready.wait();
                let both = missed.iter().all(|miss| miss.load(Ordering::Relaxed) == 1);
                assert!(!both, "both missed the other's store in round {round}");
            }
        };
        is_asymmetric();
        std::thread::scope(|scope| {
            scope.spawn(|| run(&left, &right, &missed[0], light));
            run(&right, &left, &missed[1], heavy);
        });
    }
}
