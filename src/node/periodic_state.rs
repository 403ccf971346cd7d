//! The contents of a periodic timer's node, and which thread may touch which part.
//!
//! ```text
//!   node ---> PeriodicState  kept   what the timer was given      the thread that ends the timer takes it
//!                    own    the template of the calls,    its owner, while it is at a call of the timer
//!                           the recurrence, the coming tick
//! ```
//!
//! The owner clones the template for each call. The template is itself a clone of what the timer was given, made when
//! the timer is scheduled, so the two parts never meet: a cancel takes what is kept while the owner clones or calls,
//! without a lock and without waiting. A thread that ends a timer that is not claimed has both parts; otherwise the one
//! of the two who lets go last frees the rest.

use crate::contain;
use crate::sync::boxed::EmptyBox;
use crate::sync::cell::{Tracked, UnsafeCell};
use crate::time::{Recurrence, Repeat};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// See the module.
pub(super) struct PeriodicState<T> {
    kept: UnsafeCell<ManuallyDrop<T>>,
    own: UnsafeCell<OwnerPart<T>>,
    clone: fn(&T) -> T,
    _tracked: Tracked,
}

/// The owner's part.
pub(super) struct OwnerPart<T> {
    /// Cloned for each call.
    template: ManuallyDrop<T>,
    /// The node's deadline shows the tick of the coming call to other threads, unless they have moved it since.
    pub(super) recurrence: Recurrence,
}

/// The periodic state behind a node. Plain data: the state word says who may use it, and for what.
pub(super) struct Link<T>(NonNull<PeriodicState<T>>);

impl<T> Clone for Link<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Link<T> {}

impl<T> Link<T> {
    /// Creates a periodic state, to be given to [`free`](Self::free) when both parts are done with.
    pub(super) fn new(place: EmptyBox<PeriodicState<T>>, repeat: Repeat<T>, template: T) -> Self {
        let Repeat {
            payload,
            clone,
            recurrence,
        } = repeat;
        let own = OwnerPart {
            template: ManuallyDrop::new(template),
            recurrence,
        };
        let state = place.put(PeriodicState {
            kept: UnsafeCell::new(ManuallyDrop::new(payload)),
            own: UnsafeCell::new(own),
            clone,
            _tracked: Tracked::new(),
        });
        Self(NonNull::from(Box::leak(state)))
    }

    /// Takes what the timer was given.
    ///
    /// # Safety
    ///
    /// The caller has ended the timer, has not let go of the periodic state, and calls this once.
    pub(super) unsafe fn take_kept(self) -> T {
        // SAFETY: the periodic state exists until the winner has let go (the function's contract); only a shared
        // reference to it is made, because the owner may use its part at the same time.
        let state = unsafe { self.0.as_ref() };
        state.kept.with_mut(|kept| {
            // SAFETY: only the one winner touches this part, and it does so once.
            ManuallyDrop::into_inner(unsafe { kept.read() })
        })
    }

    /// Uses the owner's part. `f` must not run anything of the user's, who might come back here.
    ///
    /// # Safety
    ///
    /// The caller is the owner and has claimed the timer, or has ended it while it was not claimed.
    pub(super) unsafe fn own<R>(self, f: impl FnOnce(&mut OwnerPart<T>) -> R) -> R {
        // SAFETY: the periodic state exists until its owner has let go (the function's contract); as in `take_kept`.
        let state = unsafe { self.0.as_ref() };
        state.own.with_mut(|own| {
            // SAFETY: no other thread touches this part now (the function's contract), and `f` does not come back here.
            f(unsafe { &mut *own })
        })
    }

    /// Clones the template; `None` if `Clone` panics.
    ///
    /// # Safety
    ///
    /// The caller is the owner and has claimed the timer.
    pub(super) unsafe fn clone_template(self) -> Option<T> {
        // SAFETY: the periodic state exists until its owner has let go (the function's contract); as in `take_kept`.
        let state = unsafe { self.0.as_ref() };
        state.own.with(|own| {
            // SAFETY: no thread writes the owner's part now. The user's `Clone` does not reach it either: it can end or
            // move the timer, but not turn its shard, whose turn this is.
            let template = unsafe { &(*own).template };
            contain::catch_and_log("a payload's Clone", || (state.clone)(template))
        })
    }

    /// Frees the periodic state.
    ///
    /// # Safety
    ///
    /// The kept payload has been taken, and no thread uses the periodic state from now on.
    pub(super) unsafe fn free(self) {
        // SAFETY: no other thread uses the periodic state (the function's contract), so its own part is the caller's,
        // and the template is taken once.
        let template = unsafe { self.own(|own| ManuallyDrop::take(&mut own.template)) };
        // SAFETY: the pointer came from a box in `new`, and this is the only time it is freed.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        contain::drop_payload(template);
    }
}
