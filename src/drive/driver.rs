//! The wheel's part of a turn: file, fire what is due, sweep zombies, within a budget.
//!
//! A shard's owner (`shard::owner`) and the single-threaded `LocalTimer` keep their timers' store in
//! different tables, one atomic and one not. Everything else about a turn is the same and lives here,
//! once: the [`Driver`] owns the wheel and asks the table what to do about each entry.
//!
//! It hands out one fired timer at a time ([`Driver::next`]), so the caller can run a handler that uses the
//! timer again, and a handler that panics leaves nothing half done.

use super::{Fate, StagingBuffer, TimerStore};
use crate::wheel::{AnyWheel, Entry, Wheel};

/// Entries asked of the wheel at a time: enough to amortise the call, few enough to stay in cache.
const BATCH: usize = 256;

/// Entries that may be filed out of the staging buffer for the price of settling one.
const FILED_PER_SETTLED: usize = 4;

/// Zombies that are always tolerated; beyond it at most as many as there are live timers.
#[cfg(not(tickwheel_loom))]
const ZOMBIE_FLOOR: u64 = 16 * 1024;
#[cfg(tickwheel_loom)]
const ZOMBIE_FLOOR: u64 = 2;

/// Whether `entries` in the wheel are more than the zombie bound allows for this many pending timers.
pub(crate) fn too_many(entries: u64, pending: impl FnOnce() -> u64) -> bool {
    entries > ZOMBIE_FLOOR && entries > pending().saturating_mul(2).saturating_add(ZOMBIE_FLOOR)
}

/// Which of these entries are dead, as a [mask](crate::wheel::DeadMask).
#[inline]
fn dead<S: TimerStore>(store: &S, entries: &[Entry]) -> u64 {
    entries.iter().for_each(|entry| store.prefetch(entry));
    let dead = |(place, entry): (usize, &Entry)| u64::from(!store.is_live(entry)) << place;
    entries.iter().enumerate().map(dead).fold(0, |mask, bit| mask | bit)
}

/// What [`Driver::next`] came to.
#[must_use]
pub(crate) enum Next<F> {
    /// A timer fired.
    Fired(F),
    /// Nothing more is due.
    Done,
    /// The budget is used up and more may be due.
    OutOfBudget,
}

/// See the module.
pub(crate) struct Driver {
    wheel: AnyWheel,
    /// Young entries that are not filed yet.
    staging: StagingBuffer,
    /// Due entries taken from the wheel; those before `due_next` are done.
    due: Vec<Entry>,
    due_next: usize,
    /// Entries filed during a turn that are due already: they wait for the next turn, so that a handler
    /// that schedules zero delays for ever cannot keep a turn going.
    deferred: Vec<Entry>,
    turning: bool,
    /// Zombies are being swept.
    sweeping: bool,
    /// Entries in the wheel at which the zombie bound is looked at again.
    look_at: u64,
    /// The latest tick that a turn has seen: a clock that goes back makes timers late, nothing else.
    latest: u64,
    /// Zombies removed by sweeps since the beginning.
    swept: u64,
    /// Zombies dropped because they came due, since the beginning.
    dropped: u64,
}

impl Driver {
    pub(crate) fn new(wheel: AnyWheel) -> Self {
        Self {
            wheel,
            staging: StagingBuffer::default(),
            due: Vec::with_capacity(BATCH),
            due_next: 0,
            deferred: Vec::new(),
            turning: false,
            sweeping: false,
            look_at: ZOMBIE_FLOOR,
            latest: 0,
            swept: 0,
            dropped: 0,
        }
    }

    /// Begins a turn; the tick that it is about.
    pub(crate) fn begin(&mut self, now: u64) -> u64 {
        for entry in self.deferred.drain(..) {
            self.wheel.insert(entry);
        }
        self.resume(now)
    }

    /// Goes on with a turn that ran out of budget: deferred entries wait for the next one.
    pub(crate) fn resume(&mut self, now: u64) -> u64 {
        self.latest = self.latest.max(now);
        self.staging.follow(self.latest);
        self.turning = true;
        self.latest
    }

    /// Ends a turn.
    pub(crate) fn finish(&mut self) {
        self.turning = false;
    }

    /// Files the entry of a timer that the owner schedules, perhaps from a handler. O(1).
    ///
    /// False if the staging buffer is full: then call [`evict_dead`](Self::evict_dead) and try again.
    #[inline(always)]
    #[must_use]
    pub(crate) fn file(&mut self, entry: Entry) -> bool {
        if self.staging.admits(entry.deadline) {
            return self.staging.push(entry);
        }
        self.file_soon(entry);
        true
    }

    /// Apart, so that the entry of the usual case stays in registers: see `AnyWheel::insert`.
    #[inline(never)]
    fn file_soon(&mut self, entry: Entry) {
        if self.turning && entry.deadline <= self.latest {
            self.deferred.push(entry);
        } else {
            self.wheel.insert(entry);
        }
    }

    /// As [`file`](Self::file), for a timer that may fire in this turn if it is due.
    #[inline]
    #[must_use]
    pub(crate) fn file_at_once(&mut self, entry: Entry) -> bool {
        if self.staging.admits(entry.deadline) {
            return self.staging.push(entry);
        }
        self.wheel.insert(entry);
        true
    }

    /// Files an entry that came through the inbox, which was its staging buffer, before this turn's handlers: it fires
    /// in this turn if due.
    #[inline]
    pub(crate) fn file_arrived(&mut self, entry: Entry) {
        self.wheel.insert(entry);
    }

    /// Makes room in the staging buffer.
    #[cold]
    #[inline(never)]
    pub(crate) fn evict_dead<S: TimerStore>(&mut self, store: &S) {
        let Self { staging, wheel, swept, .. } = self;
        *swept += staging.evict_dead(store, |entry| wheel.insert(entry)) as u64;
        staging.follow(self.latest);
    }

    /// Files all of the staging buffer, because something in it may be due.
    #[cold]
    #[inline(never)]
    fn leave_staging<S: TimerStore>(&mut self, store: &S) {
        let Self { staging, wheel, dropped, .. } = self;
        let filed = |entry| wheel.insert(entry);
        *dropped += staging.file_all(store, filed) as u64;
        staging.follow(self.latest);
    }

    /// The next timer that fires at `now` (as returned by `begin`), counting entries against `left`.
    #[inline]
    pub(crate) fn next<S: TimerStore>(
        &mut self,
        store: &mut S,
        now: u64,
        left: &mut usize,
    ) -> Next<S::Fired> {
        loop {
            while let Some(&entry) = self.due.get(self.due_next) {
                if *left == 0 {
                    return Next::OutOfBudget;
                }
                *left -= 1;
                self.due_next += 1;
                match store.decide(entry, now) {
                    Fate::Fire(fired) => return Next::Fired(fired),
                    Fate::Refile(deadline) => {
                        let entry = Entry { deadline, ..entry };
                        while !self.file_at_once(entry) {
                            self.evict_dead(store);
                        }
                    }
                    Fate::Drop => self.dropped += 1,
                }
            }
            if !self.refill(store, now, left) {
                let more = self.first().is_some_and(|next| next <= now);
                return if more { Next::OutOfBudget } else { Next::Done };
            }
        }
    }

    /// Takes the next due entries from the wheel; false if there are none, or the budget is used up.
    fn refill<S: TimerStore>(&mut self, store: &S, now: u64, left: &mut usize) -> bool {
        self.due.clear();
        self.due_next = 0;
        while *left > 0 {
            if self.staging.earliest() <= now {
                // At least one stays, so that the smallest budget makes headway whatever is filed.
                *left = left.saturating_sub(self.staging.len() / FILED_PER_SETTLED).max(1);
                self.leave_staging(store);
            }
            let advance = self.wheel.advance(now, BATCH.min(*left), &mut self.due);
            if !self.due.is_empty() {
                self.due.iter().for_each(|entry| store.prefetch(entry));
                return true;
            }
            if !advance.more {
                return false;
            }
            // A cascade is under way: it counts against the budget like the entries it moves.
            *left = left.saturating_sub(BATCH);
        }
        false
    }

    /// Sweeps a piece if there are too many zombies; whether the sweep goes on.
    ///
    /// The number of pending timers is asked only when the wheel has grown since the last look, or when
    /// `turn_requested`, because somebody has seen many cancels.
    pub(crate) fn keep_bounded<S: TimerStore>(
        &mut self,
        store: &S,
        turn_requested: bool,
        budget: usize,
    ) -> bool {
        let entries = self.filed();
        if !self.sweeping {
            if !turn_requested && entries < self.look_at {
                return false;
            }
            if !too_many(entries, || store.pending()) {
                // Look again when a quarter more has gathered; cancels alone call the owner themselves.
                self.look_at = entries + entries / 4 + ZOMBIE_FLOOR;
                return false;
            }
            self.sweeping = true;
            // The sweep goes round the wheel; the staging buffer is small enough to be gone through at once.
            self.evict_dead(store);
        }
        let sweep = self.wheel.sweep_batches(budget, &mut |entries| dead(store, entries));
        self.swept += sweep.removed as u64;
        if sweep.cycle_done {
            // Cancels behind the sweep's back may have been the last ones: nobody else will look again.
            self.sweeping = too_many(self.filed(), || store.pending());
            self.look_at = self.filed() + ZOMBIE_FLOOR;
        }
        self.sweeping
    }

    /// The earliest tick at which there is something to do: exact, or earlier while zombies lie there.
    /// O(1).
    #[inline]
    pub(crate) fn next_tick(&self) -> Option<u64> {
        let waiting = self.due_next < self.due.len() || !self.deferred.is_empty();
        if waiting { Some(0) } else { self.first() }
    }

    /// The earliest deadline in staging buffer and wheel: exact, or earlier while zombies lie there.
    #[inline]
    fn first(&self) -> Option<u64> {
        let first = self.wheel.next_deadline();
        if self.staging.len() == 0 {
            return first;
        }
        let young = self.staging.earliest();
        Some(first.map_or(young, |first| first.min(young)))
    }

    /// Entries in staging buffer and wheel.
    #[inline]
    fn filed(&self) -> u64 {
        (self.wheel.len() + self.staging.len()) as u64
    }

    /// The earliest deadline of all entries, those that wait for the next turn included. O(1), unless a
    /// turn was cut short or its handlers filed overdue timers: then it looks through these.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let waiting = self.due[self.due_next..].iter().chain(&self.deferred);
        waiting.map(|entry| entry.deadline).chain(self.first()).min()
    }

    /// Whether a turn is under way.
    #[inline]
    pub(crate) fn is_turning(&self) -> bool {
        self.turning
    }

    /// Forgets every entry.
    pub(crate) fn clear(&mut self) {
        self.wheel.drain_all(&mut |_| ());
        self.staging.clear();
        self.due.clear();
        self.due_next = 0;
        self.deferred.clear();
        self.sweeping = false;
    }

    /// Entries filed, zombies included.
    #[inline]
    pub(crate) fn entries(&self) -> u64 {
        self.filed() + (self.due.len() - self.due_next + self.deferred.len()) as u64
    }

    /// Zombies removed by sweeps, and zombies dropped when they came due.
    pub(crate) fn zombies_removed(&self) -> (u64, u64) {
        (self.swept, self.dropped)
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.wheel.held_bytes() + self.staging.held_bytes()
    }
}
