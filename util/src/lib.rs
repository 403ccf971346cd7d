//! Timers for async programs, with the names of `tokio::time`, on the engine [tickwheel](https://docs.rs/tickwheel).
//!
//! ```
//! use tickwheel_util::time; // in place of `use tokio::time`
//!
//! # smol::block_on(async {
//! let answer = time::timeout(time::Duration::from_secs(5), async { 17 }).await;
//! assert_eq!(answer, Ok(17));
//! # });
//! ```
//!
//! That is all that a program changes, where the types do not go to other crates: see [`time`] for whose timers it uses.
//! Without the feature `tokio` the same code runs on any executor. With the feature `test-util` a test holds time still:
//!
//! ```
//! use tickwheel_util::time::{self, Duration, Instant};
//!
//! # // The attribute's function runs only in tests.
//! # fn main() {
//! #     let mut builder = tokio::runtime::Builder::new_current_thread();
//! #     builder.enable_all().start_paused(true).build().unwrap().block_on(an_hour_takes_no_time())
//! # }
//! # /*
//! #[tokio::test(start_paused = true)]
//! # */
//! async fn an_hour_takes_no_time() {
//!     let start = Instant::now();
//!     time::sleep(Duration::from_secs(3600)).await;
//!     assert_eq!(start.elapsed(), Duration::from_secs(3600));
//! }
//! ```
//!
//! | feature | what it adds |
//! |---|---|
//! | none | [`time`]: the names of `tokio::time`; [`FutureExt`]: `timeout` as a method |
//! | none | [`DelayQueue`]: items that come out when their time has come |
//! | none | [`local`]: sleeps, timeouts and intervals of one thread, by a timer inside of its runtime |
//! | `tokio` | [`time`] by an engine of the runtime's own, which it turns itself; the module [`tokio_rt`] turns other engines |
//! | `smol` | the module [`smol_rt`]: tasks of the runtime that turn an engine's shards, in place of its workers |
//! | `test-util` | `time::pause`, `advance` and `resume`; the module [`mod@test`]: virtual time on any executor |
//! | `stream` | [`stream`]: `Stream` for queues and intervals; `timeout`, `timeout_repeating`, `throttle`, `chunks_timeout` of streams |
//! | `hyper` | [`HyperTimer`]: header-read, keep-alive and ping timeouts of hyper's connections |
//! | `tower` | [`layer`]: how long a request may take, and once more after a pause |
//! | `http` | [`layer`]: late requests are answered with a status; how long a body may pause |
//! | `metrics` | [`MetricsReporter`]: statistics for the `metrics` facade |
//! | `quinn` | [`QuinnRuntime`]: the timers of QUIC connections |
//!
//! Each works on any runtime, by the runtime's engine (see [`time`]), by the process's, or by a
//! [`Timer`](tickwheel::Timer) of your own; `local` by a timer of its thread.
//!
//! In the repository stand [the way from tokio's timers](https://github.com/tickwheel/tickwheel/blob/main/docs/TOKIO.md),
//! [servers over HTTP](https://github.com/tickwheel/tickwheel/blob/main/docs/HTTP.md), and
//! [one runtime per core](https://github.com/tickwheel/tickwheel/blob/main/runtimes/README.md).
// Without its feature an item has no page to link to; docs.rs has all of them.
#![cfg_attr(
    not(all(
        feature = "http",
        feature = "hyper",
        feature = "metrics",
        feature = "quinn",
        feature = "smol",
        feature = "stream",
        feature = "test-util",
        feature = "tokio"
    )),
    allow(rustdoc::broken_intra_doc_links)
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod delay_queue;
#[cfg(any(feature = "smol", feature = "tokio"))]
mod driving;
mod engine;
mod ext;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "tower")]
pub mod layer;
pub mod local;
#[cfg(feature = "metrics")]
mod metrics;
mod notify;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "smol")]
pub mod smol_rt;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "test-util")]
pub mod test;
pub mod time;
#[cfg(feature = "tokio")]
pub mod tokio_rt;

pub use delay_queue::DelayQueue;
pub use ext::FutureExt;
#[cfg(feature = "hyper")]
pub use hyper::HyperTimer;
#[cfg(feature = "metrics")]
pub use metrics::MetricsReporter;
#[cfg(feature = "quinn")]
pub use quinn::QuinnRuntime;

/// Holds the examples of the README, and of the pages about tokio and servers.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../docs/HTTP.md")]
#[doc = include_str!("../../docs/LIBRARIES.md")]
#[doc = include_str!("../../docs/TOKIO.md")]
struct Pages;

/// Calls a waker or drops one, whose panic has been reported by the hook and goes no further.
fn quietly(call: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
        // Dropping it might panic again.
        std::mem::forget(panic);
    }
}
