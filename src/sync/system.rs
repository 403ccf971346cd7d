//! The calls of Linux that the library makes beside those of std, each as a small function.
//!
//! They go through libc, which valgrind and the sanitizers can follow. Any thread; none of them allocates, and none
//! blocks but [`wait`].

#[cfg(not(tickwheel_loom))]
use crate::sync::atomic::AtomicU32;
#[cfg(tickwheel_loom)]
pub(crate) use crate::sync::explored::futex::{wait, wake};
use libc::{c_int, c_ulong};
#[cfg(not(tickwheel_loom))]
use std::io;
use std::ptr;
#[cfg(not(tickwheel_loom))]
use std::time::Duration;

/// Bits of a word of a [`CoreSet`].
const WORD: usize = usize::BITS as usize;

/// Cores that a [`CoreSet`] can hold.
pub(crate) const MOST_CORES: usize = 1024;

/// Words of a [`CoreSet`].
pub(crate) const CORE_WORDS: usize = MOST_CORES / WORD;

/// A set of cores, one bit for each. A word has the size of the kernel's.
pub(crate) type CoreSet = [usize; CORE_WORDS];

/// Returns the cores on which a thread may run; the calling thread is 0. `None` if the system does not tell.
pub(crate) fn affinity(thread: c_int) -> Option<CoreSet> {
    let mut set = CoreSet::default();
    // SAFETY: the kernel writes at most the bytes of the set.
    let result = unsafe {
        libc::sched_getaffinity(thread, size_of_val(&set), ptr::from_mut(&mut set).cast())
    };
    (result == 0).then_some(set)
}

/// Lets the calling thread run on these cores only.
pub(crate) fn set_affinity(set: &CoreSet) -> bool {
    // SAFETY: the kernel reads the bytes of the set.
    unsafe { libc::sched_setaffinity(0, size_of_val(set), ptr::from_ref(set).cast()) == 0 }
}

/// Returns whether a core is in the set.
pub(crate) fn is_in(set: &CoreSet, core: usize) -> bool {
    set[core / WORD] >> (core % WORD) & 1 == 1
}

/// Lets sleeps of the calling thread overrun by at most 1 ns, as far as that is the kernel's doing. A system that
/// refuses lets them overrun by up to 50 us, which is late, never early.
pub(crate) fn set_least_timer_slack() {
    // SAFETY: changes a number of the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as c_ulong) };
}

/// Sleeps while `word` is `value`, for `timeout` at most. May end at any time, for example on a signal.
#[cfg(not(tickwheel_loom))]
pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    // More seconds than the word holds would be a negative time, which the kernel refuses at once.
    let seconds = |it: Duration| it.as_secs().try_into().unwrap_or(libc::c_long::MAX);
    let timeout = timeout.map(|it| [seconds(it), it.subsec_nanos() as libc::c_long]);
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let call = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time, seconds and nanoseconds, live as long as the call.
    unsafe { libc::syscall(libc::SYS_futex, ptr::from_ref(word), call, value, timeout) };
}

/// Wakes a thread that sleeps on `word`.
#[cfg(not(tickwheel_loom))]
pub(crate) fn wake(word: &AtomicU32) {
    let call = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the call.
    unsafe { libc::syscall(libc::SYS_futex, ptr::from_ref(word), call, 1) };
}

/// Calls `membarrier(2)`.
#[cfg(not(tickwheel_loom))]
pub(crate) fn membarrier(command: c_int) -> io::Result<()> {
    // SAFETY: reads and writes no memory of the process.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
