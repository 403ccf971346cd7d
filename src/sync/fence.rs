//! A pair of full fences of which one side is nearly free.
//!
//! Two threads that each write one place and then read the other's need a full fence in between, both of them, or each
//! may miss what the other wrote. Where one side runs millions of times a second and the other seldom, the busy side
//! should not pay. Its [`compiler`] stops only the compiler. [`heavy`] makes every running thread of the process
//! execute a full fence at some point during the call (`membarrier(2)`: 0.2 to 3 microseconds). A thread that does not
//! run has executed one when it was switched out.
//!
//! The rule, where [`is_asymmetric`] says so: accesses before and after a `compiler` are ordered against a `heavy` as
//! if both were `SeqCst` fences. Two `compiler`s order nothing between each other.
//!
//! Whether the system can do it is decided once and never taken back. Where it cannot (other systems, kernels before
//! 4.14, processes that may not call it, Miri) the busy side needs a `SeqCst` fence.

use super::atomic::{Ordering, fence};
pub(crate) use decision::is_asymmetric;

/// Executes the rare side's fence, which orders for both, where [`is_asymmetric`] says so. Up to a few microseconds.
pub(crate) fn heavy() {
    // ORDERING: SeqCst for the caller itself, and then for all other threads. [F1]
    fence(Ordering::SeqCst);
    decision::fence_all_threads();
}

/// Keeps the compiler from moving accesses across.
#[inline(always)]
pub(crate) fn compiler() {
    #[cfg(not(tickwheel_loom))]
    // ORDERING: SeqCst: nothing may cross in either direction; the processor is the other side's business. [F1]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

#[cfg(all(target_os = "linux", not(tickwheel_loom), not(miri)))]
mod decision {
    use crate::contain;
    use crate::sync::system::membarrier;
    use std::sync::OnceLock;

    /// Returns whether [`heavy`](super::heavy) orders for a thread that executes no instruction for it. The first call
    /// decides.
    pub(crate) fn is_asymmetric() -> bool {
        static DECIDED: OnceLock<bool> = OnceLock::new();
        *DECIDED.get_or_init(|| {
            let registered = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
            registered
                .and_then(|()| membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED))
                .is_ok()
        })
    }

    pub(super) fn fence_all_threads() {
        if membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED).is_err() {
            again();
        }
    }

    /// Fences once more. It has worked before: a child after `fork` is not registered, and a filter may have been set
    /// since.
    #[cold]
    fn again() {
        let _ = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        // The global form needs no registration, and takes milliseconds.
        let fenced = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
            .or_else(|_| membarrier(libc::MEMBARRIER_CMD_GLOBAL));
        if let Err(error) = fenced {
            // Producers rely on it already, and there is no way to reach them. What a processor has written becomes
            // visible within nanoseconds, if nothing asks for more.
            contain::error(format_args!("membarrier does not work any more: {error}"));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[cfg(tickwheel_loom)]
mod decision {
    pub(crate) use crate::sync::explored::watched::{fence_all_threads, is_asymmetric};
}

#[cfg(not(any(all(target_os = "linux", not(miri)), tickwheel_loom)))]
mod decision {
    pub(crate) fn is_asymmetric() -> bool {
        false
    }

    pub(super) fn fence_all_threads() {}
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicUsize;
    use crossbeam_utils::{Backoff, CachePadded};

    /// The pattern that the pair is for: of two threads that write and then read, not both miss the other's.
    #[test]
    fn a_light_and_a_heavy_side_do_not_miss_each_other() {
        if !is_asymmetric() {
            return;
        }
        const ROUNDS: usize = 20_000;
        let count = || CachePadded::new(AtomicUsize::new(0));
        let ([left, right, met], missed) = ([count(), count(), count()], [count(), count()]);
        // Closer than a `Barrier` would: each store has to be on its way while the other thread looks.
        let meet = |times: usize| {
            // ORDERING: AcqRel and Acquire: what both did before comes first.
            met.fetch_add(1, Ordering::AcqRel);
            let backoff = Backoff::new();
            while met.load(Ordering::Acquire) < 2 * times {
                backoff.snooze();
            }
        };
        let run = |mine: &AtomicUsize, other: &AtomicUsize, miss: &AtomicUsize, fence: fn()| {
            for round in 1..=ROUNDS {
                meet(2 * round - 1);
                // ORDERING: Relaxed here and below: the fences are what is tested.
                mine.store(round, Ordering::Relaxed);
                fence();
                let seen = other.load(Ordering::Relaxed) == round;
                miss.store(usize::from(!seen), Ordering::Relaxed);
                meet(2 * round);
                let both = missed.iter().all(|miss| miss.load(Ordering::Relaxed) == 1);
                assert!(!both, "both missed the other's store in round {round}");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| run(&left, &right, &missed[0], compiler));
            run(&right, &left, &missed[1], heavy);
        });
    }
}
