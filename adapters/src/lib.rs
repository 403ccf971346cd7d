//! [tickwheel](https://docs.rs/tickwheel)'s futures where servers want them.
//!
//! | feature | what it adds |
//! |---|---|
//! | `hyper` (default) | [`HyperTimer`]: header-read, keep-alive and ping timeouts of hyper's connections |
//! | `tower` (default) | [`TimeoutLayer`]: how long a request may take |
//!
//! Each works on any runtime, by the process's shared engine or by a [`Timer`](tickwheel::Timer) of your own.

#[cfg(any(feature = "hyper", feature = "tower"))]
mod engine;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "tower")]
mod tower;

#[cfg(feature = "hyper")]
pub use hyper::HyperTimer;
#[cfg(feature = "tower")]
pub use tower::{LimitedFuture, TimeoutError, TimeoutLayer, WithLimit};
