//! The end of an engine with handles: freed exactly once, and not before the last handle has let go.
//!
//! The engine's memory is a [`Probe`]: each handle reads it before it counts itself as dropped, and the thread that
//! frees the engine writes it. A free that is not ordered behind every handle is a read and a write without an order.
//!
//! In the last scenarios the engine is a real one with real handles or a real future, and the probe is its clock.

use super::harness::{
    Bound, Probe, UNBOUNDED, bounded, explore, explore_as, name_of, spawn, spawn_with,
};
#[cfg(feature = "__internal")]
use crate::__internal::{poll_on, sleep_anywhere};
use crate::engine::retired::{Retired, RetiredEngines, TimerCount};
use crate::shard::handle::ThreadState;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Builder, Clock, Drive, Expired, Sleep, SleepError, Time, Timer};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as Plain;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

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
        self.threads[thread].handles_made.add(1);
    }

    /// Thread `thread` drops a handle.
    fn leave(&self, thread: usize) {
        let _ = self.memory.get();
        self.threads[thread].handles_dropped.add(1);
    }

    /// Drops a `Timer`; the last one retires the engine.
    fn drop_timer(self: &Arc<Self>, retired: &RetiredEngines) {
        let _ = self.memory.get();
        if self.timers.remove() {
            retired.collect(Some(Box::new(Unused(Arc::clone(self)))));
        }
    }

    /// To be called when all handles and timers are gone.
    fn assert_freed_once(&self, retired: &RetiredEngines) {
        // As the next build does.
        retired.collect(None);
        assert_eq!(
            self.freed.load(std::sync::atomic::Ordering::Relaxed),
            1,
            "times freed"
        );
        assert_eq!(retired.len(), 0, "engines that are left");
    }
}

/// A retired engine.
struct Unused(Arc<Engine>);

impl Retired for Unused {
    fn handles_left(&self) -> u64 {
        let sum = |count: fn(&ThreadState) -> u64| self.0.threads.iter().map(count).sum::<u64>();
        let dropped = sum(|thread| thread.handles_dropped.get());
        sum(|thread| thread.handles_made.get()).wrapping_sub(dropped)
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        self.0.memory.set(1);
        self.0
            .freed
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A handle is dropped while the last `Timer` goes.
#[test]
fn drop_the_handle_or_the_timer() {
    explore(UNBOUNDED, || {
        let (engine, retired) = (Engine::new(2, 1), RetiredEngines::new());
        engine.make(0);
        let dropper = spawn_with(&engine, |engine| engine.leave(1));
        engine.drop_timer(&retired);
        dropper.join().unwrap();
        engine.assert_freed_once(&retired);
    });
}

/// A thread makes a handle through its own `Timer`, drops the `Timer` and then the handle; another one drops the
/// other `Timer`. Either may retire the engine.
#[test]
fn make_a_handle_or_drop_the_other_timer() {
    explore(UNBOUNDED, || {
        let both = Arc::new((Engine::new(2, 2), RetiredEngines::new()));
        let (engine, retired) = &*both;
        let maker = spawn_with(&both, |(engine, retired)| {
            engine.make(1);
            engine.drop_timer(retired);
            engine.leave(1);
        });
        engine.drop_timer(retired);
        maker.join().unwrap();
        engine.assert_freed_once(retired);
    });
}

/// Two handles of two threads are dropped, while one engine is built and another one is retired: neither frees the
/// engine early, nor both.
#[test]
fn drop_two_handles_or_collect() {
    explore(bounded(3, 2), || {
        let all = Arc::new((Engine::new(3, 1), RetiredEngines::new()));
        let ((first, retired), second) = (&*all, Engine::new(1, 1));
        first.make(0);
        first.make(0);
        first.drop_timer(retired);
        let droppers = [1, 2].map(|thread| {
            spawn_with(&all, move |(engine, retired)| {
                engine.leave(thread);
                retired.collect(None);
            })
        });
        second.drop_timer(retired);
        droppers
            .into_iter()
            .for_each(|dropper| dropper.join().unwrap());
        first.assert_freed_once(retired);
        second.assert_freed_once(retired);
    });
}

/// A whole engine is made, ended and freed.
const ENGINE: Bound = bounded(4, 2);

const SOON: Duration = Duration::from_secs(1);

/// A clock that stands, and that goes with its engine's memory. Reading it is a use of the engine.
struct MemoryClock(Arc<(Probe, Plain)>);

impl Clock for MemoryClock {
    fn now(&self) -> Time {
        let _ = self.0.0.get();
        Time::ZERO
    }
}

impl Drop for MemoryClock {
    fn drop(&mut self) {
        let (memory, freed) = &*self.0;
        memory.set(1);
        freed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// An engine without workers, whose memory is `memory`.
fn builder(memory: Arc<(Probe, Plain)>) -> Builder {
    let builder = Builder::new().shards(1).drive(Drive::Manual);
    builder.clock(MemoryClock(memory))
}

/// Lets a scenario use an engine's memory, and looks how often that was freed.
fn freed_once(scenario: impl FnOnce(Builder)) {
    let memory = Arc::new((Probe::new(), Plain::new(0)));
    scenario(builder(Arc::clone(&memory)));
    // A build frees what was retired before its last handle was dropped. On real threads another scenario may have
    // taken it over, to free it any moment now.
    let freed = || memory.1.load(std::sync::atomic::Ordering::Relaxed);
    let builds = if cfg!(tickwheel_loom) { 1 } else { 100_000 };
    let _ = (0..builds).any(|_| {
        let other = builder(Arc::new((Probe::new(), Plain::new(0))));
        drop(other.build_with(|_: Expired<u64>| ()).unwrap());
        freed() > 0
    });
    assert_eq!(freed(), 1, "times freed");
}

/// Explores an engine that has no workers and a payload that is told apart by nothing.
fn explore_engine<F>(scenario: F)
where
    F: Fn(Timer<Arc<()>>, Arc<()>) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), ENGINE, move || {
        let payload = Arc::new(());
        freed_once(|builder| {
            let handler = |_: Expired<Arc<()>>| panic!("nothing comes due");
            scenario(builder.build_with(handler).unwrap(), Arc::clone(&payload));
        });
        assert_eq!(Arc::strong_count(&payload), 1, "a payload is left");
    });
}

/// A real handle is used and dropped while the last `Timer` goes.
#[test]
fn drop_an_engine_s_handle_or_timer() {
    explore_engine(|timer, payload| {
        let handle = timer.schedule_handle(SOON, payload).unwrap();
        let using = spawn(move || {
            let _ = handle.reschedule(2 * SOON);
        });
        drop(timer);
        using.join().unwrap();
    });
}

/// A thread makes a real handle through its own `Timer`, which it drops, while another one drops the other `Timer`.
#[test]
fn make_an_engine_s_handle_or_drop_the_other_timer() {
    explore_engine(|timer, payload| {
        let own = timer.clone();
        let making = spawn(move || {
            let handle = own.schedule_handle(SOON, payload).unwrap();
            drop(own);
            drop(handle);
        });
        drop(timer);
        making.join().unwrap();
    });
}

/// A `WeakTimer` is upgraded while the last `Timer` goes: it comes too late, or the engine goes on until that is dropped.
#[test]
fn upgrade_or_drop_an_engine_s_last_timer() {
    explore_engine(|timer, payload| {
        let weak = timer.downgrade();
        // The count of an `Arc` is no part of the model: this makes it try both orders.
        let ends = Arc::new(AtomicBool::new(false));
        let upgrading = spawn_with(&ends, move |ends| {
            // ORDERING: Relaxed: orders nothing.
            let _ = ends.load(Ordering::Relaxed);
            if let Some(timer) = weak.upgrade() {
                timer.schedule(SOON, payload).expect("a Timer is there");
            }
        });
        // ORDERING: Relaxed: as above.
        ends.store(true, Ordering::Relaxed);
        drop(timer);
        upgrading.join().unwrap();
    });
}

/// No part of the model: how often a task was woken.
#[derive(Default)]
struct Task(Plain);

impl Task {
    fn is_woken(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::SeqCst) > 0
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Explores a future of an engine beside the engine's last `Timer`; with two tasks that poll it.
fn explore_future<F>(scenario: F)
where
    F: Fn(Timer, Sleep<SleepError>, [Arc<Task>; 2]) + Send + Sync + 'static,
{
    explore_as(name_of(&scenario), ENGINE, move || {
        let tasks = [(); 2].map(|()| Arc::<Task>::default());
        freed_once(|builder| {
            let timer: Timer = builder.build().unwrap();
            let sleep = timer.sleep(SOON);
            scenario(timer, sleep, tasks.clone());
        });
        let kept = tasks.each_ref().map(Arc::strong_count);
        assert_eq!(kept, [1, 1], "a waker is left");
    });
}

fn poll(sleep: &mut Sleep<SleepError>, task: &Arc<Task>) -> Poll<Result<(), SleepError>> {
    let waker = Waker::from(Arc::clone(task));
    sleep.poll_sleep(&mut Context::from_waker(&waker))
}

/// A future arms a timer, another task's waker takes the first one's place, and it is dropped, while the last `Timer`
/// goes.
#[test]
fn arm_a_future_twice_and_drop_it_or_the_timer() {
    explore_future(|timer, mut sleep, tasks| {
        let polling = spawn(move || {
            for task in &tasks {
                let polled = poll(&mut sleep, task);
                assert!(polled != Poll::Ready(Ok(())), "nothing comes due");
            }
        });
        drop(timer);
        polling.join().unwrap();
    });
}

/// The same of a future whose engine is held by the node of its timer: between the two timers it stays as well.
#[cfg(feature = "__internal")]
#[test]
fn arm_a_timer_that_holds_its_engine_twice_and_drop_it_or_the_timer() {
    explore_future(|timer, held, tasks| {
        let mut sleep = sleep_anywhere(Time::from_nanos(u64::MAX / 2).into());
        let waker = Waker::from(Arc::clone(&tasks[0]));
        let armed = poll_on(&mut sleep, &timer, &mut Context::from_waker(&waker));
        assert!(armed.is_pending());
        drop((held, waker));
        let polling = spawn(move || {
            let polled = poll(&mut sleep, &tasks[1]);
            assert!(polled != Poll::Ready(Ok(())), "nothing comes due");
        });
        drop(timer);
        polling.join().unwrap();
    });
}

/// A future that waits finds out that its engine has ended: the poll says so, or the waker of the poll is called.
#[test]
fn arm_a_future_again_or_drop_the_timer() {
    explore_future(|timer, mut sleep, tasks| {
        assert!(poll(&mut sleep, &tasks[0]).is_pending());
        let polling = spawn(move || {
            let polled = poll(&mut sleep, &tasks[1]);
            (sleep, tasks, polled.is_pending())
        });
        drop(timer);
        let (mut sleep, tasks, is_pending) = polling.join().unwrap();
        assert!(!is_pending || tasks[1].is_woken(), "it waits for ever");
        assert!(matches!(poll(&mut sleep, &tasks[1]), Poll::Ready(Err(_))));
    });
}
