//! Where an engine's shards are, one state for each, and what they have left.
//!
//! A shard goes from hand to hand, and ends on any thread and for any reason. Who has it is said by its place here,
//! whether a worker's thread exists for it, and whether a `DrivenShard` does (`seat`):
//!
//! | place | worker | driven | who has the shard |
//! |---|---|---|---|
//! | idle | no | no | nobody: without workers, before the start, or because there was no thread for it |
//! | idle | no | yes | a `DrivenShard`, between two turns |
//! | idle | yes | yes | the same, and its worker waits until it is released |
//! | idle | yes | no | nobody: it was released, and its worker is about to take it |
//! | away | no | no | a caller turns it by hand, or ends it |
//! | away | no | yes | a `DrivenShard` turns it |
//! | away | yes | no | its worker |
//! | away | yes | yes | its worker, until it sees the claim; then a `DrivenShard`, in its turns |
//! | ended, gone | | | nobody turns it again |

use crate::contain;
use crate::sync::lock::{Condvar, Mutex, MutexGuard};
use crate::sync::process::{AtomicBool, AtomicUsize, Ordering};
use std::sync::PoisonError;

/// Engines alive in this process; many of them are usually a mistake.
static ALIVE: AtomicUsize = AtomicUsize::new(0);
/// One warning per process is enough. Not a lock: the logger may build an engine.
static WARNED: AtomicBool = AtomicBool::new(false);
/// As in the reference timers.
const MANY_ENGINES: usize = 64;

/// The berths of all shards, under one lock that is never held while user code runs.
pub(crate) struct Berths<S, U> {
    state: Mutex<State<S, U>>,
    /// Told whenever a shard comes back, answers or ends.
    changed: Condvar,
}

pub(super) struct State<S, U> {
    pub(super) berths: Vec<Berth<S>>,
    /// Timers that ended shards have left and no caller has received yet.
    pub(super) unfired: Vec<U>,
    /// The last `Timer` is gone, so no caller will ask for them.
    pub(super) orphaned: bool,
}

/// Where one shard is.
pub(super) struct Berth<S> {
    place: Place<S>,
    /// A worker's thread exists for it, at work or waiting for a `DrivenShard` to end.
    pub(super) has_worker: bool,
    /// How many calls of `wait_idle` it has answered.
    answered: u64,
}

enum Place<S> {
    /// Nobody turns it now.
    Idle(S),
    /// A thread turns it.
    Away,
    /// It has failed or has been closed: it refuses timers, fires none, and nobody turns it again. Whoever ends it may
    /// be at that yet.
    Ended,
    /// And that thread keeps nothing of the engine any more.
    Gone,
}

impl<S> Berth<S> {
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.place, Place::Idle(_))
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.place, Place::Ended | Place::Gone)
    }

    /// Takes the shard, if it lies idle.
    pub(super) fn take(&mut self) -> Option<S> {
        match std::mem::replace(&mut self.place, Place::Away) {
            Place::Idle(shard) => Some(shard),
            other => {
                self.place = other;
                None
            }
        }
    }

    /// Puts the shard back.
    pub(super) fn put(&mut self, shard: S) {
        debug_assert!(matches!(self.place, Place::Away), "it was taken");
        self.place = Place::Idle(shard);
    }

    /// Notes that the shard, which the caller has, has failed or ended.
    pub(super) fn end(&mut self) {
        debug_assert!(!self.is_idle(), "it was taken");
        self.place = Place::Ended;
    }
}

impl<S, U> State<S, U> {
    /// Returns the number of shards that are not gone.
    pub(super) fn alive(&self) -> usize {
        let is_gone = |it: &&Berth<S>| matches!(it.place, Place::Gone);
        self.berths.len() - self.berths.iter().filter(is_gone).count()
    }

    /// Returns whether each shard has handled what was due for the first `requests` calls of `wait_idle`, or has ended.
    pub(super) fn has_answered(&self, requests: u64) -> bool {
        let answers = |it: &Berth<S>| it.has_ended() || it.answered >= requests;
        self.berths.iter().all(answers)
    }
}

impl<S, U> Berths<S, U> {
    pub(crate) fn new(shards: Vec<S>) -> Self {
        // ORDERING: Relaxed: a number for a warning.
        let many = ALIVE.fetch_add(1, Ordering::Relaxed) + 1;
        // ORDERING: Relaxed: one thread finds it unset, and tells nothing by it.
        if many > MANY_ENGINES && !WARNED.swap(true, Ordering::Relaxed) {
            contain::warn(format_args!(
                "{many} timer engines are alive in this process; one is enough for a whole program, and for each \
                 runtime that turns its own: share it by cloning the Timer"
            ));
        }
        let berth = |shard| Berth {
            place: Place::Idle(shard),
            has_worker: false,
            answered: 0,
        };
        let state = State {
            berths: shards.into_iter().map(berth).collect(),
            unfired: Vec::new(),
            orphaned: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<S, U>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a change those who wait for one.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change.
    pub(super) fn wait<'a>(
        &self,
        state: MutexGuard<'a, State<S, U>>,
    ) -> MutexGuard<'a, State<S, U>> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, for `limit` at most.
    pub(super) fn wait_for<'a>(
        &self,
        state: MutexGuard<'a, State<S, U>>,
        limit: std::time::Duration,
    ) -> MutexGuard<'a, State<S, U>> {
        let waited = self.changed.wait_timeout(state, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Notes that a shard has handled what was due for the first `requests` calls of `wait_idle`.
    pub(super) fn answer(&self, shard: usize, requests: u64) {
        self.lock().berths[shard].answered = requests;
        self.notify();
    }

    /// Notes that a shard has failed, before it is closed.
    pub(super) fn fail(&self, shard: usize) {
        self.lock().berths[shard].end();
        self.notify();
    }

    /// Notes that the thread that has ended a shard keeps nothing of the engine any more.
    pub(super) fn let_go(&self, shard: usize) {
        self.lock().berths[shard].place = Place::Gone;
        self.notify();
    }
}

impl<S, U> Drop for Berths<S, U> {
    fn drop(&mut self) {
        // ORDERING: Relaxed: as above.
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}
