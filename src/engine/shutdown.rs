//! How an engine ends: the modes, and the call that waits for it.

use super::timer::Timer;
use crate::time::Time;
use crate::types::{StopError, Unfired};
use std::time::Duration;

/// What becomes of the timers that are pending when an engine ends.
///
/// New timers are refused from the moment of the call in every mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Shutdown {
    /// They are returned, due ones included. The default, and what [`Timer::stop`] does.
    #[default]
    ReturnUnfired,
    /// They all fire now, each on its shard, in the order of their deadlines (a timer that was pushed out may stand at
    /// an earlier one of its own): the one case in which a timer fires before its deadline. A periodic timer fires
    /// once and its next period is returned.
    FireAll,
    /// They fire when they are due, until this time by the engine's clock or until none is left; then the rest is
    /// returned. An engine that its caller turns fires what is due at the moment of the call.
    Drain {
        /// When to give up.
        until: Time,
    },
}

impl<T: Send + 'static> Timer<T> {
    /// Ends the engine in the given way, waits for its workers, and returns every timer that has not fired.
    ///
    /// Waits for `limit` at most (`Duration::MAX` means for ever); for handlers that run, and in the modes other
    /// than [`Shutdown::ReturnUnfired`] for the timers that still fire. Several calls do not disturb each other: the
    /// stricter mode counts, [`stop`](Self::stop) being the strictest, and each timer is returned by one of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::{Shutdown, Timer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let timer = Timer::new()?;
    /// timer.schedule(Duration::from_millis(5), || println!("soon"))?;
    /// timer.schedule(Duration::from_secs(3600), || println!("in an hour"))?;
    /// let until = timer.now() + Duration::from_millis(50);
    /// let rest = timer.shutdown(Shutdown::Drain { until }, Duration::from_secs(1))?;
    /// assert_eq!(rest.len(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`StopError::InsideHandler`] on a worker of this engine, which would wait for itself; the engine goes on.
    /// * [`StopError::TimedOut`] if shards are still at work after `limit`. The engine goes on to end, and nothing is
    ///   lost: call again, or call [`stop`](Self::stop) to cut it short.
    /// * [`StopError::Forked`] in a forked child of the process that started the engine.
    pub fn shutdown(&self, mode: Shutdown, limit: Duration) -> Result<Vec<Unfired<T>>, StopError> {
        self.inner().shutdown(mode, Some(limit))
    }
}
