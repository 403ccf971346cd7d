//! Memory, as the whole program sees it: what happens to whom an allocation keeps waiting, or is refused.
//!
//! A program of its own, because the allocator belongs to the process.
//!
//! | room | what is inside |
//! |---|---|
//! | `allocator` | the system's allocator, which stops a thread that asks for it, or has no memory for it |
//! | `forked` | a child that forked beside busy threads uses blocks again |
//! | `given_back` | the memory of a burst goes back to the system, and its keys stay stale |
//! | `refused` | a timer for which there is no memory comes back in the error |
//! | `owners` | the same for what a timer's own thread files: log, wheel |
//! | `stopped` | a thread that stops in the middle of a call delays nobody else |
//! | `worker` | a worker does not call the allocator |

#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "../support"]
mod support {
    pub(crate) mod random;
    #[cfg(target_os = "linux")]
    pub(crate) mod system;
}

mod allocator;
#[cfg(target_os = "linux")]
mod forked;
mod given_back;
mod owners;
mod refused;
mod stopped;
mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The tests of this program run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the calling test once more in a process of its own, and returns whether that has been done.
///
/// The limit on mappings is the process's: while a test refuses memory, no other test's thread may begin.
fn in_a_process_of_its_own() -> bool {
    const CHILD: &str = "TICKWHEEL_TEST_ALONE";
    let thread = std::thread::current();
    // The main thread runs tests one by one: then this process has no other.
    let name = thread.name().filter(|name| *name != "main" && std::env::var_os(CHILD).is_none());
    let Some(name) = name else { return false };
    let program = std::env::current_exe().expect("a test knows its program");
    let child = std::process::Command::new(program)
        .args([name, "--exact", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .expect("it can be run once more");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
    true
}
