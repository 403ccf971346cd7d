//! What the owner of a shard does: `turn`.
//!
//! The worker, the user's event loop, the model checker, the fuzzers and the benches all drive a shard
//! through [`Owner::turn`]; there is no second way.

use super::Expiry;
use super::lane::Lane;
use super::limit::Limit;
use super::remote::{Remote, WakeOwner, ZOMBIE_FLOOR};
use crate::inbox::{Inbox, Reader};
use crate::key::Key;
use crate::node::table::Fate;
use crate::wheel::{AnyWheel, Entry, Wheel};
use std::sync::Arc;

/// Entries asked of the wheel at a time: enough to amortise the call, few enough to stay in cache.
const BATCH: usize = 256;

/// How much one turn may do. What is left over is done by the next turn, at once.
///
/// The parts of a turn come in this order, so timers that are due go before housekeeping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Messages taken from the inbox (default 100 000, as Netty's wheel does per tick).
    pub drain: usize,
    /// Entries looked at because they are due (default 4096).
    pub fire: usize,
    /// Entries looked at in search of zombies (default 4096).
    pub sweep: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            drain: 100_000,
            fire: 4096,
            sweep: 4096,
        }
    }
}

/// What a turn came to.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    /// Timers fired.
    pub(crate) fired: usize,
    /// Work is left that can be done now: turn again without sleeping.
    pub(crate) more: bool,
    /// The earliest tick at which there will be something to do; `u64::MAX` if never.
    pub(crate) next: u64,
}

/// See the module.
pub(crate) struct Owner<T> {
    remote: Arc<Remote<T>>,
    reader: Reader,
    wheel: AnyWheel,
    /// The owner's own lane; its counters stay zero.
    lane: Lane,
    /// Due entries taken from the wheel; those before `due_next` are done.
    due: Vec<Entry>,
    due_next: usize,
    /// A drain ran out of budget.
    draining: bool,
    /// Zombies are being swept.
    sweeping: bool,
    /// Entries in the wheel at which the zombie bound is looked at again.
    look_at: u64,
    /// The latest tick that a turn has seen: a clock that goes back makes timers late, nothing else.
    latest: u64,
    id: u16,
}

impl<T> Owner<T> {
    /// A shard: the owner's half, which leads to the other one.
    pub(crate) fn new(
        id: u16,
        wheel: AnyWheel,
        limit: Option<Arc<Limit>>,
        waker: Box<dyn WakeOwner>,
    ) -> Self {
        let (inbox, reader) = Inbox::new();
        Self {
            remote: Arc::new(Remote::new(id, inbox, limit, waker)),
            reader,
            wheel,
            lane: Lane::default(),
            due: Vec::with_capacity(BATCH),
            due_next: 0,
            draining: false,
            sweeping: false,
            look_at: ZOMBIE_FLOOR,
            latest: 0,
            id,
        }
    }

    pub(crate) fn remote(&self) -> &Arc<Remote<T>> {
        &self.remote
    }

    /// One step: drain the inbox if something in it may be due, fire what is due, sweep zombies if there
    /// are too many, all within `budget`.
    ///
    /// If `fire` panics, the timer it was called for counts as fired, and the shard stays as it should be:
    /// the next turn goes on with the next timer.
    pub(crate) fn turn(
        &mut self,
        now: u64,
        budget: &Budget,
        mut fire: impl FnMut(Expiry<T>),
    ) -> Turn {
        let now = now.max(self.latest);
        self.latest = now;
        self.remote.counters.turns.bump();
        let summoned = self.drain(now, budget.drain);
        let (fired, unfinished) = self.fire(now, budget.fire, &mut fire);
        let sweeping = self.keep_bounded(summoned, budget.sweep);
        self.report();
        let more = self.draining || unfinished || sweeping;
        Turn {
            fired,
            more,
            next: if more { now } else { self.next_tick() },
        }
    }

    /// The earliest tick at which there is something to do.
    pub(crate) fn next_tick(&self) -> u64 {
        if self.draining || self.due_next < self.due.len() {
            return 0;
        }
        self.wheel
            .next_deadline()
            .unwrap_or(u64::MAX)
            .min(self.remote.signal.inbox_due())
    }

    /// Announces a sleep until `tick`; false if something came up meanwhile: turn again instead.
    pub(crate) fn fall_asleep(&self, tick: u64) -> bool {
        let asleep = self.remote.signal.fall_asleep(tick);
        if asleep {
            self.remote.counters.parks.bump();
        }
        asleep
    }

    /// The sleep is over.
    pub(crate) fn rise(&self) {
        if self.remote.signal.rise() {
            self.remote.counters.wakes.bump();
        }
    }

    /// Whether the inbox asks for a turn at `now`; cheap, for owners that spin.
    pub(crate) fn is_called(&self, now: u64) -> bool {
        self.remote.signal.inbox_due() <= now
    }

    /// Empties the inbox into the wheel if something in it may be due; whether somebody summoned the owner.
    fn drain(&mut self, now: u64, limit: usize) -> bool {
        let inbox_due = self.remote.signal.inbox_due();
        if !self.draining {
            if inbox_due > now {
                return false;
            }
            self.remote.signal.begin_drain();
        }
        let Self {
            remote,
            reader,
            wheel,
            ..
        } = self;
        let mut dead = 0;
        let drained = reader.drain(&remote.inbox, limit, |message| {
            let (index, mark) = (message.word as u32, (message.word >> 32) as u32);
            if remote.table.is_live(index, mark) {
                wheel.insert(Entry {
                    deadline: message.tick,
                    index,
                    mark,
                });
            } else {
                dead += 1;
            }
        });
        remote.counters.died_young.add(dead);
        self.draining = drained.more;
        inbox_due == 0
    }

    /// Fires what is due; how many, and whether the budget ended it.
    fn fire(&mut self, now: u64, budget: usize, fire: &mut impl FnMut(Expiry<T>)) -> (usize, bool) {
        let mut fired = 0;
        let mut left = budget;
        loop {
            while let Some(&entry) = self.due.get(self.due_next) {
                if left == 0 {
                    return (fired, true);
                }
                left -= 1;
                self.due_next += 1;
                fired += usize::from(self.settle(entry, now, fire));
            }
            self.due.clear();
            self.due_next = 0;
            let advance = self
                .wheel
                .advance(now, BATCH.min(left.max(1)), &mut self.due);
            if self.due.is_empty() {
                if !advance.more {
                    return (fired, false);
                }
                // A cascade is under way: it counts against the budget like the entries it moves.
                if left == 0 {
                    return (fired, true);
                }
                left = left.saturating_sub(BATCH);
            }
        }
    }

    /// Decides about one due entry; whether its timer fired.
    #[inline]
    fn settle(&mut self, entry: Entry, now: u64, fire: &mut impl FnMut(Expiry<T>)) -> bool {
        let Self {
            remote,
            wheel,
            lane,
            ..
        } = self;
        match remote.table.due(&lane.rack, entry.index, entry.mark, now) {
            Fate::Fire(fired) => {
                // The place is free before the handler runs, so that it can schedule at the limit.
                remote.counters.fired.bump();
                remote.free_place();
                let key = Key::new(self.id, entry.index, fired.generation);
                fire(Expiry {
                    payload: fired.payload,
                    key,
                    deadline: fired.deadline,
                });
                true
            }
            Fate::Refile(deadline) => {
                wheel.insert(Entry { deadline, ..entry });
                false
            }
            Fate::Drop => {
                remote.counters.dropped.bump();
                false
            }
        }
    }

    /// Sweeps a piece if there are too many zombies; whether the sweep goes on.
    fn keep_bounded(&mut self, summoned: bool, budget: usize) -> bool {
        let Self { remote, wheel, .. } = self;
        let entries = wheel.len() as u64;
        if !self.sweeping {
            if !summoned && entries < self.look_at {
                return false;
            }
            if !remote.has_too_many(entries) {
                // Look again when a quarter more has gathered; cancels alone call the owner themselves.
                self.look_at = entries + entries / 4 + ZOMBIE_FLOOR;
                return false;
            }
            self.sweeping = true;
        }
        let sweep = wheel.sweep(budget, &mut |entry| {
            !remote.table.is_live(entry.index, entry.mark)
        });
        remote.counters.swept.add(sweep.removed as u64);
        if sweep.cycle_done {
            self.sweeping = false;
            self.look_at = wheel.len() as u64 + ZOMBIE_FLOOR;
        }
        self.sweeping
    }

    /// Ends the shard: refuses every further timer and returns all that have not ended.
    ///
    /// A timer is accepted if its push came before the close; then it is pending in the table, where this
    /// finds it, whether or not its message has been read or even written.
    pub(crate) fn close(&mut self, mut take: impl FnMut(Expiry<T>)) {
        let Self {
            remote,
            reader,
            lane,
            ..
        } = self;
        remote.inbox.close(reader);
        remote
            .table
            .return_all(&lane.rack, |index, generation, deadline, payload| {
                remote.counters.returned.bump();
                remote.free_place();
                take(Expiry {
                    payload,
                    key: Key::new(self.id, index, generation),
                    deadline,
                });
            });
        self.wheel.drain_all(&mut |_| ());
        self.due.clear();
        self.due_next = 0;
        self.draining = false;
        remote.counters.entries.set(0);
    }

    /// Publishes what the shard holds.
    fn report(&self) {
        let entries = self.wheel.len() as u64;
        let counters = &self.remote.counters;
        if counters.entries.get() != entries {
            counters.entries.set(entries);
            counters
                .bytes
                .set((self.wheel.held_bytes() + self.remote.allocated_bytes()) as u64);
        }
    }
}
