//! The numbers of a model's threads in place of `src/sync/slot.rs`: loom's threads all run on one thread of the system, and
//! no number is inherited.

use std::marker::PhantomData;

/// Runs `f` with the calling thread's slot.
pub(crate) fn with<R>(f: impl FnOnce(u32) -> R) -> R {
    f(super::watched::thread_number() as u32 - 1)
}

/// The calling thread's slot. Belongs to its thread.
pub(crate) struct Kept {
    pub(crate) slot: u32,
    _of_this_thread: PhantomData<*const ()>,
}

/// Returns the calling thread's slot.
pub(crate) fn keep() -> Kept {
    Kept {
        slot: with(|slot| slot),
        _of_this_thread: PhantomData,
    }
}
