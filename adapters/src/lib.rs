//! Delay queues, streams, metrics and adapters on the timer engine [tickwheel](https://docs.rs/tickwheel).
//!
//! | feature | what it adds |
//! |---|---|
//! | none | [`DelayQueue`]: items that come out when their time has come |
//! | none | [`LocalSleeps`]: sleeps of one thread, by a timer inside of its runtime |
//! | `stream` | `Stream` for [`DelayQueue`], and `IntervalStream` |
//! | `metrics` | `MetricsReporter`: statistics for the `metrics` facade |
//! | `hyper` | `HyperTimer`: header-read, keep-alive and ping timeouts of hyper's connections |
//! | `tower` | `TimeoutLayer`: how long a request may take; `RetryLayer`: once more, after a pause |
//! | `http` | `IdleBodyLayer`: how long a body may pause; needs `tower` |
//! | `tokio`, `smol` | tasks of the runtime that turn an engine's shards, in place of its workers |
//! | `quinn` | `QuinnRuntime`: the timers of QUIC connections |
//!
//! Each works on any runtime, by the process's shared engine or by a [`Timer`](tickwheel::Timer) of your own;
//! `LocalSleeps` by a timer of its thread.

mod delay_queue;
#[cfg(any(feature = "smol", feature = "tokio"))]
mod driving;
#[cfg(any(feature = "hyper", feature = "quinn", feature = "tower"))]
mod engine;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "http")]
mod idle;
mod local;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "tower")]
mod retry;
#[cfg(feature = "smol")]
pub mod smol;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;
#[cfg(feature = "tower")]
mod tower;

pub use delay_queue::DelayQueue;
#[cfg(feature = "hyper")]
pub use hyper::HyperTimer;
#[cfg(feature = "http")]
pub use idle::{IdleBody, IdleBodyLayer, IdleError, IdleFuture, WithIdleLimit};
pub use local::{LocalSleep, LocalSleeps, Wakeup};
#[cfg(feature = "metrics")]
pub use metrics::MetricsReporter;
#[cfg(feature = "quinn")]
pub use quinn::QuinnRuntime;
#[cfg(feature = "tower")]
pub use retry::{Backoff, RetryFuture, RetryLayer, WithRetries};
#[cfg(feature = "stream")]
pub use stream::IntervalStream;
#[cfg(feature = "tower")]
pub use tower::{LimitedFuture, TimeoutError, TimeoutLayer, WithLimit};

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
