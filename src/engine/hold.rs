//! Who keeps an engine's memory, and its threads.
//!
//! | holder | how it is counted | what it keeps |
//! |---|---|---|
//! | [`TimerRef`], in a `Timer` | `Inner::timers`, one count that all share | workers and memory; all together have one `Hold` |
//! | [`Hold`], of a worker | the count of its `Arc` | memory |
//! | [`HandleRef`], in a `Timeout` | per thread and shard, see `retired` | memory |
//! | [`AlarmRef`], in a future | as a `HandleRef`; of a static engine not at all | memory |
//! | `Weak<Hold>`, in a `WeakTimer` | the weak count of the `Arc` | nothing |
//!
//! The engine lies in memory of its own, behind a pointer. With its last `Hold` it is retired: freed at once if no
//! handle is left, otherwise when another engine is built or retired after its last handle is gone.

use super::inner::{Hold, Inner};
use super::retired::{Retired, RetiredEngines};
use crate::contain;
use crate::shard::ShardHandle;
use crate::sync::slot;
use crate::types::Key;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// The retired engines of this process, of any payload.
#[cfg(not(tickwheel_loom))]
fn retired_engines() -> &'static RetiredEngines<Box<dyn Retired + Send>> {
    static ALL: RetiredEngines<Box<dyn Retired + Send>> = RetiredEngines::new();
    &ALL
}

/// Loom's atomics belong to one execution.
#[cfg(tickwheel_loom)]
fn retired_engines() -> &'static RetiredEngines<Box<dyn Retired + Send>> {
    Box::leak(Box::new(RetiredEngines::new()))
}

impl Retired for Box<dyn Retired + Send> {
    fn handles_left(&self) -> u64 {
        (**self).handles_left()
    }
}

// SAFETY: a `Hold` gives shared access to the engine, which is `Sync` if `T: Send` (`shared_between_threads`), and
// frees it on whatever thread comes last, which `Inner: Send` allows.
unsafe impl<T: Send> Send for Hold<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Hold<T> {}

/// What the impls above and below rely on, checked by the compiler.
const fn shared_between_threads<T: Send + 'static>() {
    const fn is<S: Send + Sync>() {}
    is::<Inner<T>>();
}

impl<T: Send + 'static> Hold<T> {
    /// Gives an engine its memory, and frees that of engines that no handle needs any more.
    pub(super) fn new(make: impl FnOnce(Weak<Self>) -> Inner<T>) -> Arc<Self> {
        const { shared_between_threads::<T>() };
        retired_engines().collect(None);
        Arc::new_cyclic(|hold| {
            let engine = Box::new(make(Weak::clone(hold)));
            Self(NonNull::from(Box::leak(engine)))
        })
    }
}

impl<T> Deref for Hold<T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        // SAFETY: the engine is freed after the last `Hold` was dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Hold<T> {
    fn drop(&mut self) {
        (self.retire)(self.0);
    }
}

/// An engine that only handles may use.
struct RetiredEngine<T>(NonNull<Inner<T>>);

// SAFETY: as for `Hold`.
unsafe impl<T: Send> Send for RetiredEngine<T> {}

impl<T> Retired for RetiredEngine<T> {
    fn handles_left(&self) -> u64 {
        // SAFETY: the engine is freed when this is dropped.
        let engine = unsafe { self.0.as_ref() };
        engine.handles.iter().map(|handle| handle.handles_left()).sum()
    }
}

impl<T> Drop for RetiredEngine<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box (`Hold::new`). A retired engine is dropped when no handle is
        // left, and nothing else has a pointer to it.
        let engine = unsafe { Box::from_raw(self.0.as_ptr()) };
        // Hooks are user code, and so are their destructors.
        contain::drop_quietly("an engine", engine);
    }
}

/// Called once, when the last `Hold` of the engine goes.
pub(super) fn retire<T: Send + 'static>(engine: NonNull<Inner<T>>) {
    retired_engines().collect(Some(Box::new(RetiredEngine(engine))));
}

/// A `Timer`'s share in its engine: with the last one the engine stops, after all that was done through the
/// others.
pub(super) struct TimerRef<T>(NonNull<Inner<T>>);

// SAFETY: as for `Hold`.
unsafe impl<T: Send> Send for TimerRef<T> {}
// SAFETY: as for `Hold`.
unsafe impl<T: Send> Sync for TimerRef<T> {}

impl<T> TimerRef<T> {
    /// The first one of an engine that has just been built.
    pub(super) fn first(hold: &Arc<Hold<T>>) -> Self {
        hold.add_timer()
    }

    /// One more, unless the engine has none left.
    pub(super) fn upgrade(hold: &Weak<Hold<T>>) -> Option<Self> {
        let hold = hold.upgrade()?;
        hold.timers.add_to_others().then(|| Self(hold.0))
    }

    /// One that is not counted, to be used while a worker holds the engine.
    ///
    /// Every `Inner` has been given its memory by `Hold::new`, and who has a reference to it has a `Hold` behind it.
    #[inline]
    pub(super) fn uncounted(engine: &Inner<T>) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(NonNull::from(engine)))
    }
}

impl<T> Inner<T> {
    /// Another share in the memory; `None` if it is being given up.
    pub(super) fn hold(&self) -> Option<Arc<Hold<T>>> {
        self.hold.upgrade()
    }

    /// Counts one more `Timer`. The first one takes a `Hold` for all of them; it is given back by the last one.
    #[inline]
    fn add_timer(&self) -> TimerRef<T> {
        let before = self.timers.add();
        if before == 0 || before > isize::MAX as usize {
            self.add_rare_timer(before);
        }
        TimerRef(NonNull::from(self))
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

impl<T> Deref for TimerRef<T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        // SAFETY: counted ones have a `Hold` together, one that is not (`uncounted`) is used while a worker has one.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for TimerRef<T> {
    fn drop(&mut self) {
        if !self.timers.remove() {
            return;
        }
        /// Given back even if a payload's drop panics.
        struct GiveBack<T>(*const Hold<T>);
        impl<T> Drop for GiveBack<T> {
            fn drop(&mut self) {
                // SAFETY: the first `Timer` left one count of this `Arc` for the last one (`add_rare_timer`).
                unsafe { Arc::decrement_strong_count(self.0) };
            }
        }
        let _give_back = GiveBack(self.hold.as_ptr());
        self.abandon();
    }
}

impl<T> Inner<T> {
    /// The shard and the index in it that a handle's place means.
    #[inline]
    fn shard_at(&self, place: u64) -> (&ShardHandle<T>, u32) {
        (&self.handles[(place >> 32) as usize], place as u32)
    }
}

/// A `Timeout`'s way to its engine, which counts it per thread and not on one word.
///
/// Two words, which travel in registers: the generation of its timer stands in the node that it holds.
pub(super) struct HandleRef<T> {
    engine: NonNull<Inner<T>>,
    /// The shard in the upper half, the node in the lower one.
    place: u64,
}

// SAFETY: as for `Hold`.
unsafe impl<T: Send> Send for HandleRef<T> {}
// SAFETY: as for `Hold`.
unsafe impl<T: Send> Sync for HandleRef<T> {}

impl<T> HandleRef<T> {
    /// The handle of a timer that was scheduled as held.
    #[inline]
    pub(super) fn new(engine: &Inner<T>, key: Key<T>) -> Self {
        Self {
            engine: NonNull::from(engine),
            place: (key.shard() as u64) << 32 | u64::from(key.index()),
        }
    }

    /// The shard, and the index of the node in it.
    #[inline]
    pub(super) fn place(&self) -> (&ShardHandle<T>, u32) {
        self.shard_at(self.place)
    }
}

impl<T> Deref for HandleRef<T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        // SAFETY: this handle is counted as made and not as dropped, so the engine is not freed.
        unsafe { self.engine.as_ref() }
    }
}

impl<T> Drop for HandleRef<T> {
    #[inline]
    fn drop(&mut self) {
        slot::with(|slot| {
            let (handle, index) = self.place();
            // The last use of the engine.
            handle.producer(slot).release(index);
        });
    }
}

/// A future's way to its engine, whether its timer is armed or not.
#[cfg(feature = "futures")]
pub(super) struct AlarmRef<T> {
    engine: NonNull<Inner<T>>,
    /// Static engines are never freed.
    counted: bool,
}

// SAFETY: as for `Hold`.
#[cfg(feature = "futures")]
unsafe impl<T: Send> Send for AlarmRef<T> {}
// SAFETY: as for `Hold`.
#[cfg(feature = "futures")]
unsafe impl<T: Send> Sync for AlarmRef<T> {}

#[cfg(feature = "futures")]
impl<T> AlarmRef<T> {
    /// Counted as a handle: on a word of this thread's.
    pub(super) fn counted(engine: &Inner<T>) -> Self {
        slot::with(|slot| engine.handles[0].producer(slot).thread.handles_made.bump());
        Self { engine: NonNull::from(engine), counted: true }
    }

    /// Of an engine with a `Timer` that is never dropped.
    #[inline]
    pub(super) fn of_static(timer: &'static TimerRef<T>) -> Self {
        let engine: &Inner<T> = timer;
        Self { engine: NonNull::from(engine), counted: false }
    }
}

#[cfg(feature = "futures")]
impl<T> Deref for AlarmRef<T> {
    type Target = Inner<T>;

    #[inline]
    fn deref(&self) -> &Inner<T> {
        // SAFETY: this is counted as made and not as dropped, or the engine is static: it is not freed.
        unsafe { self.engine.as_ref() }
    }
}

#[cfg(feature = "futures")]
impl<T> Drop for AlarmRef<T> {
    #[inline]
    fn drop(&mut self) {
        if self.counted {
            // The last use of the engine.
            slot::with(|slot| self.handles[0].producer(slot).thread.handles_dropped.bump());
        }
    }
}
