//! Where an engine stands, as its users see it.

use super::crew::status::EnginePhase;
use super::inner::Inner;

/// Where an engine stands.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{EngineState, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::new()?;
/// assert_eq!(timer.state(), EngineState::Init);
/// timer.run_after(Duration::from_secs(5), || ())?;
/// assert_eq!(timer.state(), EngineState::Started);
/// timer.stop()?;
/// assert_eq!(timer.state(), EngineState::Stopped);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum EngineState {
    /// Built; the workers start with the first timer or with [`Timer::start`](crate::Timer::start).
    Init,
    /// Running.
    Started,
    /// Running, but a shard has ended by a panic, or because there was no thread for it: it refuses timers, and
    /// [`Stats`](crate::Stats) says why.
    Failed,
    /// Being shut down in a mode in which what is pending still fires, see [`Shutdown`](crate::Shutdown); new timers
    /// are refused.
    Draining,
    /// Stopped, which is final: by [`Timer::stop`](crate::Timer::stop) and the modes that return pending timers from
    /// the moment of the call, otherwise when the last shard has ended.
    Stopped,
    /// Started by another process, of which this one is a fork: the workers are not here.
    Forked,
}

impl EngineState {
    pub(super) fn of<T>(inner: &Inner<T>) -> Self {
        let failed = || inner.berths.iter().any(|it| it.failure().is_some());
        match inner.status.phase() {
            EnginePhase::Init if inner.status.is_forked() => Self::Forked,
            EnginePhase::Init => Self::Init,
            EnginePhase::Started if failed() => Self::Failed,
            EnginePhase::Started => Self::Started,
            EnginePhase::Draining | EnginePhase::Firing => Self::Draining,
            EnginePhase::Stopped => Self::Stopped,
        }
    }
}
