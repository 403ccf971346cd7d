//! What a timer carries: a value of your own type, or a closure.

use std::fmt;

/// The default payload: a closure that runs once, on the shard's worker.
///
/// Made from any `FnOnce() + Send`; [`Timer::schedule`](crate::Timer::schedule) converts by itself.
pub struct Task(Box<dyn FnOnce() + Send>);

impl Task {
    /// Boxes a closure.
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(run))
    }

    /// Runs the closure.
    pub fn run(self) {
        (self.0)();
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
