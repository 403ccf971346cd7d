//! Epoch-based reclamation as the inbox uses it: pin, and retire a block.
//!
//! Each inbox has a domain of its own. The collector that `crossbeam-epoch` shares between all its users will not do: a
//! guard of any of them keeps our blocks from being reused, and their deferred functions would run, and panic, inside
//! our calls. One for all engines of the process will not do either: a thread that is pinned when the process forks
//! stays pinned in the child.
//!
//! Threads share a few *participants*, each of which one thread has at a time, for the length of its pin. So what an
//! epoch costs grows with the threads that are pinned at once, and not with those that have ever sent a message.
//!
//! With `--cfg tickwheel_epoch_stand_in` a replacement (`loom-tests/support/stand_in.rs`) has the same face. It
//! reclaims as early as the rules allow, and its pin is free where a model does not ask for more. So loom can explore
//! three threads.

use super::atomic::{AtomicPtr, Ordering};
use super::bounded;
use super::boxed::EmptyBox;
use std::ptr::{self, NonNull};

#[cfg(tickwheel_epoch_stand_in)]
pub(crate) use super::explored::stand_in::{
    Domain, Guard, Participant, check, retire, serves_again,
};
#[cfg(not(tickwheel_epoch_stand_in))]
pub(crate) use crossbeam_epoch::{Collector as Domain, Guard, LocalHandle as Participant};

/// Participants that are kept. More threads than these are seldom pinned at once.
const KEPT: usize = bounded(8, 2);

/// A domain, and its participants that no thread has at present.
pub(crate) struct Epoch {
    free: [AtomicPtr<Participant>; KEPT],
    domain: Domain,
}

/// A guard, with the participant that its thread has meanwhile.
pub(crate) struct Pin<'a> {
    /// `None` only while it is dropped.
    guard: Option<Guard>,
    participant: NonNull<Participant>,
    epoch: &'a Epoch,
}

impl Epoch {
    pub(crate) fn new() -> Self {
        Self {
            free: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            domain: Domain::new(),
        }
    }

    /// Keeps everything that is retired from now on alive until the pin is dropped; `None` if there is no memory for
    /// that, or for two bags of what the caller will retire. Any thread; lock-free; O(1).
    pub(crate) fn pin(&self) -> Option<Pin<'_>> {
        if !has_memory() {
            return None;
        }
        // ORDERING: Acquire pairs with the Release in `Pin::drop`: the thread that had the participant before is done
        // with it. [P31]
        let free = (self.free.iter())
            .filter(|place| !place.load(Ordering::Relaxed).is_null())
            .find_map(|place| NonNull::new(place.swap(ptr::null_mut(), Ordering::Acquire)));
        let participant = free.unwrap_or_else(|| {
            let registered = Box::into_raw(Box::new(self.domain.register()));
            // SAFETY: a box is never null.
            unsafe { NonNull::new_unchecked(registered) }
        });
        Some(Pin {
            // SAFETY: made of a box, which this thread alone has until the pin is dropped.
            guard: Some(unsafe { participant.as_ref() }.pin()),
            participant,
            epoch: self,
        })
    }

    /// Tells the stand-in that a box serves again.
    pub(crate) fn serves_again<T>(&self, served: *const T) {
        serves_again(&self.domain, served);
    }
}

impl Pin<'_> {
    pub(crate) fn guard(&self) -> &Guard {
        // A pin has its guard until it is dropped.
        self.guard.as_ref().expect("a pin has a guard")
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let participant = self.participant.as_ptr();
        // ORDERING: Release pairs with the Acquire in `Epoch::pin` [P31]. Relaxed on failure: the next place is tried.
        let kept = self.epoch.free.iter().any(|place| {
            place
                .compare_exchange(
                    ptr::null_mut(),
                    participant,
                    Ordering::Release,
                    Ordering::Relaxed,
                )
                .is_ok()
        });
        if !kept {
            // SAFETY: made of a box by `pin`; no place has it, and its guard is gone.
            drop(unsafe { Box::from_raw(participant) });
        }
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        for place in &self.free {
            // ORDERING: Relaxed: `&mut self` means that every pin was dropped before.
            let participant = place.load(Ordering::Relaxed);
            if !participant.is_null() {
                // SAFETY: made of a box by `pin`; the place alone has it.
                drop(unsafe { Box::from_raw(participant) });
            }
        }
    }
}

/// Returns whether there is memory for what the epoch asks of the allocator at a time, a participant or two bags of
/// what was retired: it has no way to say that there is none. Another thread may take that memory before the epoch does.
fn has_memory() -> bool {
    // Or an optimiser leaves an allocation out that no code looks at, and takes it for granted.
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

#[cfg(not(tickwheel_epoch_stand_in))]
#[inline(always)]
fn serves_again<T>(_domain: &Domain, _served: *const T) {}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// A retired value lives until the epoch is gone, and no longer.
    #[test]
    fn what_is_retired_goes_with_the_epoch() {
        let epoch = Epoch::new();
        let retired = std::sync::Arc::new(());
        let garbage = std::sync::Arc::clone(&retired);
        epoch.pin().unwrap().guard().defer(move || drop(garbage));
        drop(epoch);
        assert_eq!(std::sync::Arc::strong_count(&retired), 1);
    }

    #[test]
    fn threads_share_participants() {
        let epoch = Epoch::new();
        let pins: Vec<_> = (0..KEPT + 2).map(|_| epoch.pin().unwrap()).collect();
        drop(pins);
        let kept = |place: &AtomicPtr<Participant>| !place.load(Ordering::Relaxed).is_null();
        assert!(epoch.free.iter().all(kept));
        drop(epoch.pin());
        assert!(epoch.free.iter().all(kept), "it comes back");
    }

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
