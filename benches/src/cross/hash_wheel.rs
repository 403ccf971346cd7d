//! hierarchical_hash_wheel_timer's timer with a thread of its own, fed through an unbounded channel.

use super::peer::{CrossPeer, Session, Setup};
use crate::book::Book;
use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{OneshotState, PeriodicClosureState, Timer};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// What a timer carries.
pub(super) struct Fire {
    id: u64,
    payload: u64,
    then: Then,
}

enum Then {
    Book(Arc<Book>),
    /// Everything sent before has been looked at.
    Tell(Sender<()>),
}

impl fmt::Debug for Fire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fire({})", self.id)
    }
}

impl OneshotState for Fire {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }

    fn trigger(self) {
        match self.then {
            Then::Book(book) => book.fired(self.payload),
            // A session that has gone does not wait.
            Then::Tell(done) => drop(done.send(())),
        }
    }
}

type Periodic = PeriodicClosureState<u64>;

/// The thread.
pub(super) struct HashWheelPeer {
    timer: TimerWithThread<u64, Fire, Periodic>,
    book: Arc<Book>,
}

impl CrossPeer for HashWheelPeer {
    type Session = HashWheelSession;

    fn start(setup: Setup) -> Self {
        Self { timer: TimerWithThread::new().expect("a thread"), book: setup.book }
    }

    fn session(&self, thread: usize) -> HashWheelSession {
        let timer = self.timer.timer_ref();
        // Identifiers of different threads differ in their upper half.
        HashWheelSession { timer, book: Arc::clone(&self.book), next: (thread as u64) << 40 }
    }
}

/// A sender.
pub(super) struct HashWheelSession {
    timer: TimerRef<u64, Fire, Periodic>,
    book: Arc<Book>,
    next: u64,
}

impl HashWheelSession {
    fn send(&mut self, delay: Duration, payload: u64, then: Then) -> u64 {
        self.next += 1;
        let id = self.next;
        self.timer.schedule_once(delay, Fire { id, payload, then });
        id
    }
}

impl Session for HashWheelSession {
    type Handle = u64;

    fn schedule(&mut self, delay: Duration, payload: u64) -> u64 {
        let book = Arc::clone(&self.book);
        self.send(delay, payload, Then::Book(book))
    }

    fn cancel(&mut self, id: u64) {
        self.timer.cancel(&id);
    }

    fn wait_idle(&mut self) {
        let (done, told) = channel();
        self.send(Duration::from_millis(1), 0, Then::Tell(done));
        told.recv().expect("the timer's thread fires it");
    }
}
