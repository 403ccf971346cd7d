//! A lock-free, sharded timer engine for low-latency servers.
//!
//! A server arms a timeout for nearly everything it does and cancels nearly all of them. With tickwheel, any thread
//! arms and cancels a timer in some tens of nanoseconds of CPU; [`docs/PERFORMANCE.md`][figures] has the figures. The few
//! timers that remain fire on time, exactly once, and never early.
//!
//! ```
//! use std::time::Duration;
//! use tickwheel::Timer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let timer = Timer::new()?; // one shard and one pinned worker per core
//!
//! // A closure that runs once, on a worker. The key names it.
//! let deadline = timer.run_after(Duration::from_secs(5), || println!("request timed out"))?;
//!
//! // The response came: one compare-and-swap, and the closure is handed back.
//! assert!(timer.cancel(deadline).is_won());
//!
//! // `stop` returns every timer that has neither fired nor been cancelled.
//! timer.run_after(Duration::from_secs(3600), || println!("hourly report"))?;
//! assert_eq!(timer.stop()?.len(), 1);
//! # Ok(()) }
//! ```
//!
//! # Which timer to use
//!
//! | you have | use | what fires |
//! |---|---|---|
//! | threads that arm timeouts | [`Timer`], built by [`Builder`] | its workers call your closure or handler |
//! | async code on tokio, or a library that may run there | `tickwheel_util::time` of [`tickwheel-util`][util] | your task is woken |
//! | async code on other runtimes | [`sleep`], [`timeout`], [`interval`] | your task is woken |
//! | your own event loop | [`EventLoopTimer`], built by [`Settings`] | the loop; other threads hold a [`Remote`] |
//! | one thread | [`LocalTimer`], without atomics | the code that polls |
//! | a library whose threads need an occasional timeout | [`global`] | one engine for the whole process |
//!
//! On tokio the functions here are the wrong call: they start workers of their own, cost more, and do not stand still in
//! paused tests. `tickwheel_util::time` has tokio's names and does none of this, also without features, as
//! [libraries][libraries] take it. The same crate adds delay queues, streams, metrics, and adapters for hyper, tower and
//! quinn.
//!
//! # Concepts
//!
//! * A **deadline** is a delay, a [`Time`] of the timer's clock, or an [`Instant`](std::time::Instant): each call takes
//!   a [`When`]. It is rounded up to a **tick**, so no timer is early.
//! * A timer has one **payload**: a closure ([`TimerTask`]), or a value of your own type for one handler.
//! * A [`Key`] of 12 bytes names a timer for ever; a stale key is harmless. Each call that arms a timer returns one.
//! * A [`TimerHandle`] needs no `Timer` beside it, knows how its timer ended, and can cancel it on drop. The calls that
//!   return one end in `_handle`.
//! * Exactly one of **cancel**, **fire** and **stop** ends a timer and gets the payload. [`Cancel`] tells who won.
//! * Tests and simulations turn time by hand, with [`ManualClock`] and [`Drive::Manual`].
//!
//! With your own payload type, one handler receives every timer:
//!
//! ```
//! use std::time::Duration;
//! use tickwheel::{Builder, Expired};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (sender, receiver) = std::sync::mpsc::channel();
//! let timer = Builder::new()
//!     .tick(Duration::from_micros(100))
//!     .build_with(move |expired: Expired<u64>| sender.send(expired).unwrap())?;
//!
//! let key = timer.schedule(Duration::from_millis(1), 17u64)?;
//! let expired = receiver.recv()?;
//! assert_eq!((expired.payload, expired.key), (17, key));
//! assert!(!timer.is_pending(key));
//! # Ok(()) }
//! ```
//!
//! Async code on tokio writes `use tickwheel_util::time` in place of `use tokio::time` ([`tickwheel-util`][util]). On other
//! runtimes it uses the functions here, over the process's shared engine, or `timer.sleep(..)` of its own:
//!
//! ```
//! # #[cfg(feature = "futures")] {
//! use std::time::Duration;
//!
//! # async fn answer() -> u8 { 17 }
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let answer = tickwheel::timeout(Duration::from_secs(5), answer()).await?;
//! tickwheel::sleep(Duration::from_millis(20)).await;
//! # drop(answer); Ok(()) }
//! # }
//! ```
//!
//! # Features
//!
//! | feature | what it adds | what it needs |
//! |---|---|---|
//! | `futures` (default) | [`sleep`], [`timeout`], [`interval`] | nothing more |
//! | `mio` | [`EventLoopTimer`]s whose remotes wake a loop through its `mio::Poll` | mio |
//! | `tracing` | events with fields in place of log records | tracing |
//!
//! Features whose names begin with `__` are for this repository's own crates and tests; no version promises anything about
//! them. [`LocalTimer`] and what it needs are a crate of their own, [`tickwheel-core`][core], which needs an allocator and
//! no operating system.
//!
//! # Further reading
//!
//! In the repository, [`docs/GUIDE.md`][guide] covers settings, production and questions, [`docs/EMBEDDING.md`][embedding]
//! event loops, [`docs/TOKIO.md`][tokio] the way from tokio's timers, [`docs/HTTP.md`][http] servers,
//! [`docs/NO_STD.md`][bare] processors without an operating system, [`docs/DESIGN.md`][design] the architecture, and
//! [`docs/PERFORMANCE.md`][figures] the figures.
//!
//! [util]: https://docs.rs/tickwheel-util
//! [core]: https://docs.rs/tickwheel-core
//! [libraries]: https://github.com/tickwheel/tickwheel/blob/main/docs/LIBRARIES.md
//! [guide]: https://github.com/tickwheel/tickwheel/blob/main/docs/GUIDE.md
//! [embedding]: https://github.com/tickwheel/tickwheel/blob/main/docs/EMBEDDING.md
//! [tokio]: https://github.com/tickwheel/tickwheel/blob/main/docs/TOKIO.md
//! [http]: https://github.com/tickwheel/tickwheel/blob/main/docs/HTTP.md
//! [bare]: https://github.com/tickwheel/tickwheel/blob/main/docs/NO_STD.md
//! [design]: https://github.com/tickwheel/tickwheel/blob/main/docs/DESIGN.md
//! [figures]: https://github.com/tickwheel/tickwheel/blob/main/docs/PERFORMANCE.md

#![cfg_attr(docsrs, feature(doc_cfg))]

// The part that one thread needs, a crate of its own: its rooms under the names that they have there.
#[macro_use]
extern crate tickwheel_core;
use tickwheel_core::{contain, local, loop_timer, settings, time, types, wheel};

mod state;
mod stats;
mod sync;

// What shares timers between threads.
mod inbox;
mod node;
mod park;
mod shard;

mod engine;
mod event_loop;
#[cfg(feature = "futures")]
mod futures;

#[cfg(test)]
#[path = "../loom-tests/models/mod.rs"]
mod models;

#[cfg(all(test, target_os = "linux", not(tickwheel_loom)))]
#[allow(
    dead_code,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "../tests/support/system.rs"]
mod system;

pub use engine::{
    Builder, Drive, DrivenShard, EngineState, Executor, IdleStrategy, PanicReport, Pinning,
    Shutdown, SlowHandler, Stats, Timer, TimerGuard, TimerHandle, TimerState, TimerTask, WeakTimer,
    WorkerFailure, executor_fn, global, unpin_current_thread,
};
pub use event_loop::{EventLoopTimer, Remote, RemoteKey};
#[cfg(feature = "futures")]
pub use futures::{
    Elapsed, Interval, Sleep, SleepError, Timeout, TimeoutError, interval, interval_at, sleep,
    sleep_until, timeout, timeout_at,
};
pub use stats::{DurationHistogram, PinState, ShardStats};
#[doc(inline)]
pub use tickwheel_core::{
    BootClock, Budget, BuildError, Cancel, Clock, Expirations, Expired, Key, LocalTimer,
    ManualClock, MissedTicks, MonotonicClock, Period, Polled, RawKey, Recurring, Reschedule,
    ScheduleError, ScheduleErrorKind, Settings, StartError, StopError, SystemError, Time,
    TurnError, Unfired, When,
};

#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod __internal {
    pub use crate::engine::{set_home, wake_by, without_membarrier};
    #[cfg(feature = "futures")]
    pub use crate::futures::{has_engine, poll_on, sleep_anywhere};
    pub use crate::wheel::{BURST, DeadMask, Entry, Rings, Sweep};
    #[cfg(feature = "__test-clock")]
    pub use crate::{engine::in_test_time, futures::replace_shared};
}

/// Holds the examples of the pages, which are compiled and run with the documentation tests.
#[cfg(all(doctest, feature = "futures", feature = "mio"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/EMBEDDING.md")]
#[doc = include_str!("../docs/GUIDE.md")]
#[doc = include_str!("../docs/NO_STD.md")]
mod pages {}

/// Holds examples that must not compile.
///
/// A [`TimerHandle`] is the one handle of its timer:
///
/// ```compile_fail,E0599
/// # let timer = tickwheel::Timer::new().unwrap();
/// let timeout = timer.run_after_handle(std::time::Duration::ZERO, || ()).unwrap();
/// let twin = timeout.clone();
/// ```
///
/// Payloads cross threads:
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// # let timer = tickwheel::Timer::new().unwrap();
/// timer.run_after(std::time::Duration::ZERO, move || drop(shared)).unwrap();
/// ```
///
/// ```compile_fail,E0277
/// use tickwheel::{Builder, Expired};
/// let timer = Builder::new().build_with(|_: Expired<std::rc::Rc<u8>>| ());
/// ```
///
/// A closure is no payload; [`Timer::run_after`] makes one of it:
///
/// ```compile_fail,E0308
/// # let timer = tickwheel::Timer::new().unwrap();
/// timer.schedule(std::time::Duration::ZERO, || ()).unwrap();
/// ```
///
/// A key names timers with its own type of payload only:
///
/// ```compile_fail,E0308
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, Time};
/// let mut names = LocalTimer::new(Duration::from_millis(1))?;
/// let mut numbers = LocalTimer::new(Duration::from_millis(1))?;
/// let key = names.schedule(Time::ZERO, Duration::ZERO, "name")?;
/// numbers.schedule(Time::ZERO, Duration::ZERO, 1)?;
/// numbers.cancel(key);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A payload may outlive the function that scheduled it:
///
/// ```compile_fail,E0597
/// # let timer = tickwheel::Timer::new().unwrap();
/// let local = String::new();
/// let borrowed = &local;
/// timer.run_after(std::time::Duration::ZERO, move || println!("{borrowed}")).unwrap();
/// ```
#[cfg(doctest)]
mod must_not_compile {}
