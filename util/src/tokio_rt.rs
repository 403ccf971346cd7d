//! Engines that a runtime of tokio turns, so that a timer that fires costs no switch between threads.
//!
//! [`time`](crate::time) and what this crate builds on it need nothing of this module: with the feature `tokio` each
//! runtime has an engine of its own, of one shard. The first sleep makes it, and it goes with the runtime. Whichever
//! thread waits for the runtime's events turns it, as it does with tokio's own timers.
//!
//! [`drive`] does the same for an engine of yours, and [`drive_shared`] for the one of tickwheel's free functions and of
//! closures.
//!
//! * Any thread may schedule and cancel as before. A timer that comes before all others has the shard turned.
//! * The runtime needs what tokio's own timers need, `enable_time`. Without it tokio's sleeps panic. Here that panic is
//!   caught, once per runtime, and a worker turns the engine, that is a thread. The panic's hook runs, and a program
//!   that is built with `panic = "abort"` ends, as with tokio's sleep.
//! * While the runtime's threads are all busy, or a current-thread runtime is outside of `block_on`, timers wait, as
//!   tokio's own do. They wait as well, and sockets too, while a task blocks the thread that waited for events before it,
//!   unless another one has something to do.
//! * From its first sleep on a runtime has one task more, which ends with the runtime: `num_alive_tasks` of its metrics
//!   counts that task, too.
//! * A thread that has slept in a runtime keeps the memory of its engine until it sleeps in another one, or ends: the
//!   thread in `block_on` of a multi-threaded runtime, for example. That of a current-thread runtime keeps none if it
//!   also drops the runtime.
//! * When the runtime shuts down, or a task is aborted, the workers of an engine of yours take over. Nothing is lost.
//! * When the runtime shuts down, sleeps of its own engine go on with the process's, which starts its threads for them.
//!   A task that another thread of the runtime drops in a moment may be polled once more, and asks for one, too.

mod alarm;
#[cfg(feature = "test-util")]
pub(crate) mod pausable;

use crate::driving::by_alarm::TurnedByAlarm;
use crate::driving::{Alarm, Driving, shared};
use alarm::TokioAlarm;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::io;
use std::panic::catch_unwind;
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tickwheel::__internal::without_membarrier;
use tickwheel::{Builder, Pinning, Timer, TurnError};
use tokio::runtime::{Handle, Id};
use tokio::task::JoinHandle;

/// Spawns a task for each shard of an engine, which turns it in place of its worker.
///
/// Handlers run in the task and may do what a task may, `block_in_place` included. A task ends when the engine is
/// stopped; aborting it gives the shard back to a worker. The call waits for the handler that a worker runs, so that
/// handler must not wait for the calling task.
///
/// # Errors
///
/// If the calling thread is outside of a runtime, if another runtime drives a shard, if the engine is stopped, or if the
/// call comes from one of its handlers. Then no shard is driven.
///
/// # Panics
///
/// If the runtime was built without `enable_time`.
pub fn drive<T: Send + 'static>(timer: &Timer<T>) -> io::Result<Vec<JoinHandle<TurnError>>> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let driving = Driving::<T, TokioAlarm>::all(timer)?;
    let tasks = driving.into_iter().map(|shard| runtime.spawn(shard));
    let tasks = tasks.collect();
    let_others_take_the_latest(&runtime);
    Ok(tasks)
}

/// Lets any thread of a runtime begin with the task that was spawned last.
///
/// A task's own thread keeps the latest one that the task has spawned to itself, and begins it when that task waits.
/// Another one pushes it to where all threads look.
fn let_others_take_the_latest(runtime: &Handle) {
    runtime.spawn(async {});
}

/// Drives the process's shared engine, which closures and tickwheel's free functions use; see [`drive`].
///
/// Do not let a runtime drive it that has tasks which block, or that is not the only one: **the timers of the whole
/// process wait for that one runtime**, those of other runtimes and threads included, where each runtime's own engine,
/// which [`time`](crate::time) uses, makes nobody else wait. Closures run in the runtime's task, where they may block in
/// place.
///
/// If no library has asked for the engine yet it gets one shard, which one task turns. A program
/// that needs more calls [`build_global`](tickwheel::Builder) before, with as many shards as it wants
/// tasks. A second runtime beside the first is refused; its sleeps work all the same.
///
/// ```
/// # tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(async {
/// tickwheel_util::tokio_rt::drive_shared()?;
/// tickwheel::sleep(std::time::Duration::from_millis(5)).await;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
///
/// Like [`drive`].
///
/// # Panics
///
/// Like [`drive`].
pub fn drive_shared() -> io::Result<Vec<JoinHandle<TurnError>>> {
    drive(shared()?)
}

/// The engines of the runtimes that have asked for one and run.
static ENGINES: LazyLock<Mutex<HashMap<Id, Timer>>> = LazyLock::new(Mutex::default);

thread_local! {
    /// The runtime that this thread slept in last, and its engine; none if the runtime has ended.
    static LATEST: RefCell<Option<(Id, Option<Timer>)>> = const { RefCell::new(None) };
}

/// Calls `make` with the engine of the runtime that the thread is in, if it is in one that runs.
pub(crate) fn with_engine<R>(make: impl FnOnce(&Timer) -> R) -> Option<R> {
    with_engine_that(|timer| !timer.is_stopped(), make)
}

/// Like [`with_engine`], but perhaps with one that is stopped, where the runtime is about to end.
#[inline(always)] // what it returns would go through memory
pub(crate) fn with_latest_engine<R>(make: impl FnOnce(&Timer) -> R) -> Option<R> {
    with_engine_that(|_| true, make)
}

#[inline(always)]
fn with_engine_that<R>(
    serves: impl FnOnce(&Timer) -> bool,
    make: impl FnOnce(&Timer) -> R,
) -> Option<R> {
    let runtime = Handle::try_current().ok()?;
    let id = runtime.id();
    let with_latest = |latest: &RefCell<Option<(Id, Option<Timer>)>>| {
        let known = latest.borrow();
        match &*known {
            Some((of, timer)) if *of == id && timer.as_ref().is_none_or(serves) => {
                timer.as_ref().map(make)
            }
            _ => {
                drop(known);
                with_renewed(latest, &runtime, id, make)
            }
        }
    };
    // A thread that ends has no thread-locals any more.
    LATEST.try_with(with_latest).ok()?
}

/// Calls `make` with a runtime's engine, and makes that the one that this thread has slept in last.
#[cold]
fn with_renewed<R>(
    latest: &RefCell<Option<(Id, Option<Timer>)>>,
    runtime: &Handle,
    id: Id,
    make: impl FnOnce(&Timer) -> R,
) -> Option<R> {
    renew(latest, runtime, id).as_ref().map(make)
}

fn renew(latest: &RefCell<Option<(Id, Option<Timer>)>>, runtime: &Handle, id: Id) -> Option<Timer> {
    let engine = engine_of(runtime, id);
    // In use while a waker is called that sleeps elsewhere.
    let Ok(mut known) = latest.try_borrow_mut() else {
        return engine;
    };
    let before = known.replace((id, engine.clone()));
    drop(known);
    // Perhaps the last one of its engine: that wakes tasks.
    drop(before);
    engine
}

fn engine_of(runtime: &Handle, id: Id) -> Option<Timer> {
    if let Some(timer) = engines().get(&id) {
        return Some(timer.clone());
    }
    if has_ended(runtime) {
        return None;
    }
    let (timer, turning) = build(runtime);
    match engines().entry(id) {
        Entry::Occupied(first) => return Some(first.get().clone()),
        Entry::Vacant(entry) => _ = entry.insert(timer.clone()),
    }
    let task = RuntimesTask {
        id,
        timer: timer.clone(),
        turning,
    };
    runtime.spawn(task);
    let_others_take_the_latest(runtime);
    Some(timer)
}

/// Returns whether the runtime has shut down: it ends a task that is spawned then before the call returns.
fn has_ended(runtime: &Handle) -> bool {
    let task = runtime.spawn(std::future::pending::<()>());
    let has_ended = task.is_finished();
    task.abort();
    has_ended
}

/// Turns an engine until that is stopped.
type Turning = Box<dyn Future<Output = TurnError> + Send + Unpin>;

/// The ticks of a runtime's engine. tokio's timers have 1 ms, and this engine's come with the next one of those.
const TICK: Duration = Duration::from_nanos(62_500);

/// Builds an engine for a runtime, and what turns it; `None` if the runtime has no timers, so that a worker turns it.
fn build(runtime: &Handle) -> (Timer, Option<Turning>) {
    let builder = Builder::new().shards(1).pinning(Pinning::Off);
    // A task waits for this: it must not wait for the kernel.
    let builder = without_membarrier(builder.thread_name("tick-tokio"));
    // tokio's own sleeps panic there as well.
    let Ok(alarm) = catch_unwind(TokioAlarm::new) else {
        return (builder.build().expect("the defaults are in range"), None);
    };
    #[cfg(feature = "test-util")]
    if pausable::is_pausable(runtime) {
        let (timer, turning) = pausable::build(builder, runtime, alarm);
        return (timer, Some(turning));
    }
    let _ = runtime;
    let timer = builder.tick(TICK).build();
    let timer = timer.expect("the tick is in range");
    // Before another thread sees the engine, which would start its worker.
    let turning = TurnedByAlarm::new(&timer, alarm).expect("a new engine has its shard");
    (timer, Some(Box::new(turning)))
}

fn engines() -> MutexGuard<'static, HashMap<Id, Timer>> {
    ENGINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task that has a runtime's engine turned, and stops it when the runtime drops its tasks.
struct RuntimesTask {
    id: Id,
    timer: Timer,
    /// Missing where a worker turns the engine.
    turning: Option<Turning>,
}

impl Future for RuntimesTask {
    type Output = TurnError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnError> {
        match &mut self.turning {
            Some(turning) => Pin::new(turning).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for RuntimesTask {
    fn drop(&mut self) {
        let timer = engines().remove(&self.id);
        drop(timer);
        // This thread keeps none of its memory: the one that ran the runtime, or a worker.
        let is_latest = |(of, _): &mut (Id, Option<Timer>)| *of == self.id;
        let latest = LATEST.try_with(|latest| latest.try_borrow_mut().ok()?.take_if(is_latest));
        drop(latest);
        // Before its shard goes to a worker. Its sleeps go on elsewhere, or their tasks end as well.
        crate::quietly(|| drop(self.timer.stop()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};
    use tickwheel::Drive;
    use tokio::runtime::{Builder as Tokio, Runtime};

    fn runtimes() -> [Runtime; 2] {
        let (one, mut two) = (Tokio::new_current_thread(), Tokio::new_multi_thread());
        two.worker_threads(1);
        [one, two]
            .each_mut()
            .map(|builder| builder.enable_time().build().unwrap())
    }

    fn has_engine() -> bool {
        with_engine(|_| ()).is_some()
    }

    #[test]
    fn a_runtime_that_has_ended_has_no_engine() {
        for has_slept in [false, true] {
            for runtime in runtimes() {
                if has_slept {
                    runtime.block_on(async { assert!(has_engine()) });
                }
                let handle = runtime.handle().clone();
                drop(runtime);
                let _inside = handle.enter();
                for _ in 0..3 {
                    assert!(!has_engine(), "{:?}", handle.runtime_flavor());
                }
            }
        }
    }

    /// As where a record of the log, which somebody's code takes, drops one.
    #[test]
    fn a_runtime_may_end_while_a_thread_looks_up_the_engine_of_another() {
        for ends in runtimes() {
            let [runtime, _] = runtimes();
            let engine = ends.block_on(async { with_engine(Timer::clone).unwrap() });
            let id = ends.handle().id();
            let _inside = runtime.enter();
            assert!(has_engine());
            with_engine(|_| drop(ends)).unwrap();
            assert!(!engines().contains_key(&id) && engine.is_stopped());
            assert!(has_engine());
        }
    }

    /// As where the waker of a task is cloned, which its executor has written, while the task's timer is armed.
    #[test]
    fn a_thread_may_look_up_one_engine_while_it_uses_another() {
        let [a, b] = runtimes();
        let _inside = a.enter();
        with_engine(|_| {
            let _inside = b.enter();
            for _ in 0..2 {
                let found = has_engine();
                assert!(found && engines().contains_key(&b.handle().id()));
            }
        })
        .unwrap();
        assert!(engines().contains_key(&a.handle().id()) && has_engine());
    }

    /// Notes whether a sleep finds the engine of its thread's runtime when it is woken.
    struct Sleeps(AtomicBool);

    impl Wake for Sleeps {
        fn wake(self: Arc<Self>) {
            self.0.store(has_engine(), Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_that_the_end_of_an_engine_wakes_may_sleep() {
        let [ended, runtime] = runtimes();
        let timer: Timer = Builder::new().drive(Drive::Manual).build().unwrap();
        let sleeps = Arc::new(Sleeps(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&sleeps));
        let mut sleep = timer.sleep(Duration::from_secs(3600));
        let polled = sleep.poll_sleep(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        // This thread has the last use of it.
        LATEST.set(Some((ended.handle().id(), Some(timer))));
        let _inside = runtime.enter();
        assert!(has_engine());
        assert!(
            sleeps.0.load(Ordering::SeqCst),
            "it found the thread's memory in use"
        );
    }
}
