//! A snapshot of what a shard has counted.

use super::PinState;
use super::handle::ShardHandle;
use super::histogram::DurationHistogram;
use crate::time::{TickRate, Time};
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
    /// * `lag` leaves out timers that the owner has scheduled since the last turn, and timers due at [`Time::ZERO`].
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

impl ShardStats {
    /// Returns what the shard behind `handle` has counted by `now`. O(threads).
    pub(crate) fn of<T>(handle: &ShardHandle<T>, rate: &TickRate, now: Time) -> Self {
        let counters = &handle.counters;
        // Parts before what they are parts of, so that none is the larger.
        let panics = counters.panics.get();
        let refused_by_executor = counters.refused_by_executor.get();
        let handler_time = counters.handler_time.snapshot();
        let lateness = counters.lateness.snapshot();
        let sums = handle.sums();
        let (entries, pending) = (counters.entries.get(), sums.pending());
        let inbox = handle.unread();
        Self {
            shard: usize::from(handle.id),
            pinning: PinState::unpack(counters.pinning.get()),
            failure: None,
            fired: sums.fired,
            cancelled: sums.cancelled,
            returned: sums.returned,
            scheduled: sums.scheduled,
            pending,
            rescheduled: handle.moves(),
            panics,
            refused_by_executor,
            cut_short: counters.cut_short.get(),
            turns: counters.turns.get(),
            wakes: counters.wakes.get(),
            parks: counters.parks.get(),
            inbox,
            lag: now.saturating_duration_since(rate.start_of(handle.next_tick(inbox))),
            entries,
            held_bytes: handle.held_bytes(),
            zombies: entries.saturating_sub(pending),
            swept: counters.swept.get(),
            dropped: counters.dropped.get(),
            cancelled_in_inbox: counters.cancelled_in_inbox.get(),
            lateness,
            handler_time,
        }
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use crate::node::offer::offer;
    use crate::shard::Owner;
    use crate::sync::way;
    use crate::types::Budget;

    #[test]
    fn no_bytes_of_the_wheel_are_held_after_the_end() {
        let rate = TickRate::new(1_000_000);
        let mut owner = Owner::new(way::new_group(), 0, None, Box::new(|| true), &rate);
        let handle = std::sync::Arc::clone(&owner.handle);
        for tick in 0..1_000 {
            let _ = offer(7, |it| handle.producer(0).schedule(1 + tick, it, false)).unwrap();
        }
        let _ = owner.turn(1, &Budget::new(), |_| ());
        let nodes = handle.table.held_bytes() as u64;
        assert!(handle.held_bytes() > nodes, "the wheel's as well");
        owner.end(|_| ());
        assert_eq!(handle.held_bytes(), handle.table.held_bytes() as u64);
        assert_eq!(handle.table.held_bytes() as u64, nodes);
    }

    /// A producer stops between its message and the announcement; meanwhile the owner reads the message and fires.
    #[test]
    fn a_message_that_was_read_before_it_is_announced_is_no_lag() {
        let rate = TickRate::new(1_000_000);
        let mut owner = Owner::new(way::new_group(), 0, None, Box::new(|| true), &rate);
        let handle = std::sync::Arc::clone(&owner.handle);
        let hour = Time::from_nanos(3_600_000_000_000);
        let lag = || ShardStats::of(&handle, &rate, hour).lag;
        let _ = offer(7, |it| handle.producer(0).schedule(5, it, false)).unwrap();
        assert_eq!(owner.turn(5, &Budget::new(), |_| ()).fired, 1);
        assert!(owner.begin_sleep(u64::MAX));
        let _ = handle.wake_state.notify(5, || ());
        assert_eq!(lag(), Duration::ZERO);
        // The next one is announced by the word that is low already.
        let _ = offer(7, |it| handle.producer(0).schedule(6, it, false)).unwrap();
        assert!(lag() >= Duration::from_secs(3599));
    }
}
