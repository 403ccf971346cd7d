//! The settings of a local timer.

use super::fixed::FixedTimer;
use super::timer::LocalTimer;
use crate::types::{Budget, BuildError, Settings, WheelKind};
use crate::wheel::AnyWheel;
use core::time::Duration;

/// Builds a [`LocalTimer`], or a [`FixedTimer`].
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
/// # drop(timer);
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Budget, FixedTimer, LocalBuilder, LocalTimer};
///
/// let settings = LocalBuilder::new()
///     .budget(Budget { fire: 256, ..Budget::default() })
///     .slack(Duration::from_millis(1))
///     .capacity(10_000);
/// let any: LocalTimer<u64> = settings.clone().build()?;
/// let idle: FixedTimer<u64> = settings.build_fixed(Duration::from_secs(30))?;
/// # drop((any, idle));
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until a `build` method is called"]
pub struct LocalBuilder {
    settings: Settings,
    capacity: usize,
}

impl Default for LocalBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl LocalBuilder {
    /// All defaults: 1 ms ticks, the hierarchical wheel, no limit.
    pub fn new() -> Self {
        Self { settings: Settings::default(), capacity: 0 }
    }

    /// The length of a tick, 1 us to 1 h. Default: 1 ms.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.settings.tick = tick;
        self
    }

    /// The kind of wheel. Default: hierarchical.
    pub fn wheel(mut self, wheel: WheelKind) -> Self {
        self.settings.wheel = wheel;
        self
    }

    /// At most this many timers pending at once, exactly. Default: no limit but the 2^32 - 1 that a timer
    /// can hold.
    pub fn max_pending(mut self, max_pending: usize) -> Self {
        self.settings.max_pending = Some(max_pending);
        self
    }

    /// How much one poll may do before it returns to the loop: its parts `fire` and `sweep`. See [`Budget`] for the
    /// defaults.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.settings.budget = budget;
        self
    }

    /// How much longer than until the next deadline `poll_timeout` lets a loop sleep, so that timers that are due close
    /// together share a wake-up; `next_deadline` stays exact. No timer is early, and each is late by up to the slack
    /// more. Default: none.
    pub fn slack(mut self, slack: Duration) -> Self {
        self.settings.slack = slack;
        self
    }

    /// Room for this many pending timers from the start, if there is memory for it. Default: none; the timer grows as
    /// it needs.
    pub fn capacity(mut self, timers: usize) -> Self {
        self.capacity = timers;
        self
    }

    /// The timer.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build<T>(self) -> Result<LocalTimer<T>, BuildError> {
        let rate = self.settings.check()?;
        let wheel = AnyWheel::new(self.settings.wheel)?;
        let mut timer = LocalTimer::from_parts(rate, wheel, &self.settings);
        timer.reserve(self.capacity);
        Ok(timer)
    }

    /// A timer whose timers all have the same delay; it has neither ticks nor a wheel, so that these settings do not
    /// matter.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build_fixed<T>(self, delay: Duration) -> Result<FixedTimer<T>, BuildError> {
        self.settings.check()?;
        let mut timer = FixedTimer::from_parts(delay, &self.settings);
        timer.reserve(self.capacity);
        Ok(timer)
    }
}

impl LocalTimer<()> {
    /// The settings: tick, kind of wheel, limit. See [`LocalBuilder`].
    pub fn builder() -> LocalBuilder {
        LocalBuilder::new()
    }
}

impl<T> LocalTimer<T> {
    /// A timer on a hierarchical wheel, without a limit; `tick` is 1 us to 1 h.
    ///
    /// # Errors
    ///
    /// If the tick is out of range.
    pub fn new(tick: Duration) -> Result<Self, BuildError> {
        LocalBuilder::new().tick(tick).build()
    }

    /// As [`new`](Self::new), with room for `timers` pending ones; see [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// If the tick is out of range.
    pub fn with_capacity(tick: Duration, timers: usize) -> Result<Self, BuildError> {
        let mut timer = Self::new(tick)?;
        timer.reserve(timers);
        Ok(timer)
    }
}
