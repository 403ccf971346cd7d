//! Limits of time as methods of futures and streams.

use std::future::Future;
use tickwheel::{Timeout, When};

/// Adds [`timeout`](Self::timeout) to every future.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_util::FutureExt;
///
/// # smol::block_on(async {
/// let answer = async { 17 }.timeout(Duration::from_secs(5)).await;
/// assert_eq!(answer.unwrap(), 17);
/// # });
/// ```
pub trait FutureExt: Future + Sized {
    /// Gives the future so long, or until then; see [`tickwheel::timeout`].
    fn timeout(self, limit: impl Into<When>) -> Timeout<Self> {
        tickwheel::timeout(limit, self)
    }
}

impl<F: Future> FutureExt for F {}
