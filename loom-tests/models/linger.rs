//! The end of an engine with handles: freed exactly once, and not before the last handle has let go.
//!
//! The engine's memory is a [`Probe`]: each handle reads it before it counts itself as dropped, and the one who frees
//! the engine writes it. A free that is not ordered behind every handle is a read and a write without an order.

use super::harness::{Probe, UNBOUNDED, bounded, bounded_when_quick, explore, spawn};
use crate::engine::linger::{Lingering, Shelf, TimerCount};
use crate::shard::thread_state::ThreadState;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Plain;

/// What handles need of an engine: its memory, and a thread state for each thread.
struct Engine {
    memory: Probe,
    threads: Vec<ThreadState>,
    /// Counted `Timer`s.
    timers: TimerCount,
    freed: Plain,
}

impl Engine {
    fn new(threads: usize, timers: usize) -> Arc<Self> {
        let count = TimerCount::default();
        (0..timers).for_each(|_| _ = count.add());
        Arc::new(Self {
            memory: Probe::new(),
            threads: (0..threads).map(|_| ThreadState::default()).collect(),
            timers: count,
            freed: Plain::new(0),
        })
    }

    /// Thread `thread` makes a handle.
    fn make(&self, thread: usize) {
        let _ = self.memory.get();
        self.threads[thread].handles_made.bump();
    }

    /// Thread `thread` drops a handle.
    fn leave(&self, shelf: &Shelf<Retired>, thread: usize) {
        shelf.leave(|| {
            let _ = self.memory.get();
            self.threads[thread].handles_dropped.bump();
        });
    }

    /// A `Timer` goes; the last one retires the engine.
    fn drop_timer(self: &Arc<Self>, shelf: &Shelf<Retired>) {
        let _ = self.memory.get();
        if self.timers.remove() {
            shelf.retire(Retired(Arc::clone(self)));
        }
    }

    fn assert_freed_once(&self, shelf: &Shelf<Retired>) {
        assert_eq!(self.freed.load(std::sync::atomic::Ordering::Relaxed), 1, "times freed");
        assert_eq!(shelf.len(), 0, "nothing lingers");
    }
}

struct Retired(Arc<Engine>);

impl Lingering for Retired {
    fn handles_left(&self) -> u64 {
        let sum = |count: fn(&ThreadState) -> u64| self.0.threads.iter().map(count).sum::<u64>();
        let dropped = sum(|thread| thread.handles_dropped.get());
        sum(|thread| thread.handles_made.get()).wrapping_sub(dropped)
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        self.0.memory.set(1);
        self.0.freed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A handle is dropped while the last `Timer` goes.
#[test]
fn drop_the_handle_or_the_timer() {
    explore(UNBOUNDED, || {
        let (engine, shelf) = (Engine::new(2, 1), Arc::new(Shelf::new()));
        engine.make(0);
        let dropper = spawn({
            let (engine, shelf) = (Arc::clone(&engine), Arc::clone(&shelf));
            move || engine.leave(&shelf, 1)
        });
        engine.drop_timer(&shelf);
        dropper.join().unwrap();
        engine.assert_freed_once(&shelf);
    });
}

/// Two handles of two threads; each may be the last one, before the engine is retired or after it.
#[test]
fn drop_two_handles_or_the_timer() {
    explore(bounded(3, 2), || {
        let (engine, shelf) = (Engine::new(3, 1), Arc::new(Shelf::new()));
        engine.make(0);
        engine.make(0);
        let droppers: Vec<_> = [1, 2]
            .into_iter()
            .map(|thread| {
                let (engine, shelf) = (Arc::clone(&engine), Arc::clone(&shelf));
                spawn(move || engine.leave(&shelf, thread))
            })
            .collect();
        engine.drop_timer(&shelf);
        droppers.into_iter().for_each(|dropper| dropper.join().unwrap());
        engine.assert_freed_once(&shelf);
    });
}

/// A thread makes a handle through its own `Timer`, drops the `Timer` and then the handle; another one drops the
/// other `Timer`. Either may retire the engine.
#[test]
fn make_a_handle_or_drop_the_other_timer() {
    explore(UNBOUNDED, || {
        let (engine, shelf) = (Engine::new(2, 2), Arc::new(Shelf::new()));
        let maker = spawn({
            let (engine, shelf) = (Arc::clone(&engine), Arc::clone(&shelf));
            move || {
                engine.make(1);
                engine.drop_timer(&shelf);
                engine.leave(&shelf, 1);
            }
        });
        engine.drop_timer(&shelf);
        maker.join().unwrap();
        engine.assert_freed_once(&shelf);
    });
}

/// Two engines on one shelf: a handle of one visits while the other is retired, and neither is lost.
#[test]
fn two_engines_on_one_shelf() {
    explore(bounded_when_quick(2), || {
        let shelf = Arc::new(Shelf::new());
        let (first, second) = (Engine::new(2, 1), Engine::new(2, 1));
        first.make(0);
        second.make(0);
        first.drop_timer(&shelf);
        let dropper = spawn({
            let (engine, shelf) = (Arc::clone(&first), Arc::clone(&shelf));
            move || engine.leave(&shelf, 1)
        });
        second.drop_timer(&shelf);
        second.leave(&shelf, 0);
        dropper.join().unwrap();
        first.assert_freed_once(&shelf);
        second.assert_freed_once(&shelf);
    });
}
