//! Layers of tower, which axum takes as well: how long requests may take and bodies may pause, and further tries.
//!
//! Each layer comes by `new` with timers of the runtime's engine, or the process's (see [`time`](crate::time)), and by
//! `on` with those of an engine of your own.

#[cfg(feature = "http")]
mod idle;
mod retry;
#[cfg(feature = "http")]
mod status;
mod timeout;

#[cfg(feature = "http")]
pub use idle::{IdleBody, IdleBodyLayer, IdleError, IdleFuture, IdleRequestBodyLayer};
pub use retry::{Backoff, RetryErrors, RetryFuture, RetryLayer, RetryPolicy};
#[cfg(feature = "http")]
pub use status::{StatusFuture, StatusTimeoutLayer};
pub use timeout::{LimitedFuture, RequestError, TimeoutLayer};

/// A service behind a layer of this crate.
#[derive(Clone, Debug)]
pub struct Layered<S, L> {
    inner: S,
    layer: L,
}

impl<S, L> Layered<S, L> {
    /// Returns the service behind the layer.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the service behind the layer, to be changed.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Takes the layer off.
    pub fn into_inner(self) -> S {
        self.inner
    }
}
