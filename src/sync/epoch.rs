//! Epoch-based reclamation as the inbox uses it: pin, and retire a block.
//!
//! Three forms behind one face, [`Domain`] and [`Guard`]:
//!
//! * In production a collector of `crossbeam-epoch` that only this library knows. The one that the crate shares
//!   between all its users will not do: a guard of any other user there keeps our blocks from being reused, and
//!   what other crates defer there would run, and panic, inside our calls.
//! * Under loom a fresh collector for each model, because one for all would carry state from one execution into
//!   the next.
//! * With `--cfg tickwheel_epoch_stand_in` a replacement (`loom-tests/support/stand_in.rs`) that reclaims as early as
//!   the rules allow, and whose pin is free where a model does not ask for more; so loom can explore three threads.

#[cfg(all(tickwheel_loom, not(tickwheel_epoch_stand_in)))]
pub(crate) use super::explored::Domain;
#[cfg(tickwheel_epoch_stand_in)]
pub(crate) use super::explored::stand_in::Domain;
#[cfg(not(tickwheel_epoch_stand_in))]
pub(crate) use crossbeam_epoch::Guard;
#[cfg(not(tickwheel_loom))]
pub(crate) use ours::Domain;

#[cfg(not(tickwheel_loom))]
mod ours {
    use crossbeam_epoch::{Collector, Guard, LocalHandle};
    use std::sync::OnceLock;

    static COLLECTOR: OnceLock<Collector> = OnceLock::new();

    fn collector() -> &'static Collector {
        COLLECTOR.get_or_init(Collector::new)
    }

    fn register() -> LocalHandle {
        collector().register()
    }

    thread_local! {
        static HANDLE: LocalHandle = register();
    }

    /// A reclamation domain; zero-sized in production, where all engines share one collector.
    #[derive(Debug)]
    pub(crate) struct Domain;

    impl Domain {
        pub(crate) fn new() -> Self {
            // Made here, so that no thread's first call waits for another one that makes it.
            collector();
            Self
        }

        /// Keeps everything that is retired from now on alive until the guard is dropped. Allocates in a thread's
        /// first call, and in the destructors of its thread-locals.
        #[inline]
        pub(crate) fn pin(&self) -> Guard {
            HANDLE.try_with(LocalHandle::pin).unwrap_or_else(|_| {
                // The thread ends and its handle is gone already: one for this guard, which keeps it as long as need
                // be.
                register().pin()
            })
        }
    }
}

#[cfg(not(tickwheel_epoch_stand_in))]
impl Domain {
    /// Gives a box to `heir` once every guard that was taken before this call is gone; on any thread.
    ///
    /// # Safety
    ///
    /// `retired` must come from `Box::into_raw`, only threads that hold such a guard may still reach it,
    /// and it must not be retired twice.
    pub(crate) unsafe fn retire<T: Send + 'static>(
        &self,
        retired: *mut T,
        heir: impl FnOnce(Box<T>) + Send + 'static,
    ) {
        let guard = self.pin();
        // SAFETY: the caller's promise; it is owned again once, when the last guard that may protect it is gone.
        unsafe { guard.defer_unchecked(move || heir(Box::from_raw(retired))) };
    }

    /// Hands out what no guard protects any more, so that the threads that push seldom find anything to do.
    pub(crate) fn collect(&self) {
        self.pin().flush();
    }

    /// A place where the stand-in checks that `_reached` may be looked at under the guard.
    #[inline(always)]
    pub(crate) fn check<T>(&self, _guard: &Guard, _reached: *const T) {}

    /// A place where the stand-in is told that a box serves again.
    #[inline(always)]
    pub(crate) fn serves_again<T>(&self, _served: *const T) {}
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::time::{Duration, Instant};

    fn retire_one(domain: &Domain, gone: Sender<()>) {
        // SAFETY: a fresh box that no other thread has seen, retired once.
        unsafe { domain.retire(Box::into_raw(Box::new(())), move |_| gone.send(()).unwrap()) };
    }

    /// Other threads of this process may be pinned for a moment, so one check is not enough.
    fn comes(domain: &Domain, gone: &std::sync::mpsc::Receiver<()>) -> bool {
        let patience = Instant::now() + Duration::from_secs(20);
        while Instant::now() < patience {
            domain.collect();
            if gone.try_recv().is_ok() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    #[test]
    fn a_guard_of_ours_protects_and_one_of_another_crate_does_not() {
        let domain = Domain::new();
        let (gone, going) = channel();
        let ours = domain.pin();
        retire_one(&domain, gone.clone());
        (0..100).for_each(|_| domain.collect());
        assert!(going.try_recv().is_err(), "given up under a guard");
        drop(ours);
        assert!(comes(&domain, &going));
        let theirs = crossbeam_epoch::pin();
        retire_one(&domain, gone);
        assert!(comes(&domain, &going), "a foreign guard has nothing to say here");
        drop(theirs);
    }

    #[test]
    fn a_thread_pins_in_the_destructor_of_a_thread_local() {
        struct Late(Option<(Arc<Domain>, Sender<()>)>);
        impl Drop for Late {
            fn drop(&mut self) {
                let (domain, gone) = self.0.take().unwrap();
                retire_one(&domain, gone);
            }
        }
        thread_local!(static LATE: Cell<Option<Late>> = const { Cell::new(None) });
        let domain = Arc::new(Domain::new());
        let (gone, going) = channel();
        let own = Arc::clone(&domain);
        std::thread::spawn(move || {
            // Registered first, so destroyed after the handle, which this thread's own pin makes.
            LATE.with(|late| late.set(Some(Late(Some((Arc::clone(&own), gone))))));
            drop(own.pin());
        })
        .join()
        .unwrap();
        assert!(comes(&domain, &going), "what a dying thread retires is given up too");
    }
}
