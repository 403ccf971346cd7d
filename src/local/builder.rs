//! The settings of a local timer.

use super::timer::LocalTimer;
use crate::time::TickRate;
use crate::types::checks;
use crate::types::{BuildError, WheelKind};
use crate::wheel::AnyWheel;
use core::time::Duration;

/// Builds a [`LocalTimer`].
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, WheelKind};
///
/// let timer: LocalTimer<u64> = LocalTimer::builder()
///     .tick(Duration::from_micros(100))
///     .wheel(WheelKind::Hashed { buckets: 4096 })
///     .max_pending(1_000_000)
///     .build()?;
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct LocalBuilder {
    tick: Duration,
    wheel: WheelKind,
    max_pending: Option<usize>,
}

impl Default for LocalBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl LocalBuilder {
    /// All defaults: 1 ms ticks, the hierarchical wheel, no limit.
    pub fn new() -> Self {
        Self { tick: Duration::from_millis(1), wheel: WheelKind::default(), max_pending: None }
    }

    /// The length of a tick, 1 us to 1 h. Default: 1 ms.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The kind of wheel. Default: hierarchical.
    pub fn wheel(mut self, wheel: WheelKind) -> Self {
        self.wheel = wheel;
        self
    }

    /// At most this many timers pending at once, exactly. Default: no limit but the 2^32 - 1 that a timer
    /// can hold.
    pub fn max_pending(mut self, max_pending: usize) -> Self {
        self.max_pending = Some(max_pending);
        self
    }

    /// The timer.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build<T>(self) -> Result<LocalTimer<T>, BuildError> {
        let rate = TickRate::new(checks::check_tick(self.tick)?);
        let limit = self.max_pending.map(checks::check_max_pending).transpose()?;
        let wheel = AnyWheel::new(self.wheel, rate.tick_ns())?;
        Ok(LocalTimer::from_parts(rate, wheel, limit))
    }
}
