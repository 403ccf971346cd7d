//! The first process of a container: what a command leaves behind becomes its child, and stays as a zombie until it is
//! waited for. So `consume` runs as its child then, and it does nothing but wait, and pass signals on.

use std::process::{Command, ExitCode};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::error::Failure;

/// What it waits for.
const SIGNALS: [Signal; 3] = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT];

/// Whether this is the first process.
pub(crate) fn is_first() -> bool {
    std::process::id() == 1
}

/// Lets signals come that [`run`] keeps from its own process: a child inherits that.
pub(crate) fn let_signals_come() {
    let _ = SigSet::from_iter(SIGNALS).thread_unblock();
}

/// Runs this program as a child, and ends as it does. There must be no other threads yet.
///
/// # Errors
///
/// What the system says.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let signals = SigSet::from_iter(SIGNALS);
    signals.thread_block()?;
    let child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .spawn()?;
    let child = Pid::from_raw(i32::try_from(child.id())?);
    loop {
        match signals.wait()? {
            Signal::SIGCHLD => {
                if let Some(code) = reap(child) {
                    return Ok(ExitCode::from(code));
                }
            }
            signal => kill(child, signal)?,
        }
    }
}

/// Waits for all that have ended. Returns the exit code of `child` if it is one of them.
fn reap(child: Pid) -> Option<u8> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(one, code)) if one == child => {
                return Some(u8::try_from(code).unwrap_or(u8::MAX));
            }
            Ok(WaitStatus::Signaled(one, signal, _)) if one == child => {
                return Some(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX));
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
