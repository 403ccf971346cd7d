//! A hashed wheel behind one queue and one worker, as Netty has it: callers send their timers to the worker, which moves
//! them to the wheel at its next tick.

use super::{CrossPeer, Setup};
use crate::book::Book;
use crate::hashed_wheel::{HashedKey, HashedWheel};
use crate::local::HASHED_BUCKETS;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Timers that the worker moves to the wheel at one tick.
const MOST_PER_TICK: usize = 100_000;

/// A timer. Who sets `ended` first, a caller or the worker, has cancelled or fired it.
pub(super) struct Timeout {
    deadline: u64,
    payload: u64,
    ended: AtomicBool,
    key: OnceLock<HashedKey>,
}

/// A caller's ends of the queues.
#[derive(Clone)]
pub(super) struct Queued {
    scheduled: Sender<Arc<Timeout>>,
    cancelled: Sender<Arc<Timeout>>,
    origin: Instant,
    tick_ns: u64,
}

struct Worker {
    wheel: HashedWheel<Arc<Timeout>>,
    scheduled: Receiver<Arc<Timeout>>,
    cancelled: Receiver<Arc<Timeout>>,
    book: &'static Book,
}

impl Worker {
    fn tick(&mut self, due: &mut Vec<Arc<Timeout>>) {
        for timeout in self.cancelled.try_iter() {
            if let Some(key) = timeout.key.get() {
                self.wheel.cancel(*key);
            }
        }
        for timeout in self.scheduled.try_iter().take(MOST_PER_TICK) {
            if !timeout.ended.load(Ordering::Acquire) {
                let key = self.wheel.schedule(timeout.deadline, Arc::clone(&timeout));
                _ = timeout.key.set(key);
            }
        }
        self.wheel.advance(due);
        for timeout in due.drain(..) {
            if !timeout.ended.swap(true, Ordering::AcqRel) {
                self.book.fired(timeout.payload);
            }
        }
    }
}

impl CrossPeer for Queued {
    type Handle = Arc<Timeout>;

    fn start(setup: Setup) -> Self {
        let ((scheduled, to_schedule), (cancelled, to_cancel)) = (channel(), channel());
        let (origin, tick) = (Instant::now(), setup.tick);
        let mut worker = Worker {
            wheel: HashedWheel::new(HASHED_BUCKETS, 0),
            scheduled: to_schedule,
            cancelled: to_cancel,
            book: setup.book,
        };
        // Until the process ends.
        std::thread::spawn(move || {
            let mut due = Vec::new();
            let mut next = origin;
            loop {
                next += tick;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                worker.tick(&mut due);
            }
        });
        Self {
            scheduled,
            cancelled,
            origin,
            tick_ns: tick.as_nanos() as u64,
        }
    }

    fn schedule(&self, delay: Duration, payload: u64) -> Arc<Timeout> {
        let deadline = (self.origin.elapsed() + delay).as_nanos() as u64;
        let timeout = Arc::new(Timeout {
            deadline: deadline.div_ceil(self.tick_ns),
            payload,
            ended: AtomicBool::new(false),
            key: OnceLock::new(),
        });
        self.scheduled
            .send(Arc::clone(&timeout))
            .expect("the worker runs until the process ends");
        timeout
    }

    fn cancel(&self, timeout: Arc<Timeout>) {
        if !timeout.ended.swap(true, Ordering::AcqRel) {
            self.cancelled
                .send(timeout)
                .expect("the worker runs until the process ends");
        }
    }
}
