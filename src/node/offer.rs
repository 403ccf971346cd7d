//! A payload on its way from the caller of a schedule into a node.
//!
//! It stays where the caller has it until it is moved to its node. Given from function to function it would be copied
//! several times, two words at a time. What was written as single words a moment ago cannot be read that way before
//! the processor has written it to its cache: 11 ns of each pair with a closure.

use crate::types::{ScheduleError, ScheduleErrorKind, Scheduled};
use std::mem::{self, ManuallyDrop, MaybeUninit};

/// See the module. A schedule that succeeds has moved it; one that fails has not, or has moved it back.
pub(crate) struct Offer<'a, T>(&'a ManuallyDrop<T>);

/// Offers a payload to a schedule; it comes back in the error if that fails.
#[inline(always)] // of every schedule
pub(crate) fn offer<T, N>(
    payload: T,
    schedule: impl FnOnce(Offer<'_, T>) -> Result<N, ScheduleErrorKind>,
) -> Scheduled<T, N> {
    let payload = ManuallyDrop::new(payload);
    match schedule(Offer(&payload)) {
        Ok(name) => Ok(name),
        Err(kind) => Err(ScheduleError::new(kind, ManuallyDrop::into_inner(payload))),
    }
}

impl<T> Offer<'_, T> {
    /// Calls a schedule that takes the payload itself: one out of the way, so that a payload which comes in registers
    /// stays there.
    #[inline(always)]
    pub(crate) fn by_value<N>(
        self,
        schedule: impl FnOnce(T) -> Scheduled<T, N>,
    ) -> Result<N, ScheduleErrorKind> {
        // SAFETY: the payload is not used again, unless the schedule fails; then it is forgotten here.
        let payload = unsafe { std::ptr::from_ref::<T>(self.0).read() };
        schedule(payload).map_err(|error| {
            let (kind, payload) = error.into_parts();
            mem::forget(payload);
            kind
        })
    }

    /// Moves the payload to `place`.
    ///
    /// # Safety
    ///
    /// `place` may be written. The schedule succeeds, or what lies at `place` is forgotten.
    #[inline(always)]
    pub(super) unsafe fn move_to(self, place: *mut T) {
        type Word = MaybeUninit<*const ()>;
        const LONGEST: usize = 8;
        let words = size_of::<T>() / size_of::<Word>();
        let is_whole =
            size_of::<T>() % size_of::<Word>() == 0 && align_of::<T>() >= align_of::<Word>();
        let from: *const T = &**self.0;
        // Up to two words come in registers.
        if !is_whole || words <= 2 || words > LONGEST {
            // SAFETY: the function's contract, and the payload is not used again.
            unsafe { place.write(from.read()) };
            return;
        }
        for word in 0..words {
            // SAFETY: as above; the type consists of such words, whatever they hold. Volatile, or the compiler would
            // read two at a time.
            unsafe {
                let value = from.cast::<Word>().add(word).read_volatile();
                place.cast::<Word>().add(word).write(value);
            }
        }
    }
}
