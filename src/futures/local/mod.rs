//! The sleeps of one thread, by an `EventLoopTimer` inside of its runtime.
//!
//! ```text
//!   task: polls a LocalSleep --arms--> EventLoopTimer <--schedules-- other threads, by a Remote
//!     ^                                    |
//!     +------------- wakes ------------ fire(), by the loop itself or by the task that drives it
//! ```
//!
//! Everything is on one thread: arming is an entry in the thread's own wheel, and a wake is a push to the runtime's own
//! queue. Only the waker of the task that drives this lies behind a lock, because remotes wake that task, too: it is
//! taken for a few instructions, by that task when it waits, and by who ends its sleep.
//!
//! Nothing of the user's is called while the timer is borrowed: wakers are collected, and woken afterwards, and there
//! are no periodic timers, which would be cloned in a turn (`wakeup`).

mod shared;
mod sleep;
mod sleeps;
mod wakeup;

pub use sleep::LocalSleep;
pub use sleeps::LocalSleeps;
pub use wakeup::Wakeup;
