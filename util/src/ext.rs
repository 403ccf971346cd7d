//! Limits of time as methods of futures and streams.

use crate::time::{Instant, Timeout};
use std::future::Future;
use tickwheel::When;

/// Adds [`timeout`](Self::timeout) and [`timeout_at`](Self::timeout_at) to every future.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_util::FutureExt;
/// use tickwheel_util::time::Instant;
///
/// # smol::block_on(async {
/// let answer = async { 17 }.timeout(Duration::from_secs(5)).await;
/// assert_eq!(answer.unwrap(), 17);
///
/// let deadline = Instant::now() + Duration::from_secs(5);
/// assert_eq!(async { 18 }.timeout_at(deadline).await.unwrap(), 18);
/// # });
/// ```
pub trait FutureExt: Future + Sized {
    /// Gives the future so long, or until then; see [`time::timeout`](crate::time::timeout()).
    fn timeout(self, limit: impl Into<When>) -> Timeout<Self> {
        Timeout::new(self, limit.into())
    }

    /// Gives the future until `deadline`.
    fn timeout_at(self, deadline: Instant) -> Timeout<Self> {
        self.timeout(deadline)
    }
}

impl<F: Future> FutureExt for F {}
