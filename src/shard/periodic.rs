//! Periodic timers of a shard: each period is a timer of its own, armed when the one before has been handled.
//!
//! The node table and its state word know one bit of this (`PERIODIC`): a node so marked is looked up here when it
//! fires. What repeats (payload, period, nominal time) lies in a map behind a lock that only periodic timers
//! take: to begin, once per period, and to cancel. One-shot timers never touch it.
//!
//! | who | does what |
//! |---|---|
//! | any thread | `begin` + arm + `armed`: a new periodic timer; `cancel`: no further period |
//! | owner | `fired`: a node of ours has fired, or its timer was cancelled in between; `next`: what to arm now |
//!
//! The period's place under `max_pending` is taken once, and freed when the timer is cancelled or returned.

use crate::contain;
use crate::time::{Period, TickRate, Time};
use crate::types::Key;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names a periodic timer of one engine or event loop, over all its periods. Plain data; stale after the
/// timer was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeriodicKey {
    pub(crate) id: u64,
    pub(crate) shard: u16,
}

impl PeriodicKey {
    /// The shard that owns the timer, counted from 0.
    #[must_use]
    pub const fn shard(self) -> usize {
        self.shard as usize
    }
}

impl fmt::Debug for PeriodicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeriodicKey({}:{})", self.shard, self.id)
    }
}

/// Makes the next period's payload from the one that is kept.
pub(crate) type Again<T> = fn(&T) -> T;

/// What repeats.
pub(crate) struct Plan<T> {
    pub(crate) payload: T,
    pub(crate) again: Again<T>,
    pub(crate) period: Period,
    /// When the current period ends, before rounding to ticks, so that nothing drifts.
    pub(crate) nominal: Time,
    pub(crate) rate: TickRate,
}

impl<T> Plan<T> {
    /// A payload for one period; `None` if the payload's `Clone` panics.
    fn copy(&self) -> Option<T> {
        contain::call(|| (self.again)(&self.payload)).ok()
    }

    /// The tick of the current period's end.
    fn tick(&self) -> u64 {
        self.rate.deadline_at(Time::ZERO, self.nominal)
    }
}

struct Entry<T> {
    plan: Plan<T>,
    /// The node of the period that runs; `None` while it is being armed or handled.
    node: Option<Key>,
}

struct Book<T> {
    entries: HashMap<u64, Entry<T>>,
    /// The periodic timer behind an armed node.
    by_node: HashMap<u32, u64>,
    next_id: u64,
}

/// See the module.
pub(crate) struct Periodics<T>(Mutex<Book<T>>);

/// What a cancellation found.
pub(crate) struct Cancelled<T> {
    pub(crate) payload: T,
    /// The armed period, which is to be ended as well.
    pub(crate) node: Option<Key>,
}

/// What to arm next.
pub(crate) struct NextPeriod<T> {
    pub(crate) tick: u64,
    pub(crate) payload: T,
}

/// What comes after a period.
pub(crate) enum Step<T> {
    Arm(NextPeriod<T>),
    /// The timer was cancelled.
    Cancelled,
    /// The payload could not be copied; the timer has ended.
    Failed,
}

impl<T> Periodics<T> {
    pub(crate) fn new() -> Self {
        let book = Book { entries: HashMap::new(), by_node: HashMap::new(), next_id: 1 };
        Self(Mutex::new(book))
    }

    fn book(&self) -> MutexGuard<'_, Book<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a new periodic timer; its number, and what to arm for the first period.
    ///
    /// # Errors
    ///
    /// The plan, if the payload's `Clone` panics.
    pub(crate) fn begin(&self, plan: Plan<T>) -> Result<(u64, NextPeriod<T>), Plan<T>> {
        let Some(payload) = plan.copy() else { return Err(plan) };
        let first = NextPeriod { tick: plan.tick(), payload };
        let mut book = self.book();
        let id = book.next_id;
        book.next_id += 1;
        book.entries.insert(id, Entry { plan, node: None });
        Ok((id, first))
    }

    /// The armer is about to publish `node` as the next period; false if the timer was cancelled meanwhile.
    ///
    /// Called before the node can fire.
    pub(crate) fn armed(&self, id: u64, node: Key) -> bool {
        let mut book = self.book();
        let Some(entry) = book.entries.get_mut(&id) else { return false };
        entry.node = Some(node);
        book.by_node.insert(node.index(), id);
        true
    }

    /// Takes a timer back whose first period could not be armed.
    pub(crate) fn forget(&self, id: u64) -> Option<T> {
        self.cancel(id).map(|cancelled| cancelled.payload)
    }

    /// Owner: `node` has fired at `deadline`. The number of its periodic timer, or `None` if that was
    /// cancelled in between: then the cancellation has won and the handler must not run.
    pub(crate) fn fired(&self, node: Key, deadline: u64) -> Option<u64> {
        let mut book = self.book();
        let id = book.by_node.remove(&node.index())?;
        let entry = book.entries.get_mut(&id)?;
        entry.node = None;
        if entry.plan.tick() != deadline {
            // Somebody moved this period's deadline: the next one counts from there.
            entry.plan.nominal = entry.plan.rate.start_of(deadline);
        }
        Some(id)
    }

    /// Owner: the handler has returned at `now`: what to do next.
    pub(crate) fn next(&self, id: u64, now: Time) -> Step<T> {
        let mut book = self.book();
        let Some(entry) = book.entries.get_mut(&id) else { return Step::Cancelled };
        entry.plan.nominal = entry.plan.period.next(entry.plan.nominal, now);
        match entry.plan.copy() {
            Some(payload) => Step::Arm(NextPeriod { tick: entry.plan.tick(), payload }),
            None => {
                let ended = book.entries.remove(&id);
                drop(book);
                contain::drop_quietly("a periodic timer's payload", ended);
                contain::error(format_args!(
                    "the Clone of a periodic timer's payload panicked; the timer ends"
                ));
                Step::Failed
            }
        }
    }

    /// No further period. `None` if the timer has ended before.
    ///
    /// The armed period goes on pointing to the timer that is gone, until the canceller has ended it and calls
    /// `unlink`: so the owner, if it is faster, knows that a cancel has won.
    pub(crate) fn cancel(&self, id: u64) -> Option<Cancelled<T>> {
        let entry = self.book().entries.remove(&id)?;
        Some(Cancelled { payload: entry.plan.payload, node: entry.node })
    }

    /// The armed period of timer `id` has been ended by its canceller, or by a producer who was refused.
    pub(crate) fn unlink(&self, node: Key, id: u64) {
        let mut book = self.book();
        // The node may be in use for another timer by now.
        if book.by_node.get(&node.index()) == Some(&id) {
            book.by_node.remove(&node.index());
        }
    }

    /// Owner, for `stop`: `node` has been returned; false if a cancel has won its periodic timer before.
    ///
    /// A node that is not entered was armed a moment ago by a producer who is about to be refused: that one
    /// finds its period returned, and forgets the timer.
    pub(crate) fn returned(&self, node: Key) -> bool {
        let mut book = self.book();
        let Some(id) = book.by_node.remove(&node.index()) else { return true };
        let entry = book.entries.remove(&id);
        drop(book);
        let active = entry.is_some();
        // Dropped outside the lock: payloads are the user's.
        contain::drop_quietly("a periodic timer's payload", entry);
        active
    }

    pub(crate) fn is_active(&self, id: u64) -> bool {
        self.book().entries.contains_key(&id)
    }

    /// Forgets all timers, for `stop`, which has returned the period of each.
    pub(crate) fn clear(&self) {
        let mut book = self.book();
        book.by_node.clear();
        let entries = std::mem::take(&mut book.entries);
        drop(book);
        // Dropped outside the lock: payloads are the user's.
        contain::drop_each("a periodic timer's payload", entries.into_values());
    }
}
