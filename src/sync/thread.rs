//! Threads: how one is started, and numbers that are never used twice.

#[cfg(not(tickwheel_loom))]
use super::process::{AtomicU64, Ordering};
#[cfg(not(tickwheel_loom))]
use std::cell::Cell;

/// Returns the calling thread's number, which is not 0 and no other thread's, ever. In a fork it is the number of the
/// thread that has forked. Works at a thread's very end: the thread-local has no destructor. At worst, where the system
/// has destroyed it all the same, each call returns a new number.
#[cfg(not(tickwheel_loom))]
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    let number = NUMBER.try_with(Cell::get).unwrap_or(0);
    if number != 0 {
        return number;
    }
    // ORDERING: Relaxed: only the number matters.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let _ = NUMBER.try_with(|it| it.set(number));
    number
}

/// Loom's threads share the thread-locals of one thread.
#[cfg(tickwheel_loom)]
pub(crate) use super::explored::watched::thread_number as number;

/// Starts a thread that no other joins and that takes no signals from outside.
#[cfg(not(tickwheel_loom))]
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    // From before its first instruction.
    #[cfg(unix)]
    let _blocked = super::signals::Blocked::new();
    std::thread::Builder::new().name(name).spawn(body).map(drop)
}

#[cfg(tickwheel_loom)]
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    drop((name, super::explored::watched::spawn(body)));
    Ok(())
}
