//! The loop's own timers: a plain table, as a `LocalTimer` has one, whose entries lie in the shard's wheel.

use crate::contain;
use crate::local::table::{Armed, Due as OwnDue, LocalMove, Table};
use crate::node::table::{Due as RemotesDue, Fired};
use crate::shard::{AllTimers, Own, Owner};
use crate::state::Phase;
use crate::time::{Deadline, Repeat, Time};
use crate::types::{Cancel, Key, Reschedule, ScheduleError, Scheduled};
use crate::wheel::{Entry, Fate, Records, TimerStore, ZOMBIES_PER_LOOK};

/// The bit of an entry's mark that the loop's own do not have. A mark of the shard's has it, because its timer lives.
const OF_THE_SHARD: u32 = 1;

/// Returns an entry of the table as it lies in the wheel.
#[inline(always)]
const fn in_wheel(entry: Entry) -> Entry {
    Entry {
        mark: entry.mark & !OF_THE_SHARD,
        ..entry
    }
}

/// Returns an entry of the wheel as the table knows it.
#[inline(always)]
const fn in_table(entry: &Entry) -> Entry {
    Entry {
        mark: entry.mark | OF_THE_SHARD,
        ..*entry
    }
}

/// See the module.
pub(super) struct OwnTimers<T> {
    pub(super) table: Table<T>,
    /// Zombies to be made until the next look at their bound.
    zombies_until_look: u64,
    /// The periodic timer that is being handled, if its pause begins at the end of the call.
    resting: Option<Key<T>>,
}

impl<T> OwnTimers<T> {
    pub(super) fn new() -> Self {
        Self {
            table: Table::new(None),
            zombies_until_look: ZOMBIES_PER_LOOK,
            resting: None,
        }
    }
}

impl<T> Records for OwnTimers<T> {
    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        self.table.is_live(&in_table(entry))
    }

    #[inline]
    fn prefetch(&self, entry: &Entry) {
        self.table.prefetch(entry);
    }

    fn pending(&self) -> u64 {
        self.table.pending()
    }
}

impl<T> Own for OwnTimers<T> {
    #[inline(always)]
    fn owns(&self, entry: &Entry) -> bool {
        entry.mark & OF_THE_SHARD == 0
    }

    fn held_bytes(&self) -> usize {
        self.table.held_bytes()
    }
}

/// A timer that is due.
pub(super) enum Due<T> {
    /// It has fired and is gone.
    Once(Fired<T>),
    /// One of the loop's own, which repeats: it is to be [called](LoopShard::call_own).
    OwnEvery { index: u32 },
    /// One of a remote, which repeats: it is to be [called](Owner::call).
    Every { index: u32, mark: u32 },
}

impl<T> AllTimers<'_, T, OwnTimers<T>> {
    /// Decides about an entry of a remote's timer. Apart, so that what the loop's own need stays in registers.
    #[inline(never)]
    fn decide_remotes(&mut self, entry: Entry, now: u64) -> Fate<Due<T>> {
        match self.shard.decide(entry, now) {
            Fate::Fire(RemotesDue::Once(fired)) => Fate::Fire(Due::Once(fired)),
            Fate::Fire(RemotesDue::Every { index, mark }) => Fate::Fire(Due::Every { index, mark }),
            Fate::Reinsert { tick, mark } => Fate::Reinsert { tick, mark },
            Fate::Drop => Fate::Drop,
        }
    }
}

impl<T> TimerStore for AllTimers<'_, T, OwnTimers<T>> {
    type Fired = Due<T>;

    #[inline]
    fn prefetch_due(&self, entry: &Entry) {
        if self.own.owns(entry) {
            self.own.table.prefetch_due(entry);
        } else {
            self.shard.prefetch_due(entry);
        }
    }

    #[inline(always)] // as `Wheel::next`, whose one step it is
    fn decide(&mut self, entry: Entry, now: u64) -> Fate<Due<T>> {
        if !self.own.owns(&entry) {
            return self.decide_remotes(entry, now);
        }
        match self.own.table.decide(in_table(&entry), now) {
            Fate::Fire(OwnDue::Once {
                payload,
                key,
                deadline,
            }) => {
                let shard = self.shard.shard;
                // The permit is back before the handler runs, so that it can schedule at the limit.
                shard.release_permit();
                shard.counters.fired.add(1);
                Fate::Fire(Due::Once(Fired {
                    payload,
                    key,
                    deadline,
                }))
            }
            Fate::Fire(OwnDue::Every { index }) => Fate::Fire(Due::OwnEvery { index }),
            // Its mark is the entry's.
            Fate::Reinsert { tick, .. } => Fate::Reinsert {
                tick,
                mark: entry.mark,
            },
            Fate::Drop => Fate::Drop,
        }
    }
}

/// The loop's side of its shard, with the loop's own timers.
pub(super) type LoopShard<T> = Owner<T, OwnTimers<T>>;

impl<T> LoopShard<T> {
    /// Schedules an own timer.
    #[inline(always)] // as a `LocalTimer` does, or the key goes through memory
    pub(super) fn schedule(&mut self, tick: u64, payload: T) -> Scheduled<T> {
        if let Err(kind) = self.handle.acquire_permit() {
            return Err(ScheduleError::new(kind, payload));
        }
        let armed = self.own.table.arm(tick, payload);
        self.accept(armed, tick)
    }

    /// Schedules an own periodic timer.
    pub(super) fn schedule_periodic(&mut self, repeat: Repeat<T>) -> Scheduled<T> {
        if let Err(kind) = self.handle.acquire_permit() {
            return Err(ScheduleError::new(kind, repeat.payload));
        }
        let tick = repeat.recurrence.tick();
        let armed = self.own.table.arm_periodic(repeat);
        self.accept(armed, tick)
    }

    /// Inserts the entry of a timer that has been armed under a permit, which goes back if it was not.
    #[inline(always)]
    fn accept(&mut self, armed: Scheduled<T, Armed>, tick: u64) -> Scheduled<T> {
        let armed = match armed {
            Ok(armed) => armed,
            Err(error) => {
                self.handle.release_permit();
                return Err(error);
            }
        };
        self.handle.of_owner().thread.scheduled.add(1);
        if !self.try_insert(in_wheel(armed.entry(tick))) {
            if let Some(payload) = self.take_back(armed.key()) {
                return Err(ScheduleError::no_memory(payload));
            }
        }
        Ok(armed.key())
    }

    /// Takes the payload of a timer that has just been armed. Apart, so that the usual case pays nothing for it.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, key: Key<T>) -> Option<T> {
        self.handle.of_owner().thread.scheduled.add(u64::MAX);
        self.handle.release_permit();
        self.own.table.end(key, Phase::Cancelled)
    }

    /// Cancels an own timer.
    #[inline]
    pub(super) fn cancel_own(&mut self, key: Key<T>) -> Cancel<T> {
        let Some(payload) = self.own.table.end(key, Phase::Cancelled) else {
            return Cancel::Gone;
        };
        self.handle.of_owner().count_cancelled();
        self.count_zombie();
        Cancel::Won(payload)
    }

    /// Cancels all own timers, in no particular order. O(peak number of timers).
    pub(super) fn cancel_all_own(&mut self, mut take: impl FnMut(Key<T>, u64, T)) {
        let mut from = 0;
        while let Some((key, tick, payload)) = self.own.table.take_from(from) {
            from = key.index() as usize + 1;
            self.handle.of_owner().count_cancelled();
            self.count_zombie();
            take(key, tick, payload);
        }
    }

    /// Ends the shard and all own timers, and returns what has not ended.
    pub(super) fn end_all(&mut self, mut take: impl FnMut(Fired<T>)) {
        let mut from = 0;
        while let Some((key, deadline, payload)) = self.own.table.take_from(from) {
            from = key.index() as usize + 1;
            self.handle.count_returned();
            take(Fired {
                payload,
                key,
                deadline,
            });
        }
        self.end(take);
    }

    /// Moves an own timer.
    #[inline]
    pub(super) fn move_own(&mut self, key: Key<T>, deadline: Deadline) -> Reschedule {
        match self.own.table.move_to(key, deadline) {
            LocalMove::Gone => return Reschedule::Gone,
            LocalMove::Later => {}
            LocalMove::Earlier(armed) => {
                self.insert(in_wheel(armed.entry(deadline.tick)));
                self.count_zombie();
            }
        }
        self.handle.of_owner().thread.moves.add(1);
        Reschedule::Moved
    }

    /// Counts an entry that an own timer has left behind.
    #[inline]
    fn count_zombie(&mut self) {
        self.own.zombies_until_look -= 1;
        if self.own.zombies_until_look == 0 {
            self.own.zombies_until_look = ZOMBIES_PER_LOOK;
            self.look_at_zombies();
        }
    }

    /// Returns the next timer that is due in this turn.
    #[inline(always)] // as `Wheel::next`
    pub(super) fn next_of_all(&mut self) -> Option<Due<T>> {
        let mut timers = AllTimers {
            shard: self.handle.of_owner(),
            own: &mut self.own,
        };
        self.wheel.next(&mut timers)
    }

    /// Sends an own periodic timer on to its next deadline and fires it for this one: in this order, so that the timer
    /// goes on even if the payload's `Clone`, or the handler, panics. `None` without a call, because the `Clone` did.
    ///
    /// A period that was missed waits for the next poll, so that other timers come in between.
    #[cold]
    #[inline(never)]
    pub(super) fn call_own(&mut self, index: u32, now: Time) -> Option<Fired<T>> {
        let renewed = self.own.table.renew(index, now);
        self.insert(in_wheel(renewed.entry));
        let table = &self.own.table;
        let payload =
            contain::catch_and_log("a payload's Clone", || table.clone_payload(renewed.key));
        let Some(payload) = payload.flatten() else {
            self.wheel.count_not_fired();
            self.handle.counters.panics.add(1);
            return None;
        };
        self.own.resting = renewed.rests.then_some(renewed.key);
        // The next call is counted before this one counts as over, so that the timer always counts as pending.
        self.handle.of_owner().thread.scheduled.add(1);
        self.handle.counters.fired.add(1);
        Some(Fired {
            payload,
            key: renewed.key,
            deadline: renewed.deadline,
        })
    }

    /// Returns whether a periodic timer is being handled that is told of the end of the call.
    #[inline(always)]
    pub(super) fn is_in_call(&self) -> bool {
        self.own.resting.is_some() || self.resting.is_some()
    }

    /// Ends the call of a periodic timer.
    pub(super) fn end_call(&mut self, now: Time) {
        match self.own.resting.take() {
            Some(key) => self.own.table.rest(key, now),
            None => self.finish_call(|| now),
        }
    }
}
