//! A payload on its way from the caller of a schedule into a node.
//!
//! It stays where the caller has it until it is copied to its node. Given from function to function it would be copied
//! several times. A caller writes a closure as single words. A copy reads two words at once, and such a read waits until
//! both stores have reached the cache: 11 ns of each pair with a closure.
//!
//! An offer is used up by the node, or by a [`Refusal`]. So a schedule cannot fail once the node has the payload, unless
//! it takes the payload back.

use crate::types::{ScheduleError, ScheduleErrorKind, Scheduled};
use std::mem::{self, ManuallyDrop, MaybeUninit};

/// A payload that lies with the caller of a schedule.
pub(crate) struct Offer<'a, T>(&'a ManuallyDrop<T>);

/// Why a schedule fails. The caller owns the payload, which lies where it was offered.
pub(crate) struct Refusal(ScheduleErrorKind);

/// Offers a payload to a schedule; it comes back in the error if that fails.
#[inline(always)] // of every schedule
pub(crate) fn offer<T, N>(
    payload: T,
    schedule: impl FnOnce(Offer<'_, T>) -> Result<N, Refusal>,
) -> Scheduled<T, N> {
    let payload = ManuallyDrop::new(payload);
    match schedule(Offer(&payload)) {
        Ok(name) => Ok(name),
        Err(Refusal(kind)) => Err(ScheduleError::new(kind, ManuallyDrop::into_inner(payload))),
    }
}

impl Refusal {
    /// Refuses a timer whose node has had the payload. `payload` is the node's copy, and the caller's is the same.
    pub(crate) fn of_taken_back<T>(payload: T, kind: ScheduleErrorKind) -> Self {
        mem::forget(payload);
        Self(kind)
    }

    /// Changes the reason.
    pub(crate) fn map(self, f: impl FnOnce(ScheduleErrorKind) -> ScheduleErrorKind) -> Self {
        Self(f(self.0))
    }
}

impl<T> Offer<'_, T> {
    /// Leaves the payload to the caller.
    pub(crate) fn refuse(self, kind: ScheduleErrorKind) -> Refusal {
        Refusal(kind)
    }

    /// Passes the payload by value to a schedule that is not inlined, so that a small one stays in registers here. An
    /// error of `schedule` must carry this payload.
    #[inline(always)]
    pub(crate) fn by_value<N>(
        self,
        schedule: impl FnOnce(T) -> Scheduled<T, N>,
    ) -> Result<N, Refusal> {
        // SAFETY: the caller drops its copy only if the schedule fails, and then this one is forgotten.
        let payload = unsafe { std::ptr::from_ref::<T>(self.0).read() };
        schedule(payload).map_err(|error| {
            let (kind, payload) = error.into_parts();
            Refusal::of_taken_back(payload, kind)
        })
    }

    /// Copies the payload to `place`. From then on the schedule succeeds, or takes the payload from there back.
    ///
    /// # Safety
    ///
    /// `place` may be written.
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
            // SAFETY: the function's contract; the caller's copy is used only if this one was forgotten.
            unsafe { place.write(from.read()) };
            return;
        }
        for word in 0..words {
            // SAFETY: as above; the type consists of such words, of any contents. Volatile, or the compiler would read
            // two at a time.
            unsafe {
                let value = from.cast::<Word>().add(word).read_volatile();
                place.cast::<Word>().add(word).write(value);
            }
        }
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Moves a payload to another place and back out, and refuses it: it is the same each time.
    fn goes_both_ways<T: Clone + PartialEq + std::fmt::Debug>(payload: T) {
        let mut place = MaybeUninit::<T>::uninit();
        let moved = offer(payload.clone(), |offered| {
            // SAFETY: the place is ours.
            unsafe { offered.move_to(place.as_mut_ptr()) };
            Ok(())
        });
        assert!(moved.is_ok());
        // SAFETY: it was moved there.
        assert_eq!(unsafe { place.assume_init_read() }, payload);

        let taken_back = offer(payload.clone(), |offered| {
            // SAFETY: as above.
            unsafe { offered.move_to(place.as_mut_ptr()) };
            // SAFETY: as above.
            let moved = unsafe { place.assume_init_read() };
            Err::<(), _>(Refusal::of_taken_back(moved, ScheduleErrorKind::Stopped))
        });
        assert_eq!(taken_back.unwrap_err().into_payload(), payload);

        let refused =
            |offered: Offer<'_, T>| Err::<(), _>(offered.refuse(ScheduleErrorKind::OutOfMemory));
        assert_eq!(
            offer(payload.clone(), refused).unwrap_err().into_payload(),
            payload
        );
        let by_value = |offered: Offer<'_, T>| offered.by_value(|payload| offer(payload, refused));
        assert_eq!(
            offer(payload.clone(), by_value).unwrap_err().into_payload(),
            payload
        );
    }

    #[derive(Clone, PartialEq, Debug)]
    #[repr(align(16))]
    struct Wide([u8; 32]);

    #[test]
    fn payloads_of_all_sizes_go_both_ways() {
        goes_both_ways(());
        goes_both_ways(7_u8);
        goes_both_ways([1_usize, 2, 3]);
        goes_both_ways([1_usize, 2, 3, 4, 5, 6, 7, 8]);
        goes_both_ways([1_usize, 2, 3, 4, 5, 6, 7, 8, 9]);
        goes_both_ways((1_u8, 2_usize, 3_u16, 4_usize));
        goes_both_ways(Wide([5; 32]));
        let owner = Arc::new(String::from("owned"));
        goes_both_ways((Arc::clone(&owner), Arc::clone(&owner), owner.to_string()));
        assert_eq!(Arc::strong_count(&owner), 1, "each copy was dropped once");
    }
}
