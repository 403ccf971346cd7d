//! Everything that drives one shard, on whichever thread does it: a worker of its own, or the caller's.
//!
//! Each step may be cut short by a panic (of ours, or of the clock: all other user code is contained) and still be
//! followed by [`ShardWorker::into_unfired`], which returns the pending timers. So the clock is read only while no timer is
//! in hand.
//!
//! A timer that has fired goes to a handler, an executor or a waker, and their panics are counted and told.
//!
//! A turn gathers wakers in a *wake batch* and calls them together. A waker's first step is an atomic instruction on
//! its task, which lies anywhere: a cache miss each. So the task is prefetched when the timer fires, and woken some
//! timers later. Also, a runtime's thread that the first wake calls finds more than one task when it comes. The order
//! stays: other payloads are handled after the wakers before them. A waker that panics or blocks does to later ones
//! what a handler does.

use super::status::EnginePhase;
use crate::contain;
use crate::engine::events;
use crate::engine::hooks::{self, PanicReport, SlowHandler};
use crate::engine::inner::{Inner, ShardWorker};
use crate::shard::Due;
use crate::stats::{Counters, Sample};
use crate::sync::prefetch::prefetch;
use crate::time::{Time, saturating_ns};
use crate::types::{Budget, Expired, Polled, RawKey, Unfired};

/// Timers of one turn after which the clock is read again for their lateness.
const FIRES_PER_CLOCK_READ: usize = 64;

impl<T> ShardWorker<T> {
    /// Fires what is due at a tick, or now, in the order of deadlines, and returns how many timers fired. At the end of
    /// time, `u64::MAX`, everything is due.
    ///
    /// It takes as many turns as the budget makes of it, unless the engine is stopped meanwhile. The inbox is emptied
    /// before the first handler runs: what handlers schedule waits for the next call, so that this one ends.
    pub(super) fn fire_until(&mut self, inner: &Inner<T>, tick: Option<u64>) -> usize {
        let mut now = inner.source.now();
        let tick = tick.unwrap_or_else(|| inner.rate.current(now));
        let budget = inner.budget.drain(usize::MAX);
        let (mut fired, mut resumed) = (0, false);
        while !inner.status.is(EnginePhase::Stopped) {
            let turn = self.turn(inner, now, tick, &budget, resumed);
            fired += turn.fired;
            if !turn.more {
                break;
            }
            (now, resumed) = (inner.source.now(), true);
        }
        fired
    }

    /// Runs one turn at `tick`, which is not after `now`, or is the end of time; catches and counts the handlers' panics.
    /// `resumed` is as for [`Owner::begin_turn`](crate::shard::Owner::begin_turn).
    pub(super) fn turn(
        &mut self,
        inner: &Inner<T>,
        mut now: Time,
        tick: u64,
        budget: &Budget,
        resumed: bool,
    ) -> Polled {
        let mut fires = 0;
        self.owner.begin_turn(tick, budget, resumed);
        // A hook for slow handlers needs the start of each call, also of the first one, before which the inbox was
        // drained, and how late it makes later ones.
        let is_timed = inner.hooks.slow.is_some();
        if is_timed {
            now = inner.now_again();
        }
        while let Some(due) = self.owner.next_in_turn() {
            fires += 1;
            match due {
                Due::Once(fired) => {
                    let expired = self.owner.expired(fired, true, &inner.rate, now);
                    self.handle_in_turn(inner, expired, now);
                }
                Due::Every { index, mark } => {
                    self.call(inner, index, mark, now);
                }
            }
            // A stop waits for the handler that runs, not for all that is due.
            if inner.status.is(EnginePhase::Stopped) {
                break;
            }
            if is_timed || fires % FIRES_PER_CLOCK_READ == 0 {
                now = inner.now_again();
            }
        }
        self.handle_wake_batch(inner, now);
        let turn = self.owner.finish_turn(budget);
        if turn.more && fires > 0 {
            events::turn_was_cut_short(self.shard, fires);
        }
        turn
    }

    /// Calls a periodic timer's handler, unless a thread ends or moves it before, or the engine drains: its timers that
    /// repeat would keep it from its end. User code that comes before a handler, wakers and clock, comes before that is
    /// decided.
    #[cold]
    #[inline(never)]
    fn call(&mut self, inner: &Inner<T>, index: u32, mark: u32, now: Time) {
        self.handle_wake_batch(inner, now);
        if inner.status.is(EnginePhase::Draining) {
            // Its entry is gone: the shard's end returns it.
            return self.owner.wheel.count_not_fired();
        }
        if let Some((fired, is_last)) = self.owner.call(index, mark, now) {
            let expired = self.owner.expired(fired, is_last, &inner.rate, now);
            self.handle(inner, expired, now);
            self.owner.finish_call(|| inner.source.now());
        }
    }

    /// Closes the shard, drops the handler, and returns the timers that have not ended.
    pub(super) fn into_unfired(mut self, inner: &Inner<T>) -> Vec<Unfired<T>> {
        self.drop_wake_batch();
        let mut unfired = Vec::new();
        let closed = contain::call(|| {
            self.owner.end(|it| {
                unfired.push(Unfired::new(it.payload, it.key, it.deadline, &inner.rate));
            });
        });
        if let Err(message) = closed {
            inner.tell_failure(&self, message.into());
        }
        // First, because the handler's destructor may wait for a thread that sleeps by one of these timers.
        for unfired in &unfired {
            inner.wake_returned(&unfired.payload);
        }
        contain::drop_quietly("a shard's worker", self);
        unfired
    }
}

/// Wakers that are called together at most. Beyond that their tasks would push each other out of the cache, and a
/// waker that blocks would delay more of them.
pub(crate) const WAKE_BATCH: usize = 256;

impl<T> Inner<T> {
    /// Reads the clock between two timers of a turn.
    #[inline(never)] // the loop over the timers would keep what it takes in registers
    fn now_again(&self) -> Time {
        self.source.now()
    }

    /// Wakes the future whose timer `stop` returned: it must not wait for the caller, who has the payload.
    pub(super) fn wake_returned(&self, payload: &T) {
        if let Some(waker) = self.wakers.as_ref().and_then(|wakers| (wakers.of)(payload)) {
            contain::catch_and_log("a waker", || waker.wake_by_ref());
        }
    }
}

impl<T> ShardWorker<T> {
    /// Runs the handler for a timer that has fired at `now`, or calls its waker; that later in this turn, unless a hook
    /// wants to know how long each takes.
    #[inline]
    pub(super) fn handle_in_turn(&mut self, inner: &Inner<T>, expired: Expired<T>, now: Time) {
        let Some(wakers) = inner.wakers.as_ref() else {
            return self.handle(inner, expired, now);
        };
        let Expired {
            payload,
            key,
            deadline,
            lateness,
            is_last,
            ..
        } = expired;
        match (wakers.take)(payload) {
            Ok(waker) => {
                // Its data is where the task probably lies that it wakes.
                prefetch(waker.data());
                if self.wake_batch.len() == WAKE_BATCH {
                    self.handle_wake_batch(inner, now);
                }
                self.wake_batch.push((waker, key.to_raw()));
                if inner.hooks.slow.is_some() {
                    self.handle_wake_batch(inner, now);
                }
            }
            Err(payload) => {
                self.handle_wake_batch(inner, now);
                let expired = Expired::new(payload, key, deadline, lateness, is_last);
                self.handle(inner, expired, now);
            }
        }
    }

    /// Calls the wakers of the wake batch: one, at `now`, if a hook wants to know how long it takes.
    #[inline]
    pub(super) fn handle_wake_batch(&mut self, inner: &Inner<T>, now: Time) {
        let mut batch = self.wake_batch.drain(..);
        // Goes round once more for each waker that panics.
        while let Some((waker, key)) = batch.next() {
            let mut latest = key;
            let outcome = contain::call(|| {
                (self.wake)(waker);
                for (waker, key) in &mut batch {
                    latest = key;
                    (self.wake)(waker);
                }
            });
            called(
                inner,
                &self.owner.handle.counters,
                self.shard,
                latest,
                outcome,
                now,
            );
        }
    }

    /// Wakes the wake batch of a turn that was cut short by a panic.
    pub(super) fn drop_wake_batch(&mut self) {
        // A task that is dropped wakes.
        for (waker, _) in self.wake_batch.drain(..) {
            contain::catch_and_log("a waker", || waker.wake());
        }
    }

    /// Runs the handler for one timer, at `now` if a hook wants to know how long it takes; a panic stays there.
    #[inline]
    pub(super) fn handle(&mut self, inner: &Inner<T>, expired: Expired<T>, now: Time) {
        let key = expired.key;
        let Some(handler) = self.handler.get_mut() else {
            return;
        };
        // A handler that panics half-way may leave its own state inconsistent; that is its owner's to judge,
        // as it is with a thread that panics. The engine's state is not touched by handlers.
        let outcome = contain::call(|| handler(inner, expired));
        if outcome.is_err() || inner.hooks.slow.is_some() {
            let counters = &self.owner.handle.counters;
            called(inner, counters, self.shard, key.to_raw(), outcome, now);
        }
    }
}

/// Counts and tells a call's panic, and how long it took since `now` if a hook wants to know.
#[inline(never)] // out of the way of the usual case
fn called<T>(
    inner: &Inner<T>,
    counters: &Counters,
    shard: usize,
    key: RawKey,
    outcome: Result<(), String>,
    now: Time,
) {
    let watched = inner.hooks.slow.as_ref().map(|(threshold, hook)| {
        let took = inner.source.now() - now;
        counters
            .handler_time
            .record(Sample::of(saturating_ns(took)));
        (took, *threshold, hook)
    });
    if let Err(message) = outcome {
        let report = PanicReport {
            shard,
            key,
            message,
        };
        panicked(inner, counters, report);
    }
    if let Some((took, _, hook)) = watched.filter(|(took, threshold, _)| took >= threshold) {
        let slow = SlowHandler { shard, key, took };
        events::handler_was_slow(&slow);
        hooks::tell("the hook for slow handlers", Some(hook), &slow);
    }
}

/// Counts a panic of a handler or a waker, and tells it.
#[cold]
fn panicked<T>(inner: &Inner<T>, counters: &Counters, report: PanicReport) {
    counters.panics.add(1);
    events::handler_panicked(&report);
    hooks::tell("the panic hook", inner.hooks.panic.as_ref(), &report);
}

#[cfg(all(test, feature = "futures", not(tickwheel_loom)))]
mod tests;
