//! What both timers hold and do alike with it, whatever their wheel.

use super::node::drop_payload;
use super::table::{Armed, Due, MAX_NODES, Table};
use crate::drive::{Drivable, Driver, TurnState, ZOMBIES_PER_LOOK};
use crate::pull::Poll;
use crate::state::Phase;
use crate::time::{Repeat, Time};
use crate::types::{
    Budget, Expired, Key, Polled, ScheduleError, ScheduleErrorKind, Settings, Unfired,
};
use crate::wheel::{Entry, no_memory};
use core::time::Duration;

/// Nodes, wheel and settings. What a tick is and when it begins only the timers know.
pub(super) struct Contents<T, W, const EXACT: bool> {
    pub(super) table: Table<T, EXACT>,
    pub(super) driver: Driver<W>,
    /// Timers that may be pending.
    limit: usize,
    /// What one poll may do.
    pub(super) budget: Budget,
    /// How much longer than to the next deadline a loop may sleep.
    pub(super) slack: Duration,
    /// Zombies made since the last look at their bound.
    zombies_since_check: u32,
}

impl<T, W: Drivable, const EXACT: bool> Contents<T, W, EXACT> {
    pub(super) fn new(wheel: W, settings: &Settings) -> Self {
        Self {
            table: Table::new(),
            driver: Driver::new(wheel),
            limit: settings.max_pending.map_or(MAX_NODES, |limit| limit.min(MAX_NODES)),
            budget: settings.budget,
            slack: settings.slack,
            zombies_since_check: 0,
        }
    }

    #[inline(always)]
    pub(super) fn schedule(&mut self, tick: u64, payload: T) -> Result<Key<T>, ScheduleError<T>> {
        if self.table.pending() >= self.limit {
            return Err(refusal(self.limit, payload));
        }
        let armed = self.table.arm(tick, payload).map_err(ScheduleError::no_memory)?;
        self.insert_new(armed, tick)
    }

    pub(super) fn schedule_periodic(
        &mut self,
        repeat: Repeat<T>,
    ) -> Result<Key<T>, ScheduleError<T>> {
        let tick = repeat.course.tick();
        if self.table.pending() >= self.limit {
            return Err(refusal(self.limit, repeat.payload));
        }
        let armed = self.table.arm_periodic(repeat).map_err(ScheduleError::no_memory)?;
        self.insert_new(armed, tick)
    }

    /// Inserts the entry of a timer that has just been armed, or takes it back if there is no memory.
    #[inline(always)]
    fn insert_new(&mut self, armed: Armed, tick: u64) -> Result<Key<T>, ScheduleError<T>> {
        let Entry { deadline, index, mark } = armed.entry(tick);
        if !self.driver.insert(armed.entry(tick)) && !self.make_room(deadline, index, mark) {
            if let Some(payload) = self.take_back(armed.key()) {
                return Err(ScheduleError::no_memory(payload));
            }
        }
        Ok(armed.key())
    }

    /// The payload of a timer that has just been armed. Apart, so that it costs the others nothing.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, key: Key<T>) -> Option<T> {
        self.table.end(key, Phase::Cancelled)
    }

    /// Inserts the entry of a timer whose deadline moves; ends the process if there is no memory.
    #[inline(always)]
    pub(super) fn insert(&mut self, entry: Entry) {
        if !self.driver.insert(entry) && !self.make_room(entry.deadline, entry.index, entry.mark) {
            no_memory();
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, deadline: u64, index: u32, mark: u32) -> bool {
        self.driver.make_room(Entry { deadline, index, mark }, &self.table)
    }

    /// A timer has left its entry behind.
    #[inline]
    pub(super) fn count_zombie(&mut self) {
        self.zombies_since_check += 1;
        if u64::from(self.zombies_since_check) >= ZOMBIES_PER_LOOK {
            self.look_at_zombies();
        }
    }

    /// Cancels alone keep the bound: it must hold for those, too, who seldom poll.
    #[cold]
    #[inline(never)]
    fn look_at_zombies(&mut self) {
        self.zombies_since_check = 0;
        self.driver.look_at_zombies(&mut self.table);
    }

    /// The next timer that fires in this turn, if the turn is this timer's: a handler may have put another one in its
    /// place.
    #[inline(always)]
    pub(super) fn next(&mut self, turn: &mut TurnState) -> Option<Due<T>> {
        if self.driver.owns(turn) { self.driver.next(turn, &mut self.table) } else { None }
    }

    #[inline]
    pub(super) fn finish(&mut self, poll: Poll) -> Polled {
        let (fired, more) = (poll.turn.fired, poll.turn.cut_short);
        self.driver.finish(poll.turn);
        let sweeping = self.driver.keep_bounded(&mut self.table, false, self.budget.sweep);
        Polled { fired, more: more || sweeping }
    }

    /// The earliest deadline, if a timer is pending that ever fires; `time` is when a tick begins.
    #[inline]
    pub(super) fn next_deadline(&self, time: impl Fn(u64) -> Time) -> Option<Time> {
        if self.table.pending() == 0 {
            return None;
        }
        self.driver.next_deadline().map(time).filter(|next| *next < Time::MAX)
    }

    pub(super) fn drain(&mut self, time: impl Fn(u64) -> Time) -> impl Iterator<Item = Unfired<T>> {
        let unfired = move |(key, tick, payload)| Unfired { payload, key, deadline: time(tick) };
        Drain { contents: self, from: 0 }.map(unfired)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.table.held_bytes() + self.driver.held_bytes()
    }
}

/// Ends all pending timers, in no particular order, those that it has not come to when it is dropped included.
struct Drain<'a, T, W: Drivable, const EXACT: bool> {
    contents: &'a mut Contents<T, W, EXACT>,
    /// Nodes before this one are done.
    from: usize,
}

impl<T, W: Drivable, const EXACT: bool> Iterator for Drain<'_, T, W, EXACT> {
    type Item = (Key<T>, u64, T);

    fn next(&mut self) -> Option<Self::Item> {
        let taken = self.contents.table.take_from(self.from)?;
        self.from = taken.0.index() as usize + 1;
        Some(taken)
    }
}

impl<T, W: Drivable, const EXACT: bool> Drop for Drain<'_, T, W, EXACT> {
    fn drop(&mut self) {
        self.for_each(|(_, _, payload)| drop_payload(payload));
        // The entries go last: where this is forgotten, what stays pending is still due.
        self.contents.driver.clear();
        self.contents.zombies_since_check = 0;
    }
}

/// What the poll at `now` tells of a timer that fires.
#[inline(always)]
pub(super) fn expired<T>(now: Time, deadline: Time, key: Key<T>, payload: T) -> Expired<T> {
    let lateness = now.saturating_duration_since(deadline);
    Expired { payload, key, deadline, lateness, shard: 0 }
}

/// The answer to one timer more than `limit`, which is how many are pending.
#[cold]
fn refusal<T>(limit: usize, payload: T) -> ScheduleError<T> {
    let kind = if limit == MAX_NODES {
        ScheduleErrorKind::OutOfNodes { shard: 0, limit: limit as u64 }
    } else {
        ScheduleErrorKind::TooManyPending { pending: limit, max_pending: limit }
    };
    ScheduleError::new(kind, payload)
}

/// How long to sleep: from `now` to what `slack` makes of `next`; not at all where `next` has come.
pub(super) fn until(
    next: Option<Time>,
    now: Time,
    slack: impl FnOnce(Time) -> Time,
) -> Option<Duration> {
    let until = |next| if next <= now { next } else { slack(next) };
    next.map(|next| until(next).saturating_duration_since(now))
}
