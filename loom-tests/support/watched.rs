//! Loom's atomics, with two things added that loom 0.7 leaves out of its search.
//!
//! Loom runs only those schedules in which two *dependent* operations change places. To find them it
//! remembers the last access to each atomic, one for all threads. So the load of thread A is forgotten
//! once thread B has loaded as well, and B's store afterwards is never tried before A's load: any "look,
//! then write" hides half of the schedules (tokio-rs/loom, issues 166 and 392). It also takes no notice
//! of fences, although the order of two `SeqCst` fences decides which loads may be stale.
//!
//! Both are put back by *touching* an object that carries nothing but the dependency: a condition variable
//! on which nobody waits. Notifying it is a scheduling point and orders no memory.
//!
//! * Each atomic has one such object per thread that has loaded it. A load touches its own thread's; a
//!   write touches all others that exist.
//! * All `SeqCst` fences of an execution touch the same one.
//!
//! What happens before the first thread starts needs none of this: it precedes everything.

use super::weakened::{Part, ordering};
use loom::sync::Condvar;
use loom::sync::atomic as bare;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;

pub use loom::sync::atomic::Ordering;

/// Loom has at most five threads, the main one included.
const THREADS: usize = 5;

thread_local! {
    /// Threads started so far in this execution. Loom's threads all run on one thread of the system.
    static STARTED: Cell<usize> = const { Cell::new(0) };
    static FENCES: RefCell<Option<Rc<Condvar>>> = const { RefCell::new(None) };
    /// `membarrier` is modelled in this execution.
    static ASYMMETRIC: Cell<bool> = const { Cell::new(false) };
    /// The threads that have a fence to execute for a `membarrier`, and those that have ended.
    static ASKED: Cell<[bool; THREADS]> = const { Cell::new([false; THREADS]) };
    static ENDED: Cell<[bool; THREADS]> = const { Cell::new([false; THREADS]) };
}

loom::thread_local! {
    /// The number of this thread of the model; the main one is 0.
    static ME: Cell<usize> = Cell::new(0);
}

/// Forgets the last execution.
pub fn begin_execution() {
    STARTED.set(0);
    FENCES.set(None);
    ASYMMETRIC.set(false);
    ASKED.set([false; THREADS]);
    ENDED.set([false; THREADS]);
}

/// From now on, in this execution, busy sides execute no fence: `membarrier` does it for them.
pub fn make_asymmetric() {
    ASYMMETRIC.set(true);
}

pub fn is_asymmetric() -> bool {
    ASYMMETRIC.get()
}

/// `membarrier`: each other thread of the model executes a full fence between two of its operations, before this
/// returns. The search tries all places. Only the main thread calls it, or a thread that none waits for.
pub fn fence_all_threads() {
    let me = ME.with(Cell::get);
    ASKED.set(std::array::from_fn(|thread| {
        thread != me && thread <= STARTED.get()
    }));
    touch_fences();
    let waits = |(asked, ended): (bool, bool)| asked && !ended;
    while ASKED.get().into_iter().zip(ENDED.get()).any(waits) {
        loom::thread::yield_now();
    }
    bare::fence(Ordering::SeqCst);
}

/// Executes the fence that a `membarrier` asks of this thread. Std's cells order nothing in the model.
fn answer() {
    if ASYMMETRIC.get() && STARTED.get() > 0 {
        touch_fences();
        let (me, mut asked) = (ME.with(Cell::get), ASKED.get());
        if std::mem::take(&mut asked[me]) {
            bare::fence(Ordering::SeqCst);
            // Not before the fence: others run meanwhile.
            let mut asked = ASKED.get();
            asked[me] = false;
            ASKED.set(asked);
        }
    }
}

/// Makes the present place one that changes with the fences of other threads.
fn touch_fences() {
    // Cloned out of the cell: other threads of the model run, on this very thread, before it returns.
    let fences = FENCES.with_borrow(Clone::clone);
    fences.inspect(|fences| fences.notify_all());
}

/// Threads started in the execution that has just ended.
pub fn started() -> usize {
    STARTED.get()
}

/// Returns the number of the calling thread, from 1 on.
pub fn thread_number() -> u64 {
    ME.with(Cell::get) as u64 + 1
}

/// Starts a thread of a model.
pub fn spawn<R: 'static>(body: impl FnOnce() -> R + 'static) -> loom::thread::JoinHandle<R> {
    if STARTED.get() == 0 {
        // Made here, so that its making is no race between the threads.
        FENCES.set(Some(Rc::new(Condvar::new())));
    }
    let number = STARTED.get() + 1;
    STARTED.set(number);
    loom::thread::spawn(move || {
        ME.with(|me| me.set(number));
        let result = body();
        if ASYMMETRIC.get() {
            // A thread that is switched out has executed a fence.
            bare::fence(Ordering::SeqCst);
            let mut ended = ENDED.get();
            ended[number] = true;
            ENDED.set(ended);
        }
        result
    })
}

/// A fence whose place among the other threads' fences is part of the search.
#[track_caller]
pub fn fence(order: Ordering) {
    let order = ordering(Part::Fence, order);
    if order == Ordering::SeqCst && STARTED.get() > 0 {
        touch_fences();
    }
    // A fence that is weakened to nothing.
    if order != Ordering::Relaxed {
        bare::fence(order);
    }
}

/// Who has loaded an atomic. Made on demand: most atomics of a model are never loaded, and loom's stacks
/// are small.
#[derive(Debug, Default)]
struct Watch(OnceLock<Box<[OnceLock<Condvar>; THREADS]>>);

impl Watch {
    fn load(&self) {
        answer();
        if STARTED.get() > 0 {
            let me = ME.with(Cell::get);
            let loaded_by = self.0.get_or_init(Box::default);
            loaded_by[me].get_or_init(Condvar::new).notify_all();
        }
    }

    fn write(&self) {
        answer();
        if STARTED.get() > 0 {
            let me = ME.with(Cell::get);
            let loaded_by = self
                .0
                .get()
                .into_iter()
                .flat_map(|loaded_by| loaded_by.iter());
            for (thread, watched) in loaded_by.enumerate() {
                if thread != me {
                    watched.get().inspect(|watched| watched.notify_all());
                }
            }
        }
    }
}

/// One of loom's atomics, and who has loaded it.
#[derive(Debug, Default)]
pub struct Watched<A> {
    cell: A,
    watch: Watch,
}

macro_rules! watched {
    ($($name:ident$(<$T:ident>)?: $value:ty { $($method:ident)* })*) => { $(
        pub type $name$(<$T>)? = Watched<bare::$name$(<$T>)?>;

        #[allow(dead_code, reason = "not every width needs every operation")]
        impl$(<$T>)? $name$(<$T>)? {
            pub fn new(value: $value) -> Self {
                Self { cell: bare::$name::new(value), watch: Watch::default() }
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                self.watch.load();
                self.cell.load(ordering(Part::Load, order))
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                self.watch.write();
                self.cell.store(value, ordering(Part::Store, order));
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.watch.write();
                let success = ordering(Part::Exchange, success);
                let failure = ordering(Part::Failure, failure);
                self.cell.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                step: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                self.watch.load();
                self.watch.write();
                let set = ordering(Part::Exchange, set);
                let fetch = ordering(Part::Failure, fetch);
                self.cell.fetch_update(set, fetch, step)
            }

            $(
                #[track_caller]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    self.watch.write();
                    self.cell.$method(value, ordering(Part::Exchange, order))
                }
            )*
        }
    )* };
}

watched! {
    AtomicBool: bool { swap }
    AtomicPtr<T>: *mut T { swap }
    AtomicU32: u32 { swap fetch_add fetch_sub fetch_or fetch_max }
    AtomicU64: u64 { swap fetch_add fetch_sub fetch_and fetch_or fetch_min fetch_max }
    AtomicUsize: usize { swap fetch_add fetch_sub }
}
