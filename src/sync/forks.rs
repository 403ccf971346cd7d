//! A count of forks, so that an engine notices in a child that its workers are the parent's threads.
//!
//! A fork copies the memory of all threads and only one of the threads. A handler of `pthread_atfork` counts in the
//! child, before `fork` returns there. Asking for the process id instead would cost a system call, and in another
//! namespace it may be the same. A fork that bypasses libc is not noticed.

use crate::sync::process::{AtomicU64, Ordering};

/// Forks between the process that has built the first engine and this one, times 256: a phase has room below.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Returns the forks so far, in the bits above the lowest eight.
#[inline]
pub(crate) fn count() -> u64 {
    // ORDERING: Relaxed: written only while the process has one thread, which has made every later one.
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on.
pub(crate) fn watch() {
    #[cfg(unix)]
    {
        static WATCHED: std::sync::Once = std::sync::Once::new();
        extern "C" fn forked() {
            // ORDERING: Relaxed: the child has one thread.
            FORKS.fetch_add(1 << 8, Ordering::Relaxed);
        }
        // It fails only without memory, and then forks go unnoticed.
        // SAFETY: the handler changes one atomic, and calls nothing.
        WATCHED.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) });
    }
}
