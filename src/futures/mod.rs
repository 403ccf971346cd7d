//! Futures for any runtime: nothing here knows one.
//!
//! | room | what is inside |
//! |---|---|
//! | `sleep` | [`Sleep`]: ready at a point in time |
//! | `timeout` | [`Timeout`]: another future, for so long at most |
//! | `interval` | [`Interval`]: one tick per period |
//! | `error` | why a future ends before its time |
//!
//! Each has a function for the process's shared engine ([`sleep()`], [`timeout()`], [`interval()`]) and a
//! method of [`Timer`](crate::Timer) for one of your own.
//!
//! A future is polled by one thread at a time, by any thread; what it shares with the engine's workers is one node
//! (`engine::wake_timer`). It keeps its engine's memory, not its workers.

mod error;
mod interval;
mod sleep;
mod timeout;

pub use error::{Elapsed, SleepError, TimeoutError};
pub use interval::{Interval, interval, interval_at};
#[cfg(feature = "__test-clock")]
pub use sleep::replace_shared;
pub use sleep::{Sleep, sleep, sleep_until};
#[cfg(feature = "__internal")]
pub use sleep::{has_engine, poll_on, sleep_anywhere};
pub use timeout::{Timeout, timeout, timeout_at};
