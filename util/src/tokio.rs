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
//! * On Linux a `timerfd` does that, for which the runtime needs `enable_io`; elsewhere it needs `enable_time`. The
//!   engine of a runtime without it has a worker, that is a thread. tokio tells by a panic only, which is caught, and
//!   prints its message once per runtime. A program built with `panic = "abort"` ends there.
//! * While the runtime's threads are all busy, or a current-thread runtime is outside of `block_on`, timers wait, as
//!   tokio's own do. They wait as well, and sockets too, while a task blocks the thread that waited for events before it,
//!   unless another one has something to do. Except on Linux, a timer that a task sets before all others is late if that
//!   task goes on to block its thread.
//! * From its first sleep on a runtime has one task more, which ends with the runtime: `num_alive_tasks` of its metrics
//!   counts that task, too.
//! * A thread that has slept in a runtime keeps the memory of its engine until it sleeps in another one, or ends: the
//!   thread in `block_on` of a multi-threaded runtime, for example. That of a current-thread runtime keeps none if it
//!   also drops the runtime.
//! * When the runtime shuts down, or a task is aborted, the workers of an engine of yours take over. Nothing is lost.

#[cfg(feature = "test-util")]
pub(crate) mod pausable;

use crate::driving::{Alarm, Driving, shared};
use ::tokio::runtime::{Handle, Id};
use ::tokio::task::JoinHandle;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel::{Builder, Pinning, Timer, TimerTask, TurnError};
#[cfg(target_os = "linux")]
use {
    std::sync::Arc,
    std::sync::atomic::{AtomicBool, Ordering},
    std::task::Wake,
};

/// Spawns a task for each shard of an engine, which turns it in place of its worker.
///
/// A task ends when the engine is stopped; aborting it gives the shard back to a worker. The call waits for the handler
/// that a worker runs, so that handler must not wait for the calling task.
///
/// # Errors
///
/// If the calling thread is outside of a runtime, if another runtime drives a shard, if the engine is stopped, if the
/// call comes from one of its handlers, or if the system refuses a timer. Then no shard is driven.
///
/// # Panics
///
/// If the runtime was built without the driver that the [module](self) names.
pub fn drive<T: Send + 'static>(timer: &Timer<T>) -> io::Result<Vec<JoinHandle<TurnError>>> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let driving = Driving::<T, TokioAlarm>::all(timer, Duration::ZERO)?;
    let tasks = driving
        .into_iter()
        .map(|shard| runtime.spawn(shard))
        .collect();
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
/// which [`time`](crate::time) uses, makes nobody else wait. And closures run on the thread that waits for the runtime's
/// events, so they must not block.
///
/// If no library has asked for the engine yet it gets one shard, which one task turns. A program
/// that needs more calls [`build_global`](tickwheel::Builder::build_global) before, with as many shards as it wants
/// tasks. A second runtime beside the first is refused; its sleeps work all the same.
///
/// ```
/// # tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(async {
/// tickwheel_util::tokio::drive_shared()?;
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
    /// The runtime whose engine this thread used last.
    static LATEST: RefCell<Option<(Id, Timer)>> = const { RefCell::new(None) };
}

/// Calls `make` with the engine of the runtime that the thread is in, if it is in one.
pub(crate) fn with_engine<R>(make: impl FnOnce(&Timer) -> R) -> Option<R> {
    let runtime = Handle::try_current().ok()?;
    let id = runtime.id();
    let made = LATEST.try_with(|latest| {
        let is_latest = |(of, timer): &(Id, Timer)| *of == id && !timer.is_stopped();
        if !latest.borrow().as_ref().is_some_and(is_latest) {
            let before = latest.replace(Some((id, engine_of(&runtime, id))));
            // Perhaps the last one of its engine: that wakes tasks.
            drop(before);
        }
        latest.borrow().as_ref().map(|(_, timer)| make(timer))
    });
    // A thread that ends has no thread-locals any more.
    made.ok().flatten()
}

#[cold]
fn engine_of(runtime: &Handle, id: Id) -> Timer {
    if let Some(timer) = engines().get(&id) {
        return timer.clone();
    }
    let (timer, turning) = build(runtime);
    match engines().entry(id) {
        Entry::Occupied(first) => return first.get().clone(),
        Entry::Vacant(entry) => _ = entry.insert(timer.clone()),
    }
    let task = RuntimesTask {
        id,
        timer: timer.clone(),
        turning,
    };
    runtime.spawn(task);
    let_others_take_the_latest(runtime);
    timer
}

/// Turns an engine until that is stopped.
type Turning = Box<dyn Future<Output = TurnError> + Send + Unpin>;

/// The ticks of a runtime's engine: a timer that has no other one near is no later.
const TICK: Duration = Duration::from_micros(250);

/// The least time from a turn of a runtime's engine to the alarm. A wake-up costs more than the tasks that it wakes, and
/// tokio's own timers are up to 2 ms late.
const APART: Duration = Duration::from_micros(1500);

/// Builds an engine for a runtime, and what turns it.
fn build(runtime: &Handle) -> (Timer, Option<Turning>) {
    let builder = Builder::new().shards(1).pinning(Pinning::Off);
    // A task waits for this: it must not wait for the kernel.
    let builder = builder.thread_name("tickwheel-tokio").without_membarrier();
    #[cfg(feature = "test-util")]
    if let Some((timer, turning)) = pausable::build(builder.clone(), runtime) {
        return (timer, Some(turning));
    }
    let _ = runtime;
    let finely = builder.clone().tick(TICK).build();
    let timer = finely.expect("these settings are in range");
    // Before another thread sees the engine, which would start its worker.
    let driving = || {
        Driving::<TimerTask, TokioAlarm>::all(&timer, APART)
            .ok()?
            .pop()
    };
    match catch_unwind(AssertUnwindSafe(driving)).unwrap_or_default() {
        Some(driving) => (timer, Some(Box::new(driving))),
        // A worker sleeps from tick to tick.
        None => (builder.build().expect("as above"), None),
    }
}

fn engines() -> MutexGuard<'static, HashMap<Id, Timer>> {
    ENGINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task that has a runtime's engine turned, and stops it when the runtime drops its tasks.
struct RuntimesTask {
    id: Id,
    timer: Timer,
    /// Missing where the runtime has no driver for the alarm: then a worker turns the engine.
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
        let is_latest = |(of, _): &mut (Id, Timer)| *of == self.id;
        let latest = LATEST.try_with(|latest| latest.try_borrow_mut().ok()?.take_if(is_latest));
        drop(latest);
        // Before its shard goes to a worker. Its sleeps go on elsewhere, or their tasks end as well.
        crate::quietly(|| drop(self.timer.stop()));
    }
}

#[cfg(target_os = "linux")]
struct TokioAlarm {
    timer: ::tokio::io::unix::AsyncFd<Arc<TimerFd>>,
    /// Sets the timer off, where the runtime has several threads.
    bell: Option<Waker>,
}

/// A timer of the kernel.
///
/// It is also a waker that has the timer go off: whichever thread polls the runtime's driver then turns the shard. If the
/// turning task were woken by another task, it would be next on that task's thread, where no other thread takes it away,
/// however long that task goes on.
#[cfg(target_os = "linux")]
struct TimerFd {
    fd: std::os::fd::OwnedFd,
    is_woken: AtomicBool,
}

#[cfg(target_os = "linux")]
impl TimerFd {
    fn set(&self, pause: Duration) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

        // Zero would switch it off; a turn that is too early is followed by another one.
        let pause = pause.clamp(Duration::from_nanos(1), Duration::from_secs(1 << 30));
        let it_interval = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let it_value = Timespec::try_from(pause).map_err(io::Error::other)?;
        let (flags, spec) = (
            TimerfdTimerFlags::empty(),
            Itimerspec {
                it_interval,
                it_value,
            },
        );
        timerfd_settime(&self.fd, flags, &spec)?;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
impl std::os::fd::AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(target_os = "linux")]
impl Wake for TimerFd {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDERING: SeqCst, before the timer is set: a task that sets it later finds this.
        self.is_woken.store(true, Ordering::SeqCst);
        // It has been set with success before.
        let _ = self.set(Duration::ZERO);
    }
}

#[cfg(target_os = "linux")]
impl Alarm for TokioAlarm {
    #[allow(
        deprecated,
        reason = "its successor is unsafe, and missing before tokio 1.54"
    )]
    fn new() -> io::Result<Self> {
        use ::tokio::io::{Interest, unix::AsyncFd};
        use ::tokio::runtime::RuntimeFlavor;
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = Arc::new(TimerFd {
            fd: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            is_woken: AtomicBool::new(false),
        });
        let has_one_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let bell = (!has_one_thread).then(|| Waker::from(Arc::clone(&timer)));
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self { timer, bell })
    }

    fn set(&mut self, pause: Duration) -> io::Result<()> {
        self.timer.get_ref().set(pause)
    }

    fn waker(&self, task: &Waker) -> Waker {
        self.bell.as_ref().unwrap_or(task).clone()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // It is not read: setting it makes it unreadable, and the next time that it goes off is a new edge.
        let mut gone_off = Poll::Pending;
        while let Poll::Ready(Ok(mut ready)) = self.timer.poll_read_ready(cx) {
            ready.clear_ready();
            gone_off = Poll::Ready(());
        }
        // ORDERING: SeqCst: after the timer was set, which a wake before may have set as well.
        if self.timer.get_ref().is_woken.swap(false, Ordering::SeqCst) {
            gone_off = Poll::Ready(());
        }
        gone_off
    }
}

#[cfg(not(target_os = "linux"))]
type TokioAlarm = SleepAlarm;

/// Goes off by a timer of tokio's.
#[cfg(any(not(target_os = "linux"), feature = "test-util"))]
struct SleepAlarm(Pin<Box<::tokio::time::Sleep>>);

#[cfg(any(not(target_os = "linux"), feature = "test-util"))]
impl Alarm for SleepAlarm {
    fn new() -> io::Result<Self> {
        Ok(Self(Box::pin(::tokio::time::sleep(Duration::ZERO))))
    }

    fn set(&mut self, pause: Duration) -> io::Result<()> {
        // Time that stands moves by whole milliseconds, one more than asked for unless it is asked for a little less.
        // If it does not stand, the alarm may go off too early, and is set once more.
        #[cfg(feature = "test-util")]
        let pause = match u64::try_from(pause.as_nanos().div_ceil(1_000_000)) {
            Ok(millis) => Duration::from_millis(millis.saturating_sub(1)) + Duration::from_nanos(1),
            Err(_) => pause,
        };
        let now = ::tokio::time::Instant::now();
        let until = now
            .checked_add(pause)
            .unwrap_or(now + Duration::from_secs(1 << 30));
        self.0.as_mut().reset(until);
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}
