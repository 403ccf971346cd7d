//! Epoch-based reclamation as the inbox uses it: pin, and retire a block.
//!
//! Each inbox has a domain of its own. Each thread that writes to it has a *participant*, beside its writer. The
//! collector that `crossbeam-epoch` shares between all its users will not do: a guard of any of them keeps our blocks
//! from being reused, and their deferred functions would run, and panic, inside our calls. One for all engines of the
//! process will not do either: a thread that is pinned when the process forks stays pinned in the child.
//!
//! With `--cfg tickwheel_epoch_stand_in` a replacement (`loom-tests/support/stand_in.rs`) has the same face. It
//! reclaims as early as the rules allow, and its pin is free where a model does not ask for more. So loom can explore
//! three threads.

use super::boxed::EmptyBox;

#[cfg(tickwheel_epoch_stand_in)]
pub(crate) use super::explored::stand_in::{
    Domain, Guard, Participant, check, retire, serves_again,
};
#[cfg(not(tickwheel_epoch_stand_in))]
pub(crate) use crossbeam_epoch::{Collector as Domain, Guard, LocalHandle as Participant};

/// Returns whether there is memory for what the epoch asks of the allocator at a time, a participant or two bags of
/// what was retired: it has no way to say that there is none. Another thread may take that memory before the epoch does.
pub(crate) fn has_memory() -> bool {
    // Or an optimiser leaves an allocation out that nobody looks at, and takes it for granted.
    std::hint::black_box(EmptyBox::<[u64; 1024]>::new()).is_some()
}

/// Gives a box to `heir` once every guard that was taken before this call is gone; on any thread that pins.
///
/// # Safety
///
/// `retired` must come from `Box::into_raw`, only threads with a guard of the same domain may still
/// reach it, and it must not be retired twice.
#[cfg(not(tickwheel_epoch_stand_in))]
pub(crate) unsafe fn retire<T: Send + 'static>(
    guard: &Guard,
    retired: *mut T,
    heir: impl FnOnce(Box<T>) + Send + 'static,
) {
    // SAFETY: the caller's promise; it is owned again once, when the last guard that may protect it is gone.
    unsafe { guard.defer_unchecked(move || heir(Box::from_raw(retired))) };
}

/// Lets the stand-in check that `_reached` may be looked at under the guard.
#[cfg(not(tickwheel_epoch_stand_in))]
#[inline(always)]
pub(crate) fn check<T>(_guard: &Guard, _reached: *const T) {}

/// Tells the stand-in that a box serves again.
#[cfg(not(tickwheel_epoch_stand_in))]
#[inline(always)]
pub(crate) fn serves_again<T>(_domain: &Domain, _served: *const T) {}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    fn retire_one(participant: &Participant, gone: Sender<()>) {
        let guard = participant.pin();
        // SAFETY: a fresh box that no other thread has seen, retired once.
        unsafe {
            retire(&guard, Box::into_raw(Box::new(())), move |_| {
                gone.send(()).unwrap()
            })
        };
        guard.flush();
    }

    #[test]
    fn a_guard_of_the_domain_protects_and_one_of_another_does_not() {
        let (domain, other) = (Domain::new(), Domain::new());
        let [ours, second, theirs] = [domain.register(), domain.register(), other.register()];
        let (gone, going) = channel();
        let collect = || (0..100).for_each(|_| ours.pin().flush());
        let guard = second.pin();
        retire_one(&ours, gone.clone());
        collect();
        assert!(going.try_recv().is_err(), "given up under a guard");
        drop(guard);
        collect();
        assert!(going.try_recv().is_ok());
        let foreign = (theirs.pin(), crossbeam_epoch::pin());
        retire_one(&ours, gone);
        collect();
        assert!(
            going.try_recv().is_ok(),
            "a foreign guard has nothing to say here"
        );
        drop(foreign);
    }
}
