//! The budget and the result of one turn of a shard, or one poll of a loop.

/// How much one turn may do. What is left over is done by the next turn, at once.
///
/// The parts of a turn come in this order, so timers that are due go before housekeeping.
///
/// # What a burst delays
///
/// Timers fire in the order of their ticks. A tick with more than 16 384 entries, cancelled timers included, is a burst.
/// The rest of a burst shares each turn with later ticks, half and half. So a timer that is due waits for at most
/// `fire` + 49 152 calls, however many timers an earlier tick has. A timer of the burst's own tick has the same bound if
/// it was scheduled within the last 64 ticks; an older one waits for the timers scheduled before it. Several bursts
/// count one by one.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Budget, Time, Settings};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let few = Budget::new().fire(64);
/// let mut timer = Settings::new().budget(few).build_local()?;
/// for connection in 0..100 {
///     timer.schedule(Time::ZERO, Duration::ZERO, connection)?;
/// }
/// let polled = timer.poll(Time::ZERO, |_| ());
/// assert!(polled.fired == 64 && polled.more);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Budget {
    /// Messages taken from the inbox (default 100 000, as Netty's wheel does per tick). A turn by hand takes all that
    /// lie there when it begins, and so does `Shutdown::FireAll`.
    pub drain: usize,
    /// Entries looked at because they are due (default 4096).
    pub fire: usize,
    /// Entries looked at in search of zombies (default 4096); more if the turn has inserted many new ones.
    pub sweep: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    /// Makes the default budget: 100 000 messages, 4096 due entries, 4096 swept ones.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            drain: 100_000,
            fire: 4096,
            sweep: 4096,
        }
    }

    /// Sets [`drain`](Self::drain).
    #[must_use]
    pub const fn drain(mut self, messages: usize) -> Self {
        self.drain = messages;
        self
    }

    /// Sets [`fire`](Self::fire).
    #[must_use]
    pub const fn fire(mut self, entries: usize) -> Self {
        self.fire = entries;
        self
    }

    /// Sets [`sweep`](Self::sweep).
    #[must_use]
    pub const fn sweep(mut self, entries: usize) -> Self {
        self.sweep = entries;
        self
    }

    /// Returns the name of a part that is zero, with which no turn would make progress.
    pub(crate) fn zero_part(&self) -> Option<&'static str> {
        let Self { drain, fire, sweep } = *self;
        let parts = [("drain", drain), ("fire", fire), ("sweep", sweep)];
        parts.iter().find(|part| part.1 == 0).map(|part| part.0)
    }

    /// Raises each part to at least one, with which every turn makes progress.
    #[doc(hidden)]
    pub fn at_least_one(self) -> Self {
        let Self { drain, fire, sweep } = self;
        Self {
            drain: drain.max(1),
            fire: fire.max(1),
            sweep: sweep.max(1),
        }
    }
}

/// The result of one poll.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// timer.schedule(Time::ZERO, Duration::ZERO, "due at once")?;
/// let polled = timer.poll(Time::ZERO, |_| ());
/// assert_eq!(polled.fired, 1);
/// if polled.more {
///     // Serve the sockets, then poll again without a sleep.
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Polled {
    /// Timers fired.
    pub fired: usize,
    /// The budget ran out: more is due, or there is housekeeping left. Look after your sockets, then poll again without
    /// sleeping. While timers are due or there is housekeeping left,
    /// `EventLoopTimer::poll_timeout` answers zero.
    pub more: bool,
}

impl Polled {
    /// Returns the result of a poll. For `tickwheel`.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn new(fired: usize, more: bool) -> Self {
        Self { fired, more }
    }
}
