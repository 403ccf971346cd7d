//! Whose timers are used.

#[cfg(any(feature = "hyper", feature = "tower"))]
use std::time::Duration;
#[cfg(feature = "tower")]
use tickwheel::Timeout;
use tickwheel::{Sleep, SleepError, Timer};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) enum Engine {
    /// The process's.
    #[default]
    Shared,
    Own(Timer),
}

impl Engine {
    /// Not armed before it is polled.
    #[cfg(any(feature = "hyper", feature = "tower"))]
    pub(crate) fn sleep(&self, delay: Duration) -> Sleep<SleepError> {
        match self {
            Self::Shared => tickwheel::sleep(delay).into(),
            Self::Own(timer) => timer.sleep(delay),
        }
    }

    /// Gives a future so long.
    #[cfg(feature = "tower")]
    pub(crate) fn timeout<F: Future>(&self, limit: Duration, future: F) -> Timeout<F, SleepError> {
        match self {
            Self::Shared => tickwheel::timeout(limit, future).into(),
            Self::Own(timer) => timer.timeout(limit, future),
        }
    }

    /// As [`sleep`](Self::sleep), until a point in time.
    #[cfg(any(feature = "hyper", feature = "quinn"))]
    pub(crate) fn sleep_until(&self, deadline: std::time::Instant) -> Sleep<SleepError> {
        match self {
            Self::Shared => tickwheel::sleep_until(deadline).into(),
            Self::Own(timer) => timer.sleep(deadline),
        }
    }
}
