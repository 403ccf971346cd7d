//! Whose timers are used.

#[cfg(feature = "tower")]
use tickwheel::Timeout;
use tickwheel::{Sleep, SleepError, Timer, When};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) enum Engine {
    /// The process's.
    #[default]
    Shared,
    Own(Timer),
}

impl Engine {
    /// Returns a sleep, which is not armed before it is polled.
    pub(crate) fn sleep(&self, when: impl Into<When>) -> Sleep<SleepError> {
        match self {
            Self::Shared => tickwheel::sleep(when).into(),
            Self::Own(timer) => timer.sleep(when),
        }
    }

    /// Limits how long a future takes.
    #[cfg(feature = "tower")]
    pub(crate) fn timeout<F: Future>(
        &self,
        limit: std::time::Duration,
        future: F,
    ) -> Timeout<F, SleepError> {
        match self {
            Self::Shared => tickwheel::timeout(limit, future).into(),
            Self::Own(timer) => timer.timeout(limit, future),
        }
    }
}
