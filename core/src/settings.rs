//! `Settings`: what every timer with a wheel can be told, whichever front it is.

#[cfg(feature = "std")]
use crate::time::AnyClock;
use crate::time::{TickRate, saturating_ns};
use crate::types::{Budget, BuildError};
use core::time::Duration;

/// The finest tick. A clock read and a wake-up cost more than this, so a finer tick could not be kept.
const MIN_TICK: Duration = Duration::from_micros(1);
/// The coarsest tick. A timer may be late by a whole tick, so a longer one is a mistaken unit.
const MAX_TICK: Duration = Duration::from_secs(3600);

/// The settings that all fronts share.
///
/// A setting that a timer does not have is refused by name ([`BuildError::NoSuchSetting`]), not ignored.
///
/// `build_local` makes a timer for one thread. `tickwheel` makes one for an event loop with `EventLoopTimer::with_waker`,
/// and with its feature `mio` with `with_mio` and `with_mio_waker`; its engine's `Builder` has these settings but `capacity`,
/// and more of its own.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Budget, LocalTimer, Settings};
///
/// let settings = Settings::new()
///     .max_pending(1_000_000)
///     .budget(Budget::new().fire(256))
///     .slack(Duration::from_millis(1))
///     .capacity(10_000);
/// let timer: LocalTimer<u64> = settings.tick(Duration::from_micros(100)).build_local()?;
/// # drop(timer);
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until a `build` method is called"]
pub struct Settings {
    pub(crate) tick: Duration,
    #[doc(hidden)]
    pub max_pending: Option<usize>,
    #[doc(hidden)]
    pub budget: Budget,
    /// How much longer than to the next deadline the owner may sleep.
    #[doc(hidden)]
    pub slack: Duration,
    #[doc(hidden)]
    pub capacity: usize,
    #[cfg(feature = "std")]
    #[doc(hidden)]
    pub clock: Option<AnyClock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

impl Settings {
    /// Creates the defaults: 1 ms ticks, no limit, no slack, the monotonic clock.
    pub fn new() -> Self {
        Self {
            tick: Duration::from_millis(1),
            max_pending: None,
            budget: Budget::new(),
            slack: Duration::ZERO,
            capacity: 0,
            #[cfg(feature = "std")]
            clock: None,
        }
    }

    /// Sets the length of a tick, 1 us to 1 h. Default: 1 ms. A timer is at most one tick late, plus the sleep's error
    /// and the work queued ahead.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Allows at most this many timers to be pending at once, all shards together, exactly. Default: no limit but the
    /// 2^32 - 1 that a shard can hold.
    ///
    /// On fronts that several threads use, the limit costs each schedule, cancel and fire one atomic step on a word that
    /// all threads share.
    pub fn max_pending(mut self, max_pending: usize) -> Self {
        self.max_pending = Some(max_pending);
        self
    }

    /// Sets how much one turn, or one poll, may do before it returns. See [`Budget`] for the defaults.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets how much longer than until the next deadline a worker may sleep, or `poll_timeout` lets a loop sleep, so
    /// that timers that are due close together share a wake-up. Default: none.
    ///
    /// No timer is early, and each is late by up to the slack more than without it; `next_deadline` stays exact. An
    /// owner that sleeps is still woken for a deadline that is earlier than all pending ones. For fine ticks: a sleep
    /// costs some 8 us of CPU time, and without slack there is one for each tick at which something is due. A worker
    /// that spins has no slack.
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// Sets the clock. Default: a [`MonotonicClock`](crate::MonotonicClock). With a
    /// [`ManualClock`](crate::ManualClock) time moves by hand, which wakes no loop: one that blocks sleeps on if another
    /// thread moves the clock. Timers of one thread have no clock: each call is told the time.
    #[cfg(feature = "std")]
    pub fn clock(mut self, clock: impl crate::time::Clock) -> Self {
        let clock = crate::contain::Contained::new("a clock", std::sync::Arc::new(clock) as _);
        self.clock = Some(clock);
        self
    }

    /// Reserves room for this many pending timers from the start, if there is memory for it. Default: none; the timer grows
    /// as it needs.
    pub fn capacity(mut self, timers: usize) -> Self {
        self.capacity = timers;
        self
    }

    /// Refuses a clock, for a timer that is told the time.
    pub(crate) fn refuse_clock(&self, timer: &'static str) -> Result<(), BuildError> {
        #[cfg(feature = "std")]
        if self.clock.is_some() {
            let setting = "clock";
            return Err(BuildError::NoSuchSetting { setting, timer });
        }
        let _ = timer;
        Ok(())
    }

    /// Checks the range of all settings; returns the length of a tick.
    #[doc(hidden)]
    pub fn check(&self) -> Result<TickRate, BuildError> {
        let Self {
            tick,
            max_pending,
            budget,
            ..
        } = *self;
        if !(MIN_TICK..=MAX_TICK).contains(&tick) {
            return Err(BuildError::TickOutOfRange { tick });
        }
        if max_pending == Some(0) {
            return Err(BuildError::ZeroMaxPending);
        }
        match budget.zero_part() {
            Some(which) => Err(BuildError::ZeroBudget { which }),
            None => Ok(TickRate::new(saturating_ns(tick))),
        }
    }
}
