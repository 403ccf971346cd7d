//! Everything that drives one shard, on whichever thread does it: a worker of its own, or the caller's.
//!
//! Each step may be cut short by a panic (of ours: the user's are contained) and still be followed by
//! [`ShardWorker::close`], which returns whatever is pending.

use super::events;
use super::handler::run_caught;
use super::hooks::{SlowHandler, Watch};
use super::inner::{Inner, Outcome, ShardWorker};
use super::state::Phase;
use crate::contain;
use crate::drive::TurnState;
use crate::shard::{Fired, Turn};
use crate::time::{Broken, Time, saturating_ns};
use crate::types::{Budget, Expired, Unfired};

/// Turns in a row that began with a panic of the clock after which it is given up. A worker waits a millisecond after
/// each of them, so that is a tenth of a second.
const GIVE_UP: u32 = 100;

/// Timers of one turn after which the clock is read again for their lateness.
const FIRES_PER_CLOCK_READ: usize = 64;

impl<T> Inner<T> {
    /// Whether the calling thread, which drives a shard, may fire another timer.
    #[inline]
    fn may_fire(&self) -> bool {
        self.phase() == Phase::Started || self.may_fire_unless_started()
    }

    #[cold]
    fn may_fire_unless_started(&self) -> bool {
        self.phase() != Phase::Stopped && !self.is_copy()
    }

    /// Whether a handler, a waker or a copied payload has forked and come back: this is the child's copy of a worker,
    /// and what it holds is not its to fire or to drop.
    #[inline]
    pub(super) fn is_copy(&self) -> bool {
        self.phase() == Phase::Init && self.standing.is_forked()
    }
}

/// The budget of turns that go on until nothing is left: all that has come is taken from the inbox before the first
/// handler runs, so that none of it is mistaken for what handlers schedule, or the other way round.
fn draining_all<T>(inner: &Inner<T>) -> Budget {
    Budget { drain: usize::MAX, ..inner.budget }
}

impl<T> ShardWorker<T> {
    /// One turn at the clock's current time, with the handler's panics caught and counted.
    ///
    /// A turn that goes on where the last one ran out of budget takes nothing from the inbox.
    ///
    /// # Panics
    ///
    /// If the clock has been given up: here and not where it is read, because no timer is in hand yet, whose
    /// destructor would run while this unwinds.
    pub(super) fn turn(&mut self, inner: &Inner<T>, budget: &Budget, goes_on: bool) -> Turn {
        let now = match inner.source.reading() {
            Ok(now) => {
                self.clock_failures = 0;
                now
            }
            Err(broken) => self.clock_failed(broken, goes_on),
        };
        self.turn_at(inner, now, inner.rate.current(now), budget, goes_on)
    }

    /// A turn begins, and the clock panics: time stands still, but not for ever.
    #[cold]
    fn clock_failed(&mut self, broken: Broken, goes_on: bool) -> Time {
        // A turn that is cut into pieces counts once.
        self.clock_failures += u32::from(!goes_on);
        if self.clock_failures > GIVE_UP {
            let failure = format!("the clock only panics: {}", broken.message);
            // Without the panic hook: it has heard of the clock's panics.
            std::panic::resume_unwind(Box::new(failure));
        }
        broken.stands_at
    }

    /// Turns until nothing more is due now; how many timers fired. What the handlers schedule is left for the next
    /// call, so that this one ends.
    pub(super) fn turn_all(&mut self, inner: &Inner<T>) -> usize {
        let budget = draining_all(inner);
        let mut turn = self.turn(inner, &budget, false);
        let mut fired = turn.fired;
        while turn.more && inner.may_fire() {
            turn = self.turn(inner, &budget, true);
            fired += turn.fired;
        }
        fired
    }

    /// Fires everything that is pending, in the order of deadlines, unless the engine is stopped meanwhile.
    pub(super) fn fire_all(&mut self, inner: &Inner<T>) {
        let budget = draining_all(inner);
        let mut goes_on = false;
        while inner.may_fire() {
            // At the end of time everything is due.
            if !self.turn_at(inner, inner.worker_now(), u64::MAX, &budget, goes_on).more {
                return;
            }
            goes_on = true;
        }
    }

    fn turn_at(
        &mut self,
        inner: &Inner<T>,
        mut now: Time,
        tick: u64,
        budget: &Budget,
        goes_on: bool,
    ) -> Turn {
        let mut fires = 0;
        let begun = if goes_on {
            self.owner.resume_turn(tick, budget)
        } else {
            self.owner.begin_turn(tick, budget)
        };
        let Some(mut turn) = begun else {
            return Turn { fired: 0, more: false, next: u64::MAX };
        };
        // Who looks for slow handlers wants to know how late they make others.
        let every = if inner.hooks.slow.is_some() { 1 } else { FIRES_PER_CLOCK_READ };
        while let Some(fired) = self.owner.next_fired(&mut turn) {
            fires += 1;
            if fires % every == 0 {
                now = inner.worker_now();
            }
            if fired.periodic {
                self.call_periodic(inner, &mut turn, fired, now);
            } else {
                let expired = self.expired(inner, fired, now);
                self.handle_in_turn(inner, expired);
            }
            // A stop waits for the handler that runs, not for all that is due.
            if !inner.may_fire() {
                break;
            }
        }
        self.handle_gathered(inner);
        let turn = self.owner.finish_turn(turn, budget);
        if turn.more && fires > 0 {
            events::turn_was_cut_short(self.shard, fires);
        }
        turn
    }

    /// A timer that has fired, as its handler sees it.
    #[inline]
    fn expired(&self, inner: &Inner<T>, fired: Fired<T>, now: Time) -> Expired<T> {
        let Fired { payload, key, deadline, .. } = fired;
        let deadline = inner.rate.start_of(deadline);
        let lateness = now.saturating_duration_since(deadline);
        self.owner.handle().counters().lateness.record(saturating_ns(lateness));
        Expired { payload, key, deadline, lateness, shard: self.shard }
    }

    /// A call of a periodic timer, unless somebody ends or moves it before. What is the user's and comes before a
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
        self.handle_gathered(inner);
        let watch = Self::watch(inner);
        if inner.is_copy() {
            std::mem::forget(fired);
        } else if let Some(fired) = self.owner.confirm(turn, fired) {
            let expired = self.expired(inner, fired, now);
            self.handle_watched(inner, expired, watch);
            self.owner.finish_call(|| inner.worker_now());
        }
    }

    /// Runs the handler for one timer.
    pub(super) fn handle(&mut self, inner: &Inner<T>, expired: Expired<T>) {
        self.handle_watched(inner, expired, Self::watch(inner));
    }

    /// Who is to be told of a slow handler, and when this one begins.
    #[inline]
    fn watch(inner: &Inner<T>) -> Option<(&Watch, Time)> {
        inner.hooks.slow.as_ref().map(|watch| (watch, inner.worker_now()))
    }

    #[inline]
    fn handle_watched(
        &mut self,
        inner: &Inner<T>,
        expired: Expired<T>,
        watch: Option<(&Watch, Time)>,
    ) {
        let counters = self.owner.handle().counters();
        let key = expired.key;
        let Some(handler) = self.handler.get_mut() else { return };
        let outcome = run_caught(handler, inner, expired);
        let watched = watch.map(|(watch, started)| {
            let took = inner.worker_now() - started;
            counters.handler_time.record(saturating_ns(took));
            (watch, took)
        });
        // A call is counted before what became of it.
        match outcome {
            Some(Outcome::Done) => {}
            Some(Outcome::Refused) => {
                counters.refused_by_executor.bump();
                events::executor_refused(self.shard);
            }
            None => drop(counters.panics.bump()),
        }
        if let Some((watch, took)) = watched {
            if took >= watch.threshold {
                let slow = SlowHandler { shard: self.shard, key: key.to_raw(), took };
                events::handler_was_slow(&slow);
                watch.tell(&slow);
            }
        }
    }

    /// Ends the shard, drops the handler, and collects what has not ended.
    pub(super) fn close(mut self, inner: &Inner<T>) -> Vec<Unfired<T>> {
        self.forget_gathered();
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
        unfired.iter().for_each(|unfired| inner.wake_returned(&unfired.payload));
        unfired
    }
}
