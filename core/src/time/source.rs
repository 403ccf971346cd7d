//! The clock that an engine or an event loop was given; the usual one is called without a table.
//!
//! Any thread; lock-free.

use super::when::Kind;
use super::{Clock, Deadline, MonotonicClock, QuickClock, TickRate, Time, When};
use crate::contain::Contained;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// A clock of the user's.
pub type AnyClock = Contained<Arc<dyn Clock>>;

/// See the module.
pub enum TimeSource {
    Monotonic {
        clock: MonotonicClock,
        quick: QuickClock,
    },
    Custom {
        clock: AnyClock,
        /// The latest reading, in nanoseconds: a clock that goes back stands still.
        latest: AtomicU64,
        /// The longest sleep that the clock allows.
        longest_sleep: Option<Duration>,
        /// Whether the clock says that its time moves only by hand.
        is_virtual: bool,
    },
}

impl TimeSource {
    /// Takes the user's clock, or the machine's.
    pub fn of(clock: Option<AnyClock>) -> Self {
        let Some(clock) = clock else {
            let clock = MonotonicClock::new();
            return Self::Monotonic {
                clock,
                quick: QuickClock::new(clock),
            };
        };
        Self::Custom {
            longest_sleep: clock.get().and_then(|clock| clock.longest_sleep()),
            is_virtual: clock.get().is_some_and(|clock| clock.is_virtual()),
            clock,
            latest: AtomicU64::new(0),
        }
    }

    /// Returns the machine's clock.
    #[inline]
    pub fn machine() -> &'static Self {
        static MACHINE: OnceLock<TimeSource> = OnceLock::new();
        MACHINE.get_or_init(|| Self::of(None))
    }

    #[inline]
    pub fn now(&self) -> Time {
        match self {
            Self::Monotonic { clock, .. } => Clock::now(clock),
            Self::Custom { clock, latest, .. } => {
                let now = if let Some(clock) = clock.get() {
                    (**clock).now().as_nanos()
                } else {
                    0
                };
                // ORDERING: Relaxed: one word's modification order is all that is asked for.
                let before = latest.load(Ordering::Relaxed);
                if now <= before {
                    // Threads that read a clock which stands write nothing together.
                    return Time::from_nanos(before);
                }
                // ORDERING: Relaxed, as above.
                Time::from_nanos(now.max(latest.fetch_max(now, Ordering::Relaxed)))
            }
        }
    }

    /// Returns the time that a delay counts from: now, or a little later.
    #[inline]
    pub fn start_of_delay(&self) -> Time {
        match self {
            Self::Monotonic { quick, .. } => quick.now(),
            Self::Custom { .. } => self.now(),
        }
    }

    /// Returns the time of `instant` on this clock: exact on the machine's own, on another one as far from its present
    /// as it is from the machine's, or later by as long as reading both takes.
    #[inline]
    pub(crate) fn time_of(&self, instant: Instant) -> Time {
        match self {
            Self::Monotonic { clock, .. } => clock.time_of(instant),
            Self::Custom { .. } => self.distant(instant),
        }
    }

    #[cold]
    fn distant(&self, instant: Instant) -> Time {
        // In this order: what passes between the two readings makes a timer later, never earlier.
        let here = Instant::now();
        let now = self.now();
        match instant.checked_duration_since(here) {
            Some(ahead) => now + ahead,
            None => now - here.saturating_duration_since(instant),
        }
    }

    /// Returns the point in time that `when` names now, before it is rounded to a tick.
    #[inline]
    pub fn point(&self, when: When) -> Time {
        match when.kind() {
            // Ready at once, so it must not lie ahead of the clock, as the quick one may.
            Kind::After(_, Duration::ZERO) => self.now(),
            Kind::After(grid, delay) => grid.round_up(self.start_of_delay() + delay),
            Kind::At(grid, time) => grid.round_up(time),
            Kind::AtInstant(grid, instant) => grid.round_up(self.time_of(instant)),
        }
    }

    /// Returns the deadline of a timer that is set now.
    ///
    /// The tick of a point in time is rounded up, unless ticks are coarse and the point has passed.
    #[inline(always)] // so that the usual kind, which is known at compile time, costs no branch
    pub fn deadline(&self, rate: &TickRate, when: When) -> Deadline {
        let nominal = match when.kind() {
            Kind::After(grid, delay) => {
                return Deadline::after(rate, self.start_of_delay(), delay, grid);
            }
            Kind::At(grid, time) => grid.round_up(time),
            Kind::AtInstant(grid, instant) => grid.round_up(self.time_of(instant)),
        };
        let tick = if rate.is_coarse() {
            self.coarse_tick_of(rate, nominal)
        } else {
            rate.deadline_at(nominal)
        };
        Deadline { nominal, tick }
    }

    /// Returns the tick of a point in time, compared with the present. That is not the start of a delay, which may be a
    /// little later.
    #[cold]
    #[inline(never)]
    fn coarse_tick_of(&self, rate: &TickRate, point: Time) -> u64 {
        rate.due(point, self.now())
    }

    pub fn is_virtual(&self) -> bool {
        match self {
            Self::Monotonic { .. } => false,
            Self::Custom { is_virtual, .. } => *is_virtual,
        }
    }

    /// Returns a sleep of `sleep` by this clock, or the part of it after which the clock is to be read again.
    pub fn bounded(&self, sleep: Duration) -> Duration {
        match self {
            Self::Custom {
                longest_sleep: Some(longest),
                ..
            } => sleep.min(*longest),
            _ => sleep,
        }
    }

    pub fn on_advance(&self, wake: Weak<dyn Fn() + Send + Sync>) {
        if let Self::Custom { clock, .. } = self {
            if let Some(clock) = clock.get() {
                clock.on_advance(wake);
            }
        }
    }
}
