//! Linux' futex for models: a thread sleeps while a word has a value, until another thread wakes it.
//!
//! As in the kernel, the look at the word and the beginning of the sleep are one step under a lock, which a wake takes as
//! well. A sleep with a timeout ends at once, as any sleep may.

use super::watched::AtomicU32;
use loom::sync::{Condvar, Mutex};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Whether a thread sleeps on the word, and how it is told.
#[derive(Default)]
struct Queue(Mutex<bool>, Condvar);

thread_local! {
    /// The queue of each word, by its address. Loom's threads all run on one thread of the system.
    static QUEUES: RefCell<HashMap<usize, Rc<Queue>>> = RefCell::default();
}

/// Forgets the last execution.
pub(super) fn begin_execution() {
    QUEUES.with_borrow_mut(HashMap::clear);
}

/// Cloned out of the table: other threads of the model run before a call of loom's returns.
fn queue_of(word: &AtomicU32) -> Rc<Queue> {
    let address = std::ptr::from_ref(word) as usize;
    QUEUES.with_borrow_mut(|queues| Rc::clone(queues.entry(address).or_default()))
}

/// Sleeps while `word` is `value`.
pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    let queue = queue_of(word);
    let mut is_asleep = queue.0.lock().unwrap();
    // ORDERING: Relaxed: ordered by the lock, which a thread that has changed the word takes before it wakes.
    if timeout.is_some() || word.load(Ordering::Relaxed) != value {
        return;
    }
    *is_asleep = true;
    while *is_asleep {
        is_asleep = queue.1.wait(is_asleep).unwrap();
    }
}

/// Wakes the thread that sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    let queue = queue_of(word);
    *queue.0.lock().unwrap() = false;
    queue.1.notify_one();
}

/// Returns whether a thread sleeps, on any word.
#[cfg_attr(
    crossbeam_loom,
    expect(dead_code, reason = "asked for by rooms not built then")
)]
pub(crate) fn is_anybody_asleep() -> bool {
    let queues: Vec<_> = QUEUES.with_borrow(|queues| queues.values().map(Rc::clone).collect());
    queues.iter().any(|queue| *queue.0.lock().unwrap())
}
