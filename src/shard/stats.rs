//! A shard's figures: sums over its threads, and a snapshot of all that it counts.

use super::handle::ShardHandle;
use crate::stats::{PinState, Sample, ShardStats};
use crate::time::{TickRate, Time};
use std::time::Duration;

/// Beginnings and ends of a shard's timers: no end is among them without its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    pub(crate) scheduled: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) returned: u64,
    /// Periodic timers among those that have begun and not ended; see [`Table::periodic_timers`].
    periodic: u64,
}

impl Sums {
    /// Returns the number of timers that have not ended. Exact when nothing is going on; otherwise it may count
    /// timers that ended while the sums were taken.
    pub(crate) const fn pending(self) -> u64 {
        self.scheduled
            .saturating_sub(self.fired + self.cancelled + self.returned)
    }

    /// Like [`pending`](Self::pending), of timers that fire once: what a drain waits for. The owner asks, between two turns.
    pub(crate) const fn pending_once(self) -> u64 {
        self.pending().saturating_sub(self.periodic)
    }
}

/// How late the timer is that fired last. The next ones of its tick are as late until the clock is read again: a burst
/// computes this once.
pub(super) struct LastFired {
    pub(super) tick: u64,
    pub(super) now: Time,
    pub(super) deadline: Time,
    pub(super) lateness: Duration,
    pub(super) sample: Sample,
}

impl LastFired {
    #[inline(never)] // out of the way of the next ones
    pub(super) fn of(tick: u64, now: Time, rate: &TickRate) -> Self {
        let deadline = rate.start_of(tick);
        let late_ns = now.as_nanos().saturating_sub(deadline.as_nanos());
        Self {
            tick,
            now,
            deadline,
            lateness: Duration::from_nanos(late_ns),
            sample: Sample::of(late_ns),
        }
    }
}

impl<T> ShardHandle<T> {
    /// Deadlines moved so far. O(threads).
    pub(crate) fn moves(&self) -> u64 {
        self.threads_sum(|thread| thread.moves.get()) + self.owner.moves.get()
    }

    /// Beginnings and ends so far. O(threads).
    pub(crate) fn sums(&self) -> Sums {
        let Self {
            counters, owner, ..
        } = self;
        // Ends before beginnings, so that no timer's end is counted without its beginning; and in between the periodic
        // ones, so that none is among them which is not among the pending ones. [P11]
        Sums {
            fired: counters.fired.get(),
            returned: counters.returned.get(),
            cancelled: self.threads_sum(|it| it.cancelled.get()) + owner.cancelled.get(),
            periodic: self.table.periodic_timers(),
            scheduled: self.threads_sum(|it| it.scheduled.get()) + owner.scheduled.get(),
        }
    }

    /// Returns the number of timers that have been accepted and have not ended. O(threads).
    pub(crate) fn pending(&self) -> u64 {
        self.sums().pending()
    }

    /// Messages sent and not drained. O(threads).
    fn unread(&self) -> u64 {
        let drained = self.counters.drained.get();
        let sent = self.threads_sum(|thread| thread.scheduled.get() + thread.moves_sent.get());
        sent.saturating_sub(drained)
    }

    /// Returns the next tick at which there is something to do, as far as the owner knew after its last turn and as the
    /// inbox says, which has `unread` messages; `u64::MAX` for none.
    fn next_tick(&self, unread: u64) -> u64 {
        if self.wake_state.is_closed() {
            return u64::MAX;
        }
        let next = self.counters.next_tick();
        // A thread that has stopped in between announces a message that the owner has read long ago.
        if unread == 0 {
            return next;
        }
        next.min(self.wake_state.earliest_unread())
    }

    /// Returns how many more owned handles were counted here as made than as dropped; it wraps. The sum over an engine's
    /// shards is exact once no `Timer` makes more: a future that arms another timer is itself counted all the while.
    /// Before that the sum may be too large. O(threads).
    pub(crate) fn handles_left(&self) -> u64 {
        let dropped = self.threads_sum(|thread| thread.handles_dropped.get());
        self.threads_sum(|thread| thread.handles_made.get())
            .wrapping_sub(dropped)
    }

    /// Returns the bytes held by nodes, magazines and, as of the last turn, the wheel and the owner's own timers.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.table.held_bytes() as u64 + self.counters.owner_bytes.get()
    }

    /// Returns all that the shard has counted by `now`. How its worker does is the engine's to add. O(threads).
    pub(crate) fn stats(&self, rate: &TickRate, now: Time) -> ShardStats {
        let counters = &self.counters;
        // Parts before what they are parts of, so that none is the larger.
        let panics = counters.panics.get();
        let refused_by_executor = counters.refused_by_executor.get();
        let handler_time = counters.handler_time.snapshot();
        let lateness = counters.lateness.snapshot();
        let sums = self.sums();
        let (entries, pending) = (counters.entries.get(), sums.pending());
        let inbox = self.unread();
        ShardStats {
            shard: usize::from(self.id),
            pinning: PinState::default(),
            failure: None,
            fired: sums.fired,
            cancelled: sums.cancelled,
            returned: sums.returned,
            scheduled: sums.scheduled,
            pending,
            rescheduled: self.moves(),
            panics,
            refused_by_executor,
            cut_short: counters.cut_short.get(),
            turns: counters.turns.get(),
            wakes: counters.wakes.get(),
            parks: counters.parks.get(),
            inbox,
            lag: now.saturating_duration_since(rate.start_of(self.next_tick(inbox))),
            entries,
            held_bytes: self.held_bytes(),
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
        let lag = || handle.stats(&rate, hour).lag;
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
