//! References that keep an engine's memory, and its threads.
//!
//! | holder | how it is counted | what it keeps |
//! |---|---|---|
//! | [`TimerRef`], in a `Timer` | `Inner::timers`, one count that all share | workers and memory; all together have one `EngineOwner` |
//! | [`EngineOwner`], of a worker | the count of its `Arc` | memory |
//! | [`EngineRef`], in a `TimerHandle` or a future | its owner, or the node that this holds, per thread and shard, see `retired` | memory |
//! | `Weak<EngineOwner>`, in a `WeakTimer` | the weak count of the `Arc` | nothing |
//!
//! The engine lies in memory of its own, behind a pointer. With its last `EngineOwner` it is retired: freed at once
//! if no handle is left, otherwise when another engine is built or retired after its last handle is gone.

use super::inner::{EngineOwner, EngineRef, Inner};
use super::retired::{Retired, RetiredEngines};
use crate::contain;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// Returns the retired engines of this process.
#[cfg(not(tickwheel_loom))]
fn retired_engines() -> &'static RetiredEngines {
    static ALL: RetiredEngines = RetiredEngines::new();
    &ALL
}

/// Returns the list of this execution, to which loom's atomics belong.
#[cfg(tickwheel_loom)]
fn retired_engines() -> &'static RetiredEngines {
    crate::sync::explored::lazy_static! {
        static ref ALL: RetiredEngines = RetiredEngines::new();
    }
    &ALL
}

// SAFETY: it gives shared access to the engine, which is `Sync` if `T: Send` (`shared_between_threads`), and its holder
// may free it on the thread that comes last, which `Inner: Send` allows.
unsafe impl<T: Send> Send for EngineRef<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for EngineRef<T> {}

impl<T> EngineRef<T> {
    #[inline]
    pub(super) fn new(engine: &Inner<T>) -> Self {
        Self(NonNull::from(engine))
    }
}

impl<T> Deref for EngineRef<T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        // SAFETY: the engine is freed after the last `EngineOwner` was dropped, and after the last handle.
        // Counted `TimerRef`s have an `EngineOwner` together, one that is not (`uncounted`) is used while a worker has
        // one. The handle or future that has an `EngineRef` is counted as made and not as dropped, or the engine is
        // static.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Clone for EngineRef<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for EngineRef<T> {}

impl<T> Deref for EngineOwner<T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        &self.0
    }
}

impl<T> Deref for TimerRef<T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        &self.0
    }
}

/// Makes the compiler check what the impls above and below rely on.
const fn shared_between_threads<T: Send + 'static>() {
    const fn is<S: Send + Sync>() {}
    is::<Inner<T>>();
}

impl<T: Send + 'static> EngineOwner<T> {
    /// Gives an engine its memory, and frees that of engines that no handle needs any more.
    pub(super) fn new(make: impl FnOnce(Weak<Self>) -> Inner<T>) -> Arc<Self> {
        const { shared_between_threads::<T>() };
        retired_engines().collect(None);
        Arc::new_cyclic(|hold| {
            let engine = Box::new(make(Weak::clone(hold)));
            Self(EngineRef(NonNull::from(Box::leak(engine))))
        })
    }
}

impl<T> Drop for EngineOwner<T> {
    fn drop(&mut self) {
        (self.calls.retire)(self.0.0);
    }
}

/// An engine that only handles may use.
struct RetiredEngine<T>(NonNull<Inner<T>>);

// SAFETY: as for `EngineOwner`.
unsafe impl<T: Send> Send for RetiredEngine<T> {}

impl<T> Retired for RetiredEngine<T> {
    fn handles_left(&self) -> u64 {
        // SAFETY: the engine is freed when this is dropped.
        let engine = unsafe { self.0.as_ref() };
        // A future may be counted as made on one shard and as dropped on another one.
        let left = engine.handles.iter().map(|handle| handle.handles_left());
        left.fold(0, u64::wrapping_add)
    }
}

impl<T> Drop for RetiredEngine<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box (`EngineOwner::new`). A retired engine is dropped when no handle
        // is left, and nothing else has a pointer to it.
        let engine = unsafe { Box::from_raw(self.0.as_ptr()) };
        // Hooks are user code, and so are their destructors.
        contain::drop_quietly("an engine", engine);
    }
}

/// Retires an engine; called once, when its last `EngineOwner` goes.
pub(super) fn retire<T: Send + 'static>(engine: NonNull<Inner<T>>) {
    retired_engines().collect(Some(Box::new(RetiredEngine(engine))));
}

/// A `Timer`'s share in its engine: with the last one the engine stops, after all that was done through the
/// earlier ones.
pub(super) struct TimerRef<T>(EngineRef<T>);

impl<T> TimerRef<T> {
    /// Counts one more and returns it, unless the engine has none left.
    pub(super) fn upgrade(hold: &Weak<EngineOwner<T>>) -> Option<Self> {
        let hold = hold.upgrade()?;
        hold.timers.add_to_others().then(|| Self(hold.0))
    }

    /// Returns a reference that is not counted, to be used while a worker holds the engine.
    ///
    /// Every `Inner` has been given its memory by `EngineOwner::new`, and who has a reference to it has an
    /// `EngineOwner` behind it.
    #[inline]
    pub(super) fn uncounted(engine: &Inner<T>) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(EngineRef::new(engine)))
    }
}

impl<T> Inner<T> {
    /// Returns another share in the memory; `None` if it is being given up.
    pub(super) fn hold(&self) -> Option<Arc<EngineOwner<T>>> {
        self.hold.upgrade()
    }

    /// Counts one more `Timer`. The first one takes an `EngineOwner` for all of them; it is given back by the last one.
    #[inline]
    pub(super) fn add_timer(&self) -> TimerRef<T> {
        let before = self.timers.add();
        if before == 0 || before > isize::MAX as usize {
            self.add_rare_timer(before);
        }
        TimerRef(EngineRef::new(self))
    }

    #[cold]
    fn add_rare_timer(&self, before: usize) {
        // With so many forgotten clones the count would come round.
        match self.hold() {
            Some(hold) if before == 0 => _ = Arc::into_raw(hold),
            _ => std::process::abort(),
        }
    }
}

impl<T> Clone for TimerRef<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.add_timer()
    }
}

impl<T> Drop for TimerRef<T> {
    fn drop(&mut self) {
        if !self.timers.remove() {
            return;
        }
        let owner = self.hold.as_ptr();
        (self.calls.stop_orphaned)(self);
        // SAFETY: the first `Timer` left one count of this `Arc` for the last one (`add_rare_timer`).
        unsafe { Arc::decrement_strong_count(owner) };
    }
}
