//! Which signals a thread takes.
//!
//! A signal to the process ends up in any thread that does not block it. A program that blocks one to wait for it
//! (`sigwait`, `signalfd`) blocks it in its own threads, and knows nothing of the library's. A thread is born with the
//! mask of the one that starts it.

use std::mem::MaybeUninit;
use std::ptr;

/// Caused by the thread's own instructions. Linux ends the process if one of them comes while it is blocked.
const SYNCHRONOUS: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Blocks all but the synchronous signals on the calling thread, until it is dropped there. Threads that start meanwhile
/// block them for good.
pub(super) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    pub(super) fn new() -> Self {
        let [mut set, mut before] = [MaybeUninit::<libc::sigset_t>::uninit(); 2];
        // SAFETY: the calls write both sets before they are read, and fail for none of these numbers.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            for signal in SYNCHRONOUS {
                libc::sigdelset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            Self {
                before: before.assume_init(),
            }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was written by the system.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}
