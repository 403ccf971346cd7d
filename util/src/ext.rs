//! Limits of time as methods of futures and streams.

use crate::local::{LocalSleeps, LocalTimeout};
use crate::time::{Instant, Timeout};
use std::future::Future;
use tickwheel::When;

/// Adds [`timeout`](Self::timeout), [`timeout_at`](Self::timeout_at) and [`timeout_on`](Self::timeout_on) to every
/// future.
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
    ///
    /// By the engine of the runtime or the process's, whose workers it starts. In a runtime of one thread with a
    /// [`LocalSleeps`] use [`timeout_on`](Self::timeout_on).
    fn timeout(self, limit: impl Into<When>) -> Timeout<Self> {
        Timeout::new(self, limit.into())
    }

    /// Gives the future until `deadline`.
    fn timeout_at(self, deadline: Instant) -> Timeout<Self> {
        self.timeout(deadline)
    }

    /// Gives the future so long, or until then, by the timer of its thread; see [`LocalTimeout`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::Settings;
    /// use tickwheel_util::FutureExt;
    /// use tickwheel_util::local::LocalSleeps;
    ///
    /// # smol::block_on(async {
    /// let sleeps = LocalSleeps::new(Settings::new()).unwrap();
    /// let answer = async { 17 }.timeout_on(&sleeps, Duration::from_secs(5)).await;
    /// assert_eq!(answer.unwrap(), 17);
    /// # });
    /// ```
    fn timeout_on(self, sleeps: &LocalSleeps, limit: impl Into<When>) -> LocalTimeout<Self> {
        sleeps.timeout(limit, self)
    }
}

impl<F: Future> FutureExt for F {}
