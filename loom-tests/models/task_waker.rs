//! The waker of the task that turns a driven shard: no wake is lost while the waker is replaced.

use super::harness::{UNBOUNDED, bounded, explore, spawn_with};
use crate::engine::crew::wake::TaskWaker;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Plain;
use std::task::{Wake, Waker};

/// Counts its calls; no part of the model.
#[derive(Default)]
struct Task(Plain);

impl Task {
    fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    fn is_called(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed) > 0
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A task's waker, and what tells the task that there is something to do.
struct Driver<const WAKES: usize> {
    waker: TaskWaker,
    published: [AtomicBool; WAKES],
}

impl<const WAKES: usize> Driver<WAKES> {
    /// A task whose waker is `first`.
    fn new(first: &Arc<Task>) -> Arc<Self> {
        let waker = TaskWaker::default();
        waker.set(&first.waker());
        Arc::new(Self {
            waker,
            published: std::array::from_fn(|_| AtomicBool::new(false)),
        })
    }

    /// Tells the task of number `message`, and wakes it.
    fn tell(&self, message: usize) {
        // ORDERING: Relaxed: the waker orders it.
        self.published[message].store(true, Ordering::Relaxed);
        assert!(self.waker.wake(), "no waker panics here");
    }

    /// Sets the task's next waker, looks for what is published, and falls asleep; returns whether that was all.
    fn set(&self, next: &Arc<Task>) -> bool {
        self.waker.set(&next.waker());
        // ORDERING: Relaxed: as above.
        let mut published = self.published.iter();
        published.all(|it| it.load(Ordering::Relaxed))
    }
}

/// Either the task sees what is published once it has set its next waker, or that waker is called.
#[test]
fn wake_or_set() {
    explore(UNBOUNDED, || {
        let [first, next] = [(); 2].map(|()| Arc::<Task>::default());
        let driver = Driver::<1>::new(&first);
        let waking = spawn_with(&driver, |driver| driver.tell(0));
        let has_seen = driver.set(&next);
        waking.join().unwrap();
        assert!(has_seen || next.is_called(), "the wake is lost");
    });
}

/// The same with two wakes at once.
#[test]
fn two_wake_or_set() {
    explore(bounded(3, 2), || {
        let [first, next] = [(); 2].map(|()| Arc::<Task>::default());
        let driver = Driver::<2>::new(&first);
        let waking = [0, 1].map(|message| spawn_with(&driver, move |driver| driver.tell(message)));
        let has_seen = driver.set(&next);
        waking.into_iter().for_each(|it| it.join().unwrap());
        assert!(has_seen || next.is_called(), "a wake is lost");
    });
}
