//! What wakes when a time is over, by the means of a tokio runtime.

use crate::driving::Alarm;
use std::io;
#[cfg(any(not(target_os = "linux"), feature = "test-util"))]
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
#[cfg(target_os = "linux")]
use {
    super::request::TurnRequest,
    std::os::fd::{AsRawFd, OwnedFd, RawFd},
    std::sync::Arc,
    std::task::{Wake, Waker},
    tokio::io::{Interest, unix::AsyncFd},
    tokio::runtime::{Handle, RuntimeFlavor},
};

/// Goes off by a timer of the kernel.
#[cfg(target_os = "linux")]
pub(super) struct TokioAlarm {
    timer: AsyncFd<Arc<TimerFd>>,
    /// Has the timer go off, where the runtime has several threads.
    early: Option<Arc<Early>>,
}

/// A timer of the kernel, and what is asked of it before its time.
#[cfg(target_os = "linux")]
struct TimerFd {
    fd: OwnedFd,
    request: TurnRequest,
}

#[cfg(target_os = "linux")]
impl TimerFd {
    fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = Self {
            fd: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            request: TurnRequest::default(),
        };
        // A system that lets it be made may refuse to set it.
        timer.set(Duration::MAX)?;
        Ok(timer)
    }

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
impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// A waker that has the timer go off: whichever thread polls the runtime's driver then has the shard turned.
///
/// If the turning task were woken by another task, it would be next on that task's thread, where no other thread takes it
/// away, however long that task goes on.
#[cfg(target_os = "linux")]
struct Early {
    timer: Arc<TimerFd>,
    /// Of the turning task, which gives the shard to a worker where the timer cannot be set.
    task: Waker,
}

#[cfg(target_os = "linux")]
impl Wake for Early {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let timer = &self.timer;
        if timer.request.make(|| timer.set(Duration::ZERO)).is_err() {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(target_os = "linux")]
impl Alarm for TokioAlarm {
    #[allow(
        deprecated,
        reason = "its successor is unsafe, and missing before tokio 1.54"
    )]
    fn new() -> io::Result<Self> {
        let timer = Arc::new(TimerFd::new()?);
        let has_one_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let early = (!has_one_thread).then(|| {
            let (timer, task) = (Arc::clone(&timer), Waker::noop().clone());
            Arc::new(Early { timer, task })
        });
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self { timer, early })
    }

    fn set(&mut self, pause: Duration) -> io::Result<()> {
        self.timer.get_ref().set(pause)
    }

    fn waker(&mut self, task: &Waker) -> Waker {
        let Some(early) = &mut self.early else {
            return task.clone();
        };
        if !early.task.will_wake(task) {
            let (timer, task) = (Arc::clone(&early.timer), task.clone());
            *early = Arc::new(Early { timer, task });
        }
        Waker::from(Arc::clone(early))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // It is not read: setting it makes it unreadable, and the next time that it goes off is a new edge.
        let mut gone_off = Poll::Pending;
        while let Poll::Ready(Ok(mut ready)) = self.timer.poll_read_ready(cx) {
            ready.clear_ready();
            gone_off = Poll::Ready(());
        }
        if self.timer.get_ref().request.take() {
            gone_off = Poll::Ready(());
        }
        gone_off
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) type TokioAlarm = SleepAlarm;

/// Goes off by a timer of tokio's; `None` while it is not set.
#[cfg(any(not(target_os = "linux"), feature = "test-util"))]
pub(super) struct SleepAlarm(Option<Pin<Box<tokio::time::Sleep>>>);

#[cfg(any(not(target_os = "linux"), feature = "test-util"))]
impl Alarm for SleepAlarm {
    fn new() -> io::Result<Self> {
        Ok(Self(Some(Box::pin(tokio::time::sleep(Duration::ZERO)))))
    }

    fn set(&mut self, pause: Duration) -> io::Result<()> {
        // Time that stands moves by whole milliseconds, one more than asked for unless it is asked for a little less.
        // If it does not stand, the alarm may go off too early, and is set once more.
        #[cfg(feature = "test-util")]
        let pause = match u64::try_from(pause.as_nanos().div_ceil(1_000_000)) {
            Ok(millis) => Duration::from_millis(millis.saturating_sub(1)) + Duration::from_nanos(1),
            Err(_) => pause,
        };
        let now = tokio::time::Instant::now();
        let until = now
            .checked_add(pause)
            .unwrap_or(now + Duration::from_secs(1 << 30));
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().reset(until),
            unset => *unset = Some(Box::pin(tokio::time::sleep_until(until))),
        }
        Ok(())
    }

    fn unset(&mut self) {
        // Time that stands would jump to its deadline.
        self.0 = None;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}
