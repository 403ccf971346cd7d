//! A snapshot of what a shard has counted.

use super::histogram::DurationHistogram;
use std::sync::Arc;
use std::time::Duration;

/// The counters of one shard: of an engine's, or of an event loop's timer.
///
/// Numbers of events never go back (but for a timer whose scheduling meets the end of its engine, which may be
/// counted for a moment). They are read one after the other, so sums are exact only when nothing is going on; an
/// end is never counted without its beginning.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Builder, Drive};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Builder::new().shards(2).drive(Drive::Manual).build()?;
/// timer.run_after(Duration::ZERO, || ())?;
/// timer.turn()?;
/// for shard in timer.stats().shards {
///     println!(
///         "shard {}: {} pending, oldest {:?} late",
///         shard.shard, shard.pending, shard.lag
///     );
///     assert_eq!(
///         shard.scheduled,
///         shard.fired + shard.cancelled + shard.returned + shard.pending
///     );
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ShardStats {
    /// The shard's number.
    pub shard: usize,
    /// How its worker is pinned; an event loop has none.
    pub pinning: PinState,
    /// Why its worker has ended before its time, if it has; see [`WorkerFailure`](crate::WorkerFailure).
    pub failure: Option<Arc<str>>,
    /// Timers accepted.
    pub scheduled: u64,
    /// Timers fired.
    pub fired: u64,
    /// Timers cancelled.
    pub cancelled: u64,
    /// Timers returned by `stop`.
    pub returned: u64,
    /// Timers pending.
    pub pending: u64,
    /// Deadlines moved.
    pub rescheduled: u64,
    /// Handlers that panicked, and calls of periodic timers left out because their payload's `Clone` did. The panic of
    /// a handler in an event loop's poll is not among them: it goes on into the loop.
    pub panics: u64,
    /// Expired timers that the executor gave back.
    pub refused_by_executor: u64,
    /// Turns made. A poll of a loop that has nothing to do is none.
    pub turns: u64,
    /// Turns that ended with work left, because their budget was used up.
    pub cut_short: u64,
    /// Times the worker went to sleep.
    pub parks: u64,
    /// Sleeps that a producer ended early.
    pub wakes: u64,
    /// Messages of other threads that the owner has not looked at: new timers, and deadlines that were pulled in.
    /// What is cancelled stays among them until they are looked at.
    pub inbox: u64,
    /// How late the oldest timer is that is due and has not fired: zero where all is well.
    ///
    /// * While a handler holds the shard up, `lag` grows. It counts from the earliest deadline of the turn, some of whose
    ///   timers may have fired.
    /// * While more messages come than the turns read, `lag` counts from the earliest deadline of the first such turn.
    /// * `lag` leaves out timers that the owner has scheduled since the last turn, and timers due at [`Time::ZERO`](crate::Time::ZERO).
    /// * A timer that was cancelled or moved later counts until the owner has looked at it.
    pub lag: Duration,
    /// Entries in the wheel after the last turn, zombies included.
    pub entries: u64,
    /// Bytes held by nodes that have served (less what went back to the system after a burst), by the magazines in
    /// which free ones are noted, by a loop's own nodes, and by the wheel. Not by the inbox: while the owner is blocked,
    /// messages pile up there, 8 bytes for each that `inbox` counts.
    pub held_bytes: u64,
    /// Entries in the wheel beyond the pending timers: zombies that lie there now (a lower bound while
    /// pending timers lie in the inbox).
    pub zombies: u64,
    /// Zombies that sweeps have removed.
    pub swept: u64,
    /// Zombies that were dropped when they came due.
    pub dropped: u64,
    /// Messages of other threads that were dead when the owner looked at them, so that nothing reached the wheel: new
    /// timers that were cancelled before, and deadlines that were pulled in of timers that had ended, or moved again.
    pub cancelled_in_inbox: u64,
    /// How late timers fired, by the reading of the clock that [`Expired::lateness`](crate::Expired::lateness) tells
    /// of. Without a future's timer that fires in the very moment in which its waker is exchanged.
    pub lateness: DurationHistogram,
    /// How long handlers ran; empty without [`Builder::on_slow_handler`](crate::Builder::on_slow_handler).
    pub handler_time: DurationHistogram,
}

/// How a worker is pinned at the moment.
///
/// ```
/// use tickwheel::PinState;
///
/// assert_eq!(PinState::Pinned(3).core(), Some(3));
/// assert_eq!(PinState::Widened(3).core(), None);
///
/// # let timer: tickwheel::Timer = tickwheel::Timer::new()?;
/// for shard in &timer.stats().shards {
///     if let PinState::Widened(core) = shard.pinning {
///         println!("shard {} was kept waiting for core {core}", shard.shard);
///     }
/// }
/// # Ok::<(), tickwheel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PinState {
    /// It runs wherever the operating system lets it: not started, not to be pinned, or the pin has failed.
    #[default]
    Unpinned,
    /// To this core.
    Pinned(usize),
    /// It was pinned to this core, was kept waiting for it, and may use all cores of the process again.
    Widened(usize),
}

impl PinState {
    /// Returns the core that the worker is pinned to now.
    #[must_use]
    pub const fn core(self) -> Option<usize> {
        match self {
            Self::Pinned(core) => Some(core),
            Self::Unpinned | Self::Widened(_) => None,
        }
    }

    /// Packs the state into one number, for a gauge.
    pub(crate) const fn pack(self) -> u64 {
        match self {
            Self::Unpinned => 0,
            Self::Pinned(core) => 1 + 2 * core as u64,
            Self::Widened(core) => 2 + 2 * core as u64,
        }
    }

    pub(crate) const fn unpack(packed: u64) -> Self {
        match packed {
            0 => Self::Unpinned,
            odd if odd % 2 == 1 => Self::Pinned((odd / 2) as usize),
            even => Self::Widened((even / 2 - 1) as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_state_survives_its_gauge() {
        let states = [0, 1, 7, 1023].map(|core| [PinState::Pinned(core), PinState::Widened(core)]);
        for state in states.into_iter().flatten().chain([PinState::Unpinned]) {
            assert_eq!(PinState::unpack(state.pack()), state);
        }
        assert_eq!(PinState::Widened(3).core(), None);
        assert_eq!(PinState::Pinned(3).core(), Some(3));
    }
}
