//! `TimerTask`: a closure as a payload, without a box if it is small.
//!
//! ```text
//!   +--------+------------------------------+
//!   | vtable | up to three words of closure |   a larger one, or one of larger alignment, lies in a
//!   +--------+------------------------------+   box, and the first of the three words points to it
//! ```
//!
//! Three words hold two shared references and a number, or a sender and a message: most timeouts. Four words
//! would make every node of the table larger, which costs a cache line more than it saves in boxes.

#[cfg(feature = "futures")]
use crate::contain;
use std::any::Any;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::{Arc, Mutex, TryLockError};
use std::task::Waker;

/// Words that a closure may have to lie in the task itself.
const WORDS: usize = 3;

/// Where a small closure lies.
type Storage = MaybeUninit<[usize; WORDS]>;

const _: () = assert!(size_of::<Storage>() == WORDS * size_of::<usize>());
const _: () = assert!(size_of::<TimerTask>() == (WORDS + 1) * size_of::<usize>());
const _: () = assert!(size_of::<Option<TimerTask>>() == size_of::<TimerTask>());

/// The default payload: a closure, run on the shard's worker.
///
/// Made from any `FnOnce() + Send + 'static`, by [`TimerTask::new`] or `into()`;
/// [`Timer::run_after`](crate::Timer::run_after) does it by itself. A closure of up to three words (24 bytes
/// on a 64-bit machine) with the alignment of a word or less is stored in the task, so that scheduling it
/// allocates nothing; a larger one is boxed.
///
/// Dropping a task drops the closure and what it has captured, without running it. The type is public because it is the
/// default payload of [`Timer`](crate::Timer): errors and `stop` return it.
///
/// ```
/// use tickwheel::TimerTask;
///
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let task = TimerTask::new(move || sender.send(17).unwrap());
/// task.run();
/// assert_eq!(receiver.recv(), Ok(17));
/// ```
pub struct TimerTask {
    vtable: &'static Vtable,
    storage: Storage,
    /// The owned closure: it may move to another thread, and may not be shared.
    _closure: PhantomData<Box<dyn FnOnce() + Send>>,
}

/// The operations on the closure in a storage. Each function must be called with one that holds the
/// closure of the type that the vtable was made for.
struct Vtable {
    /// Takes the closure out of its storage and calls it.
    run: unsafe fn(*mut Storage),
    /// Drops the closure where it lies.
    drop: unsafe fn(*mut Storage),
    /// Makes the same task once more, for the next period of a periodic timer.
    again: Option<unsafe fn(*const Storage) -> TimerTask>,
    /// Whether the storage holds a [`Waker`] that waits for the timer.
    waits: bool,
}

/// Returns whether a closure of this type lies in the task itself.
const fn is_small<F>() -> bool {
    size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>()
}

/// Returns the vtable of small closures of type `F`.
const fn vtable<F: FnOnce() + Send + 'static>() -> &'static Vtable {
    &Vtable {
        run: run_small::<F>,
        drop: drop_small::<F>,
        again: None,
        waits: false,
    }
}

/// # Safety
///
/// The storage holds an `F`, which is not used afterwards.
unsafe fn run_small<F: FnOnce()>(storage: *mut Storage) {
    // SAFETY: the storage holds an `F` (the function's contract) and is aligned for it (`is_small`).
    let run = unsafe { storage.cast::<F>().read() };
    run();
}

/// # Safety
///
/// Like [`run_small`].
unsafe fn drop_small<F>(storage: *mut Storage) {
    // SAFETY: as in `run_small`.
    unsafe { storage.cast::<F>().drop_in_place() };
}

/// A closure that runs once per period. No thread waits for the lock: if it is taken, the closure is running.
struct Repeating<F>(Arc<Mutex<F>>);

impl<F: FnMut() + Send + 'static> Repeating<F> {
    const VTABLE: &'static Vtable = &Vtable {
        run: Self::run,
        drop: drop_small::<Self>,
        again: Some(Self::again),
        waits: false,
    };

    fn into_task(self) -> TimerTask {
        const { assert!(is_small::<Self>()) };
        // SAFETY: as asserted, and the vtable is the one for this type.
        unsafe { TimerTask::store(self, Self::VTABLE) }
    }

    /// # Safety
    ///
    /// Like [`run_small`], with `Self` for `F`.
    unsafe fn run(storage: *mut Storage) {
        // SAFETY: the function's contract.
        let this = unsafe { storage.cast::<Self>().read() };
        match this.0.try_lock() {
            Ok(mut run) => run(),
            // A closure that panicked in an earlier period runs again.
            Err(TryLockError::Poisoned(run)) => run.into_inner()(),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// # Safety
    ///
    /// The storage holds a `Self`.
    unsafe fn again(storage: *const Storage) -> TimerTask {
        // SAFETY: the function's contract; the reference ends with this call, during which the task is borrowed.
        let this = unsafe { &*storage.cast::<Self>() };
        Self(Arc::clone(&this.0)).into_task()
    }
}

impl TimerTask {
    /// Creates a task that wakes: when it runs, and when it is dropped, unless the waker is taken out.
    #[cfg(feature = "futures")]
    #[inline]
    pub(crate) fn waking(waker: Waker) -> Self {
        /// # Safety
        ///
        /// The storage holds a [`Waker`], which is not used afterwards.
        unsafe fn wake(storage: *mut Storage) {
            // SAFETY: the function's contract; a waker is small.
            unsafe { storage.cast::<Waker>().read() }.wake();
        }
        /// # Safety
        ///
        /// Like [`wake`].
        unsafe fn drop_waking(storage: *mut Storage) {
            // Another task may be dropped because of a panic, or next in a list.
            // SAFETY: the function's contract.
            contain::catch_and_log("a waker", || unsafe { wake(storage) });
        }
        const WAITING: &Vtable = &Vtable {
            run: wake,
            drop: drop_waking,
            again: None,
            waits: true,
        };
        const { assert!(is_small::<Waker>()) };
        // SAFETY: as asserted, and the vtable is the one for a waker.
        unsafe { Self::store(waker, WAITING) }
    }

    /// Returns the waker of a task that waits.
    #[inline]
    pub(crate) fn waker(&self) -> Option<&Waker> {
        // SAFETY: the storage of a task that waits holds a waker, which lives as long as the task.
        self.vtable
            .waits
            .then(|| unsafe { &*self.storage.as_ptr().cast::<Waker>() })
    }

    /// Takes the waker out of a task that waits, which then wakes no task; returns any other task.
    #[inline]
    pub(crate) fn try_into_waker(self) -> Result<Waker, Self> {
        let this = ManuallyDrop::new(self);
        if this.vtable.waits {
            // SAFETY: as in `waker`, and the task is never dropped.
            return Ok(unsafe { this.storage.as_ptr().cast::<Waker>().read() });
        }
        Err(ManuallyDrop::into_inner(this))
    }
}

/// How to get at the waker in a payload that carries one, as the task of a future does.
pub(super) struct Wakers<T> {
    pub(super) of: fn(&T) -> Option<&Waker>,
    pub(super) take: fn(T) -> Result<Waker, T>,
}

impl<T: 'static> Wakers<T> {
    /// Returns `None` if the payloads are no tasks.
    pub(super) fn of_payloads() -> Option<Self> {
        let of_tasks: Box<dyn Any> = Box::new(Wakers {
            of: TimerTask::waker,
            take: TimerTask::try_into_waker,
        });
        of_tasks.downcast().ok().map(|wakers| *wakers)
    }
}

impl TimerTask {
    /// Makes a task of a closure; allocates only if the closure is larger than three words.
    #[inline]
    pub fn new<F: FnOnce() + Send + 'static>(run: F) -> Self {
        fn small<F: FnOnce() + Send + 'static>(run: F) -> TimerTask {
            // SAFETY: the closure is small, as a box is, and the vtable is the one for this type.
            unsafe { TimerTask::store(run, vtable::<F>()) }
        }
        if const { is_small::<F>() } {
            small(run)
        } else {
            small(Box::new(run))
        }
    }

    /// Puts what `vtable` works on into a task.
    ///
    /// # Safety
    ///
    /// `is_small::<V>()`, and the functions of `vtable` are made for a storage that holds a `V`.
    #[inline]
    unsafe fn store<V>(value: V, vtable: &'static Vtable) -> Self {
        let mut storage = Storage::uninit();
        // SAFETY: the storage is large enough and aligned for a `V` (the function's contract), and it is ours.
        unsafe { storage.as_mut_ptr().cast::<V>().write(value) };
        Self {
            vtable,
            storage,
            _closure: PhantomData,
        }
    }

    /// Makes a task of a closure that runs once per period.
    pub(crate) fn repeating(run: impl FnMut() + Send + 'static) -> Self {
        Repeating(Arc::new(Mutex::new(run))).into_task()
    }

    /// Makes the same task once more; only [`TimerTask::repeating`] ones are ever asked.
    pub(crate) fn again(&self) -> Self {
        let Some(again) = self.vtable.again else {
            return Self::new(|| ());
        };
        // SAFETY: the vtable belongs to what lies in the storage (`store`).
        unsafe { again(&self.storage) }
    }

    /// Runs the closure.
    ///
    /// That of a periodic timer ([`Timer::repeat`](crate::Timer::repeat)) lies in several tasks, one after the other,
    /// and runs in one of them at a time: while it does, on whichever thread, running another one does nothing. If it
    /// has panicked in one of them it runs in the next one all the same.
    ///
    /// # Panics
    ///
    /// If the closure does.
    #[inline]
    pub fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the vtable belongs to what lies in the storage (`store`), and it is not used after this: `this` is
        // never dropped, not even if the closure panics.
        unsafe { (this.vtable.run)(&raw mut this.storage) };
    }
}

impl Drop for TimerTask {
    fn drop(&mut self) {
        // SAFETY: the vtable belongs to what lies in the storage (`store`), which is not used after this.
        unsafe { (self.vtable.drop)(&raw mut self.storage) };
    }
}

impl<F: FnOnce() + Send + 'static> From<F> for TimerTask {
    #[inline]
    fn from(run: F) -> Self {
        Self::new(run)
    }
}

debug_fields!([] TimerTask, "TimerTask", _it);

#[cfg(all(test, not(tickwheel_loom)))]
mod tests;
