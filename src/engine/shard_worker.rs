//! Everything that drives one shard, on whichever thread does it: a worker of its own, or the caller's.
//!
//! Each step may be cut short by a panic (of ours, or of the clock: all other user code is contained) and still be
//! followed by [`ShardWorker::close`], which returns the pending timers. So the clock is read only while no timer is
//! in hand.

use super::events;
use super::inner::{Inner, ShardWorker};
use super::state::Phase;
use crate::contain;
use crate::drive::TurnState;
use crate::shard::{Fired, Turn};
use crate::time::{Time, saturating_ns};
use crate::types::{Budget, Expired, Unfired};

/// Timers of one turn after which the clock is read again for their lateness.
const FIRES_PER_CLOCK_READ: usize = 64;

impl<T> ShardWorker<T> {
    /// Returns one turn at the clock's current time, with the handler's panics caught and counted.
    pub(super) fn turn(&mut self, inner: &Inner<T>) -> Turn {
        let now = inner.now();
        self.turn_at(inner, now, inner.rate.current(now), &inner.budget, false)
    }

    /// Fires all that is due now, and returns how many timers fired.
    pub(super) fn turn_all(&mut self, inner: &Inner<T>) -> usize {
        let now = inner.now();
        self.turn_until_done(inner, now, inner.rate.current(now))
    }

    /// Fires everything that is pending, in the order of deadlines, unless the engine is stopped meanwhile.
    pub(super) fn fire_all(&mut self, inner: &Inner<T>) {
        // At the end of time everything is due.
        self.turn_until_done(inner, inner.now(), u64::MAX);
    }

    /// Turns at one tick until nothing more is due then, in as many pieces as the budget makes of it, unless the engine
    /// is stopped meanwhile. The inbox is emptied before the first handler runs: what handlers schedule waits for the
    /// next call, so that this one ends.
    fn turn_until_done(&mut self, inner: &Inner<T>, mut now: Time, tick: u64) -> usize {
        let budget = Budget { drain: usize::MAX, ..inner.budget };
        let (mut fired, mut resumed) = (0, false);
        while inner.phase() != Phase::Stopped {
            let turn = self.turn_at(inner, now, tick, &budget, resumed);
            fired += turn.fired;
            if !turn.more {
                break;
            }
            (now, resumed) = (inner.now(), true);
        }
        fired
    }

    fn turn_at(
        &mut self,
        inner: &Inner<T>,
        mut now: Time,
        tick: u64,
        budget: &Budget,
        resumed: bool,
    ) -> Turn {
        let mut fires = 0;
        let begun = if resumed {
            self.owner.resume_turn(tick, budget)
        } else {
            self.owner.begin_turn(tick, budget)
        };
        let Some(mut turn) = begun else {
            return Turn { fired: 0, more: false, next: u64::MAX };
        };
        // A hook for slow handlers needs the start of each call, and how late it makes later ones.
        let every = if inner.hooks.slow.is_some() { 1 } else { FIRES_PER_CLOCK_READ };
        loop {
            if fires > 0 && fires % every == 0 {
                now = inner.now();
            }
            let Some(fired) = self.owner.next_fired(&mut turn) else { break };
            fires += 1;
            if fired.periodic {
                self.call_periodic(inner, &mut turn, fired, now);
            } else {
                let expired = self.expired(inner, fired, now);
                self.handle_in_turn(inner, expired, now);
            }
            // A stop waits for the handler that runs, not for all that is due.
            if inner.phase() == Phase::Stopped {
                break;
            }
        }
        self.handle_wake_batch(inner);
        let turn = self.owner.finish_turn(turn, budget);
        if turn.more && fires > 0 {
            events::turn_was_cut_short(self.shard, fires);
        }
        turn
    }

    /// Returns a timer that has fired, as its handler sees it.
    #[inline]
    fn expired(&self, inner: &Inner<T>, fired: Fired<T>, now: Time) -> Expired<T> {
        let Fired { payload, key, deadline, .. } = fired;
        let deadline = inner.rate.start_of(deadline);
        let lateness = now.saturating_duration_since(deadline);
        self.owner.handle().counters().lateness.record(saturating_ns(lateness));
        Expired { payload, key, deadline, lateness, shard: self.shard }
    }

    /// Calls a periodic timer's handler, unless a thread ends or moves it before. User code that comes before a
    /// handler, wakers and clock, comes before that is decided.
    #[cold]
    #[inline(never)]
    fn call_periodic(
        &mut self,
        inner: &Inner<T>,
        turn: &mut TurnState,
        fired: Fired<T>,
        now: Time,
    ) {
        self.handle_wake_batch(inner);
        if let Some(fired) = self.owner.confirm(turn, fired) {
            let expired = self.expired(inner, fired, now);
            self.handle(inner, expired, now);
            self.owner.finish_call(|| inner.now());
        }
    }

    /// Ends the shard, drops the handler, and collects what has not ended.
    pub(super) fn close(mut self, inner: &Inner<T>) -> Vec<Unfired<T>> {
        self.drop_wake_batch();
        let mut unfired = Vec::new();
        let closed = contain::call(|| {
            self.owner.close(|Fired { payload, key, deadline, .. }| {
                unfired.push(Unfired { payload, key, deadline: inner.rate.start_of(deadline) });
            });
        });
        if let Err(message) = closed {
            inner.fail(&self, message);
        }
        contain::drop_quietly("a shard's worker", self);
        for unfired in &unfired {
            inner.wake_returned(&unfired.payload);
        }
        unfired
    }
}
