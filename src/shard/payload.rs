//! What a timer carries: a value of your own type, or a closure.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The default payload: a closure, run on the shard's worker.
///
/// Made from any `FnOnce() + Send`; [`Timer::schedule`](crate::Timer::schedule) converts by itself.
pub struct Task(Box<dyn Run>);

/// What a task can do.
trait Run: Send {
    fn run(self: Box<Self>);

    /// The same task once more, for the next period of a periodic timer.
    fn again(&self) -> Option<Box<dyn Run>> {
        None
    }
}

impl<F: FnOnce() + Send> Run for F {
    fn run(self: Box<Self>) {
        self();
    }
}

/// A closure that runs once per period.
struct Repeating<F>(Arc<Mutex<F>>);

impl<F: FnMut() + Send + 'static> Run for Repeating<F> {
    fn run(self: Box<Self>) {
        // One period follows the other, so the lock is free unless the closure is cancelled and run by hand.
        // A closure that panicked in an earlier period runs again.
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))();
    }

    fn again(&self) -> Option<Box<dyn Run>> {
        Some(Box::new(Self(Arc::clone(&self.0))))
    }
}

impl Task {
    /// Boxes a closure.
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(run))
    }

    /// Boxes a closure that runs once per period.
    pub(crate) fn repeating(run: impl FnMut() + Send + 'static) -> Self {
        Self(Box::new(Repeating(Arc::new(Mutex::new(run)))))
    }

    /// The same task once more; only [`Task::repeating`] ones are ever asked.
    pub(crate) fn again(&self) -> Self {
        self.0.again().map_or_else(|| Self::new(|| ()), Self)
    }

    /// Runs the closure.
    pub fn run(self) {
        self.0.run();
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

/// Whatever can be handed to [`Timer<T>::schedule`](crate::Timer::schedule): a `T`, or, where `T` is
/// [`Task`], a closure.
pub trait IntoPayload<T> {
    /// The payload as it is stored.
    fn into_payload(self) -> T;
}

impl<T> IntoPayload<T> for T {
    fn into_payload(self) -> T {
        self
    }
}

impl<F: FnOnce() + Send + 'static> IntoPayload<Task> for F {
    fn into_payload(self) -> Task {
        Task::new(self)
    }
}
