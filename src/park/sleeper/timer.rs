//! The precise end of a sleep on Linux: a timerfd registered with the sleeper's poll.
//!
//! Owned by the sleeper, used on its thread only.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Any token but the waker's: what the poll reports for it only means "look at the clock".
const TIMER: Token = Token(1);

/// A timerfd registered with the poll.
pub(super) struct Timer {
    fd: OwnedFd,
    /// Whether an expiry may still come.
    armed: bool,
}

impl Timer {
    pub(super) fn new(registry: &Registry) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), TIMER, Interest::READABLE)?;
        Ok(Self { fd, armed: false })
    }

    /// Lets the timer expire once after `timeout`, or not at all. Whatever was set before is
    /// forgotten, also an expiry that has not been delivered yet.
    pub(super) fn set(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout.is_none() && !self.armed {
            return Ok(());
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = timeout.map_or(zero, |timeout| Timespec {
            // The sleeper bounds the seconds to 68 years.
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as _,
        });
        let spec = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &spec)?;
        self.armed = timeout.is_some();
        Ok(())
    }
}
