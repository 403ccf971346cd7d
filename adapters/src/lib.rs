//! [tickwheel](https://docs.rs/tickwheel)'s futures where servers want them.
//!
//! | feature | what it adds |
//! |---|---|
//! | `hyper` (default) | `HyperTimer`: header-read, keep-alive and ping timeouts of hyper's connections |
//! | `tower` (default) | `TimeoutLayer`: how long a request may take; `RetryLayer`: once more, after a pause |
//! | `http` | `IdleBodyLayer`: how long a body may pause; needs `tower` |
//! | `quinn` | `QuinnRuntime`: the timers of QUIC connections |
//!
//! Each works on any runtime, by the process's shared engine or by a [`Timer`](tickwheel::Timer) of your own.

#[cfg(any(feature = "hyper", feature = "quinn", feature = "tower"))]
mod engine;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "http")]
mod idle;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(feature = "tower")]
mod retry;
#[cfg(feature = "tower")]
mod tower;

#[cfg(feature = "hyper")]
pub use hyper::HyperTimer;
#[cfg(feature = "http")]
pub use idle::{IdleBody, IdleBodyLayer, IdleError, IdleFuture, WithIdleLimit};
#[cfg(feature = "quinn")]
pub use quinn::QuinnRuntime;
#[cfg(feature = "tower")]
pub use retry::{Backoff, RetryFuture, RetryLayer, WithRetries};
#[cfg(feature = "tower")]
pub use tower::{LimitedFuture, TimeoutError, TimeoutLayer, WithLimit};
