//! The settings of an event-loop timer.

use super::timer::{EventLoopTimer, Waker};
use crate::contain::{self, Contained};
use crate::shard::{Limit, Owner};
use crate::time::{AnyClock, Clock, TimeSource};
use crate::types::{Budget, BuildError, Settings, WheelKind};
use crate::wheel::AnyWheel;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Builds an [`EventLoopTimer`].
///
/// The last step says how other threads wake the loop: through its own `mio` poll
/// ([`build_with_mio`](Self::build_with_mio)) or through anything else that can be called
/// ([`build_with_waker`](Self::build_with_waker)).
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Budget, EventLoopBuilder, EventLoopTimer, MonotonicClock, WheelKind};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = EventLoopBuilder::new()
///     .tick(Duration::from_micros(100))
///     .wheel(WheelKind::Hierarchical)
///     .max_pending(1_000_000)
///     .budget(Budget { fire: 256, ..Budget::default() })
///     .slack(Duration::from_millis(1))
///     .clock(MonotonicClock::new());
///
/// // One timer for a loop on mio, one for a thread that parks.
/// let poll = mio::Poll::new()?;
/// let first: EventLoopTimer<u64> = settings.clone().build_with_mio(poll.registry(), mio::Token(0))?;
/// let thread = std::thread::current();
/// let second: EventLoopTimer<u64> = settings.build_with_waker(move || thread.unpark())?;
/// # drop((first, second));
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until a `build` method is called"]
pub struct EventLoopBuilder {
    settings: Settings,
    clock: Option<AnyClock>,
}

impl EventLoopBuilder {
    /// All defaults: 1 ms ticks, the hierarchical wheel, no limit, the monotonic clock.
    pub fn new() -> Self {
        Self::default()
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

    /// At most this many timers pending at once, exactly. Default: no limit.
    pub fn max_pending(mut self, max_pending: usize) -> Self {
        self.settings.max_pending = Some(max_pending);
        self
    }

    /// How much one poll may do before it returns to the loop. See [`Budget`] for the defaults.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.settings.budget = budget;
        self
    }

    /// How much longer than until the next deadline [`EventLoopTimer::poll_timeout`] lets the loop sleep, so
    /// that timers that are due close together share a wake-up. No timer is early, and each is late by up to
    /// the slack more; a remote still wakes the loop for a deadline that is earlier than all others. Default:
    /// none.
    pub fn slack(mut self, slack: Duration) -> Self {
        self.settings.slack = slack;
        self
    }

    /// The clock that [`EventLoopTimer::now`] and the remotes read. Default: a
    /// [`MonotonicClock`](crate::MonotonicClock).
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Contained::new("a clock", Arc::new(clock)));
        self
    }

    /// A timer whose remotes wake the loop through its own poll: an event with `token` arrives then, and
    /// needs no handling beyond the poll of the timer that every round of the loop makes anyway.
    ///
    /// # Errors
    ///
    /// If a setting is out of range, or `mio` cannot register a waker: a poll takes one waker in its life. If it has
    /// one, give it to [`build_with_mio_waker`](Self::build_with_mio_waker).
    pub fn build_with_mio<T: Send + 'static>(
        self,
        registry: &mio::Registry,
        token: mio::Token,
    ) -> Result<EventLoopTimer<T>, BuildError> {
        // With debug assertions `mio` panics on a poll that has, or had, a waker.
        let waker = match contain::call(|| mio::Waker::new(registry, token)) {
            Ok(Ok(waker)) => Arc::new(waker),
            Ok(Err(error)) => return Err(BuildError::Waker { message: error.to_string() }),
            Err(message) => return Err(BuildError::Waker { message }),
        };
        self.build_with_mio_waker(waker)
    }

    /// As [`build_with_mio`](Self::build_with_mio), through a waker that the poll has already.
    ///
    /// The timer keeps the waker as long as it lives; its remotes do not.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tickwheel::{EventLoopBuilder, EventLoopTimer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let poll = mio::Poll::new()?;
    /// let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0))?);
    /// let timer: EventLoopTimer<u64> = EventLoopBuilder::new().build_with_mio_waker(Arc::clone(&waker))?;
    /// waker.wake()?; // the loop has reasons of its own to be woken
    /// # drop(timer);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build_with_mio_waker<T: Send + 'static>(
        self,
        waker: Arc<mio::Waker>,
    ) -> Result<EventLoopTimer<T>, BuildError> {
        self.build(Arc::new(move || match waker.wake() {
            Ok(()) => true,
            Err(error) => {
                let text = "an event loop could not be woken for its timers";
                contain::error(format_args!("{text}: {error}"));
                false
            }
        }))
    }

    /// A timer whose remotes call `wake` when the loop has to look at its timers earlier than it planned.
    ///
    /// The timer keeps `wake` as long as it lives; its remotes do not.
    ///
    /// It must end the loop's current sleep, or its next one if it does not sleep yet: writing to an
    /// eventfd or a pipe, unparking a thread, posting a message. It is called from any thread and must
    /// not block. One that panics has woken nobody: the error is logged, the timer stays accepted, and the next
    /// remote that has something earlier than the sleep's end calls again. It may use remotes of this timer, and is
    /// not called from within itself for that. For a loop that never sleeps, or has no remotes, it may do nothing.
    ///
    /// # Errors
    ///
    /// If a setting is out of range.
    pub fn build_with_waker<T: Send + 'static>(
        self,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<EventLoopTimer<T>, BuildError> {
        let wake = Contained::new("a waker", wake);
        // On the way of a producer whose timer is accepted already: a panic must not take its key away.
        self.build(Arc::new(move || {
            wake.get().and_then(|wake| contain::quietly("an event loop's waker", wake)).is_some()
        }))
    }

    fn build<T: Send + 'static>(self, waker: Waker) -> Result<EventLoopTimer<T>, BuildError> {
        let Self { settings, clock } = self;
        let rate = settings.check()?;
        let limit = settings.max_pending.map(|max| Arc::new(Limit::new(max)));
        let wheel = AnyWheel::new(settings.wheel)?;
        // The remotes do not keep the waker: a loop that is gone takes it with it, and needs none.
        let weak = Arc::downgrade(&waker);
        let wake_owner = move || weak.upgrade().is_none_or(|waker| waker());
        let owner = Owner::new(0, wheel, limit, Box::new(wake_owner));
        let source = Arc::new(TimeSource::of(clock));
        Ok(EventLoopTimer::new(owner, rate, &settings, source, waker))
    }
}

impl EventLoopTimer<()> {
    /// A builder with every setting at its default.
    pub fn builder() -> EventLoopBuilder {
        EventLoopBuilder::new()
    }
}

impl fmt::Debug for EventLoopBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoopBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
