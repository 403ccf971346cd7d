//! Delay queues, streams, metrics and adapters on the timer engine [tickwheel](https://docs.rs/tickwheel).
//!
//! | feature | what it adds |
//! |---|---|
//! | none | [`DelayQueue`]: items that come out when their time has come |
//! | none | [`LocalSleeps`]: sleeps of one thread, by a timer inside of its runtime |
//! | none | [`time`]: the names of `tokio::time`; [`FutureExt`]: `timeout` as a method |
//! | `stream` | `Stream` for [`DelayQueue`], `IntervalStream`, and `StreamExt`: `timeout`, `timeout_repeating`, `throttle`, `chunks_timeout` |
//! | `metrics` | `MetricsReporter`: statistics for the `metrics` facade |
//! | `hyper` | `HyperTimer`: header-read, keep-alive and ping timeouts of hyper's connections |
//! | `tower` | `TimeoutLayer`: how long a request may take; `RetryLayer`: once more, after a pause |
//! | `http` | `StatusTimeoutLayer`: answers late requests itself; `IdleBodyLayer`, `IdleRequestBodyLayer`: how long a body may pause |
//! | `tokio` | [`time`] by an engine of the runtime's own, which it turns itself; tasks that turn other engines |
//! | `smol` | tasks of the runtime that turn an engine's shards, in place of its workers |
//! | `test-util` | `test`: virtual time for tests of async code |
//! | `quinn` | `QuinnRuntime`: the timers of QUIC connections |
//!
//! Each works on any runtime, by the runtime's engine (see [`time`]), by the process's, or by a
//! [`Timer`](tickwheel::Timer) of your own; `LocalSleeps` by a timer of its thread.

mod delay_queue;
#[cfg(any(feature = "smol", feature = "tokio"))]
mod driving;
mod engine;
mod ext;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "hyper")]
mod hyper;
mod local;
#[cfg(feature = "metrics")]
mod metrics;
mod notify;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "tower")]
mod retry;
#[cfg(feature = "smol")]
pub mod smol;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "test-util")]
pub mod test;
pub mod time;
#[cfg(feature = "tokio")]
pub mod tokio;
#[cfg(feature = "tower")]
mod tower;

pub use delay_queue::DelayQueue;
pub use ext::FutureExt;
#[cfg(feature = "http")]
pub use http::{
    IdleBody, IdleBodyLayer, IdleError, IdleFuture, IdleRequestBodyLayer, StatusFuture,
    StatusTimeoutLayer, WithIdleLimit, WithIdleRequests, WithStatusTimeout,
};
#[cfg(feature = "hyper")]
pub use hyper::HyperTimer;
pub use local::{LocalSleep, LocalSleeps, Wakeup};
#[cfg(feature = "metrics")]
pub use metrics::MetricsReporter;
#[cfg(feature = "quinn")]
pub use quinn::QuinnRuntime;
#[cfg(feature = "tower")]
pub use retry::{Backoff, RetryFuture, RetryLayer, WithRetries};
#[cfg(feature = "stream")]
pub use stream::{
    ChunksTimeout, IntervalStream, StreamExt, Throttle, TimeoutRepeating, TimeoutStream,
};
#[cfg(feature = "tower")]
pub use tower::{Layered, LimitedFuture, TimeoutError, TimeoutLayer, WithLimit};

/// Holds the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Calls a waker or drops one, whose panic has been reported by the hook and goes no further.
fn quietly(call: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
        // Dropping it might panic again.
        std::mem::forget(panic);
    }
}
