//! Memory, as the whole program sees it: what happens to whom an allocation keeps waiting, or is refused.
//!
//! A program of its own, because the allocator belongs to the process.
//!
//! | room | what is inside |
//! |---|---|
//! | `allocator` | the system's allocator, which stops a thread that asks for it, or has no memory for it |
//! | `calls` | each call that must not end the process where it gets no memory |
//! | `children` | processes of a test's own |
//! | `forked` | a child that forked beside busy threads uses blocks again |
//! | `first_drain` | a new shard has room for the entries of its first timers |
//! | `given_back` | the memory of a burst goes back to the system, and its keys stay stale |
//! | `gone` | timers that are gone hold no memory |
//! | `refused` | a timer for which there is no memory comes back in the error, and an engine without threads says so |
//! | `stopped` | a thread that stops in the middle of a call delays nobody else |
//! | `worker` | a worker does not call the allocator |

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod breakable;
    pub(crate) mod loop_timer;
    pub(crate) mod random;
    pub(crate) mod setup;
    #[cfg(target_os = "linux")]
    pub(crate) mod system;
}

mod allocator;
mod calls;
#[allow(
    dead_code,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "../hostile/children.rs"]
mod children;
mod first_drain;
#[cfg(target_os = "linux")]
mod forked;
mod given_back;
mod gone;
mod refused;
mod stopped;
mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use support::setup::{HOUR, ms, one_shard, secs};
use tickwheel::{Builder, Drive, Expired, ManualClock, Timer};

/// The tests of this program run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Schedules and cancels timers, one after the other.
fn churn(timer: &Timer<u64>, pairs: u64) {
    for n in 0..pairs {
        assert!(timer.cancel(timer.schedule(HOUR, n).unwrap()).is_won());
    }
}

/// An engine that is turned by hand.
fn by_hand(clock: &ManualClock) -> Builder {
    one_shard().clock(clock.clone()).drive(Drive::Manual)
}

fn engine(clock: &ManualClock) -> Timer<u64> {
    by_hand(clock).build_with(|_: Expired<u64>| ()).unwrap()
}

/// Waits for something that another thread does; false after a time that only a hang can take.
fn holds_soon(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < secs(20) {
        if holds() {
            return true;
        }
        std::thread::sleep(ms(1));
    }
    false
}
