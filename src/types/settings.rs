//! What every timer with a wheel can be told, whichever front it is.

use super::checks::{check_budget, check_max_pending, check_tick};
use super::{Budget, BuildError, WheelKind};
use crate::time::TickRate;
use core::time::Duration;

/// The settings that the builders share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) tick: Duration,
    pub(crate) wheel: WheelKind,
    pub(crate) max_pending: Option<usize>,
    pub(crate) budget: Budget,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(1),
            wheel: WheelKind::default(),
            max_pending: None,
            budget: Budget::default(),
        }
    }
}

impl Settings {
    /// Checks everything but the wheel, which checks itself; the length of a tick.
    pub(crate) fn check(&self) -> Result<TickRate, BuildError> {
        let rate = TickRate::new(check_tick(self.tick)?);
        self.max_pending.map(check_max_pending).transpose()?;
        check_budget("drain", self.budget.drain)?;
        check_budget("fire", self.budget.fire)?;
        check_budget("sweep", self.budget.sweep)?;
        Ok(rate)
    }
}
