//! What a periodic timer's node carries, and who may touch which part of it.
//!
//! ```text
//!   node ---> Cycle  kept   what the timer was given      whoever ends the timer takes it
//!                    own    the payload of the next call,  its owner, while it is BUSY with the timer
//!                           the course, the coming tick
//! ```
//!
//! The two parts never meet: so a cancel needs not wait for a handler that runs, and the payload is copied without a
//! lock. Whoever ends a timer that is not busy has both parts; otherwise the one of the two who lets go last frees
//! the rest.

use crate::contain;
use crate::sync::boxed::Place;
use crate::sync::cell::{Tracked, UnsafeCell};
use crate::time::{Course, Repeat};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// See the module.
pub(super) struct Cycle<T> {
    kept: UnsafeCell<ManuallyDrop<T>>,
    own: UnsafeCell<Own<T>>,
    clone: fn(&T) -> T,
    _tracked: Tracked,
}

/// The owner's part.
pub(super) struct Own<T> {
    /// The payload of the coming call, copied ahead; nothing if the copy failed, and then that call is the last.
    pub(super) next: Option<T>,
    pub(super) course: Course,
    /// The tick of the coming call. The node's deadline shows it to others, unless they have moved it since.
    pub(super) due: u64,
}

impl<T> Own<T> {
    /// Others have moved the coming call.
    pub(super) fn move_to(&mut self, due: u64) {
        self.due = due;
        self.course.move_to_tick(due);
    }
}

/// A cycle behind a node. Plain data: the state word says who may use it, and for what.
pub(super) struct Link<T>(NonNull<Cycle<T>>);

impl<T> Clone for Link<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Link<T> {}

impl<T> Link<T> {
    /// A new cycle, to be given to [`free`](Self::free) when both parts are done with.
    pub(super) fn new(place: Place<Cycle<T>>, repeat: Repeat<T>, first: T) -> Self {
        let Repeat { payload, clone, course } = repeat;
        let own = Own { next: Some(first), due: course.tick(), course };
        let cycle = place.put(Cycle {
            kept: UnsafeCell::new(ManuallyDrop::new(payload)),
            own: UnsafeCell::new(own),
            clone,
            _tracked: Tracked::new(),
        });
        Self(NonNull::from(Box::leak(cycle)))
    }

    /// Takes what the timer was given.
    ///
    /// # Safety
    ///
    /// The caller has ended the timer, has not let go of the cycle, and calls this once.
    pub(super) unsafe fn take_kept(self) -> T {
        // SAFETY: the cycle exists until the winner has let go (the function's contract); only a shared reference to
        // it is made, because the owner may use its part at the same time.
        let cycle = unsafe { self.0.as_ref() };
        cycle.kept.with_mut(|kept| {
            // SAFETY: nobody but the one winner touches this part, and it does so once.
            ManuallyDrop::into_inner(unsafe { kept.read() })
        })
    }

    /// Uses the owner's part. `f` must not run anything of the user's, who might come back here.
    ///
    /// # Safety
    ///
    /// The caller is the owner and busy with the timer, or has ended it when it was not busy.
    pub(super) unsafe fn own<R>(self, f: impl FnOnce(&mut Own<T>) -> R) -> R {
        // SAFETY: the cycle exists until its owner has let go (the function's contract); as in `take_kept`.
        let cycle = unsafe { self.0.as_ref() };
        cycle.own.with_mut(|own| {
            // SAFETY: nobody else touches this part now (the function's contract), and `f` does not come back here.
            f(unsafe { &mut *own })
        })
    }

    /// How a payload is copied.
    ///
    /// # Safety
    ///
    /// As [`own`](Self::own).
    pub(super) unsafe fn copies(self) -> fn(&T) -> T {
        // SAFETY: the cycle exists (the function's contract); the field is never written.
        unsafe { self.0.as_ref() }.clone
    }

    /// Frees the cycle.
    ///
    /// # Safety
    ///
    /// What was kept has been taken, and nobody uses the cycle from now on.
    pub(super) unsafe fn free(self) {
        // SAFETY: nobody else uses the cycle (the function's contract), so its own part is the caller's.
        let next = unsafe { self.own(|own| own.next.take()) };
        // SAFETY: the pointer came from a box in `new`, and this is the only time it is freed.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        contain::drop_payload(next);
    }
}
