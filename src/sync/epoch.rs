//! Epoch-based reclamation as the inbox uses it: pin, and retire a block.
//!
//! Three forms behind one face, [`Domain`] and [`Guard`]. In production the process-wide collector of
//! `crossbeam-epoch`. Under loom a fresh collector for each model (the global one would carry state from
//! one execution into the next). With `--cfg tickwheel_epoch_stand_in` a thin replacement whose pin is
//! free: it lets loom explore three and more threads, which the real collector does not allow in
//! reasonable time.
//!
//! The stand-in frees nothing before the domain itself goes, so it cannot show a use after free as
//! such. Instead it checks the two rules that make the real collector safe to use: nothing is retired
//! twice, and nobody who pins after a retirement reaches what was retired. The second check needs the
//! fence that the real pin has, and a fence in every push would cover up weak orderings elsewhere; so
//! only a model that asks for it ([`check_the_next_domain`]) gets both.

#[cfg(not(tickwheel_epoch_stand_in))]
pub(crate) use crossbeam_epoch::Guard;
#[cfg(tickwheel_epoch_stand_in)]
pub(crate) use stand_in::{Domain, Guard, check_the_next_domain};

/// A reclamation domain; zero-sized in production.
#[cfg(all(not(tickwheel_loom), not(tickwheel_epoch_stand_in)))]
#[derive(Debug)]
pub(crate) struct Domain;

#[cfg(all(not(tickwheel_loom), not(tickwheel_epoch_stand_in)))]
impl Domain {
    pub(crate) fn new() -> Self {
        Self
    }

    /// Keeps everything that is retired from now on alive until the guard is dropped.
    #[inline]
    pub(crate) fn pin(&self) -> Guard {
        crossbeam_epoch::pin()
    }
}

#[cfg(all(tickwheel_loom, not(tickwheel_epoch_stand_in)))]
#[derive(Debug, Default)]
pub(crate) struct Domain(crossbeam_epoch::Collector);

#[cfg(all(tickwheel_loom, not(tickwheel_epoch_stand_in)))]
impl Domain {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn pin(&self) -> Guard {
        self.0.register().pin()
    }
}

#[cfg(not(tickwheel_epoch_stand_in))]
impl Domain {
    /// Gives a box to `heir` once every guard that was taken before this call is gone; on any thread.
    ///
    /// # Safety
    ///
    /// `retired` must come from `Box::into_raw`, nobody may be able to reach it any more who does not
    /// hold such a guard, and it must not be retired twice.
    pub(crate) unsafe fn retire<T: Send + 'static>(
        &self,
        retired: *mut T,
        heir: impl FnOnce(Box<T>) + Send + 'static,
    ) {
        let guard = self.pin();
        // SAFETY: the caller's promise; it is owned again once, when the last guard that may protect it is gone.
        unsafe { guard.defer_unchecked(move || heir(Box::from_raw(retired))) };
    }

    /// A place where the stand-in checks that `_reached` may be looked at under the guard.
    #[inline(always)]
    pub(crate) fn check<T>(&self, _guard: &Guard, _reached: *const T) {}
}

#[cfg(tickwheel_epoch_stand_in)]
mod stand_in {
    use crate::sync::atomic::{Ordering, fence};
    use std::cell::Cell;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    thread_local! {
        static CHECK_THE_NEXT: Cell<bool> = const { Cell::new(false) };
    }

    /// The next domain made on this thread checks what is reached under its guards, and its pins and
    /// retirements are `SeqCst` fences.
    #[cfg_attr(not(test), expect(dead_code, reason = "asked for by models"))]
    pub(crate) fn check_the_next_domain() {
        CHECK_THE_NEXT.set(true);
    }

    #[derive(Debug)]
    pub(crate) struct Domain {
        /// What was retired, in order. The lock is never held across anything that loom schedules.
        retired: Mutex<Vec<Retired>>,
        checked: bool,
    }

    /// A pin: remembers how much had been retired before it.
    #[derive(Debug)]
    pub(crate) struct Guard {
        retired_before: usize,
    }

    #[derive(Debug)]
    struct Retired {
        address: *mut (),
        free: unsafe fn(*mut ()),
    }

    // SAFETY: an address that only `Domain::drop` uses; what lies behind it is `Send` (see `retire`).
    unsafe impl Send for Retired {}

    impl Domain {
        pub(crate) fn new() -> Self {
            Self { retired: Mutex::default(), checked: CHECK_THE_NEXT.take() }
        }

        fn list(&self) -> MutexGuard<'_, Vec<Retired>> {
            self.retired.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn pin(&self) -> Guard {
            if self.checked {
                // ORDERING: SeqCst as in the real collector, pairs with `retire`: whoever pins after a
                // retirement sees what was unlinked before it. [F3]
                fence(Ordering::SeqCst);
            }
            Guard { retired_before: self.list().len() }
        }

        /// As in the real form; frees when the domain is dropped, past the heir.
        ///
        /// # Safety
        ///
        /// As in the real form.
        pub(crate) unsafe fn retire<T: Send + 'static>(
            &self,
            retired: *mut T,
            _heir: impl FnOnce(Box<T>) + Send + 'static,
        ) {
            if self.checked {
                // ORDERING: SeqCst as in the real collector, pairs with `pin`. [F3]
                fence(Ordering::SeqCst);
            }
            let address = retired.cast();
            let mut list = self.list();
            assert!(list.iter().all(|old| old.address != address), "retired twice");
            list.push(Retired { address, free: free::<T> });
        }

        /// Panics if `reached` was retired before the guard was taken: the real collector might have
        /// freed it.
        pub(crate) fn check<T>(&self, guard: &Guard, reached: *const T) {
            if !self.checked {
                return;
            }
            let list = self.list();
            let retired = list.iter().position(|old| old.address.cast_const() == reached.cast());
            assert!(
                retired.is_none_or(|place| place >= guard.retired_before),
                "reached what was retired before the guard was taken"
            );
        }
    }

    impl Drop for Domain {
        fn drop(&mut self) {
            for Retired { address, free } in self.list().drain(..) {
                // SAFETY: `retire`'s caller handed the box over, once (asserted there), and `&mut self`
                // means that no guard of this domain is in use.
                unsafe { free(address) };
            }
        }
    }

    /// # Safety
    ///
    /// `address` must come from `Box::<T>::into_raw` and must not be used afterwards.
    unsafe fn free<T>(address: *mut ()) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(address.cast::<T>()) });
    }
}
