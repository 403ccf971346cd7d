//! The sleeps of one thread, by an `EventLoopTimer` inside of its runtime.
//!
//! ```text
//!   task: polls a LocalSleep --arms--> EventLoopTimer <--schedules-- other threads, by a Remote
//!     ^                                    |
//!     +------------- wakes ------------ fire(), by the loop itself or by the task that drives it
//! ```
//!
//! Everything is on one thread: arming is an entry in the thread's own wheel, and a wake is a push to the runtime's own
//! queue. Nothing of the user's is called while the timer is borrowed: wakers are collected, and woken afterwards.

mod shared;
mod sleep;
mod sleeps;

pub use sleep::LocalSleep;
pub use sleeps::LocalSleeps;
