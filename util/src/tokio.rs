//! Timers that fire cost a thread switch less where tasks of tokio turn the engine's shards.
//!
//! One line at the start of the program makes the free functions [`sleep`](tickwheel::sleep()),
//! [`timeout`](tickwheel::timeout) and [`interval`](tickwheel::interval) use no thread of their own:
//!
//! ```
//! # tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(async {
//! tickwheel_util::tokio::drive_shared()?;
//! tickwheel::sleep(std::time::Duration::from_millis(5)).await;
//! # std::io::Result::Ok(()) }).unwrap();
//! ```
//!
//! * Any thread may schedule and cancel as before. A timer that comes before all others wakes the task.
//! * The runtime needs `enable_io` on Linux, where a `timerfd` wakes the task; elsewhere `enable_time`.
//! * Closures and handlers run inside of the task, so they must not block.
//! * While the runtime's threads are all busy, or a current-thread runtime is outside of `block_on`, timers wait, as
//!   tokio's own do. A program with both kinds of user gives closures an engine of their own.
//! * When the runtime shuts down, or a task is aborted, the engine's workers take over. Nothing is lost. Then another
//!   runtime may drive it; a second one beside the first is refused, and its sleeps work all the same.

use crate::driving::{Alarm, Driving, shared};
use ::tokio::runtime::Handle;
use ::tokio::task::JoinHandle;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tickwheel::{Timer, TurnError};

/// Spawns a task for each shard of an engine, which turns it in place of its worker.
///
/// A task ends when the engine is stopped; aborting it gives the shard back to a worker.
///
/// # Errors
///
/// If the calling thread is outside of a runtime, if another runtime drives a shard, if the engine is stopped, or if
/// the system refuses a timer. Then no shard is driven.
///
/// # Panics
///
/// If the runtime was built without the driver that the [module](self) names.
pub fn drive<T: Send + 'static>(timer: &Timer<T>) -> io::Result<Vec<JoinHandle<TurnError>>> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let driving = Driving::<T, TokioAlarm>::all(timer)?;
    Ok(driving
        .into_iter()
        .map(|shard| runtime.spawn(shard))
        .collect())
}

/// Drives the process's shared engine; see [`drive`].
///
/// If no library has asked for the engine yet it gets one shard, which one task turns. A program
/// that needs more calls [`build_global`](tickwheel::Builder::build_global) before, with as many shards as it wants
/// tasks.
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

/// Has tokio call a waker when the thread has run the tasks that are ready.
///
/// A thread that is called for each waker by itself finds one task each time, and goes back to sleep. Those that have
/// yielded are all called before one more thread is.
fn wake_later(waker: Waker) {
    let mut yielded = pin!(::tokio::task::yield_now());
    if yielded
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_ready()
    {
        waker.wake();
    }
}

#[cfg(target_os = "linux")]
struct TokioAlarm(::tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>);

#[cfg(target_os = "linux")]
impl Alarm for TokioAlarm {
    const WAKE: fn(Waker) = wake_later;

    #[allow(
        deprecated,
        reason = "its successor is unsafe, and missing before tokio 1.54"
    )]
    fn new() -> io::Result<Self> {
        use ::tokio::io::{Interest, unix::AsyncFd};
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    fn set(&mut self, pause: Duration) -> io::Result<()> {
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
        timerfd_settime(&self.0, flags, &spec)?;
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // It is not read: setting it makes it unreadable, and the next time that it goes off is a new edge.
        let mut gone_off = Poll::Pending;
        while let Poll::Ready(Ok(mut ready)) = self.0.poll_read_ready(cx) {
            ready.clear_ready();
            gone_off = Poll::Ready(());
        }
        gone_off
    }
}

#[cfg(not(target_os = "linux"))]
struct TokioAlarm(std::pin::Pin<Box<::tokio::time::Sleep>>);

#[cfg(not(target_os = "linux"))]
impl Alarm for TokioAlarm {
    const WAKE: fn(Waker) = wake_later;

    fn new() -> io::Result<Self> {
        Ok(Self(Box::pin(::tokio::time::sleep(Duration::ZERO))))
    }

    fn set(&mut self, pause: Duration) -> io::Result<()> {
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
