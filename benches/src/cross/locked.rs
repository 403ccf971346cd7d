//! What one writes by hand: a store behind a mutex, and a thread that waits on a condition variable.

use super::indexed_heap::{IndexedHeap, IndexedKey};
use super::peer::{CrossPeer, Session, Setup};
use crate::book::Book;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tickwheel::{Key, LocalTimer, Time};

/// Timers that one thread at a time uses; times are nanoseconds.
pub(super) trait Store: Send + 'static {
    type Handle: Copy + Send + 'static;
    fn new(tick: Duration) -> Self;
    fn insert(&mut self, deadline: u64, payload: u64) -> Self::Handle;
    fn remove(&mut self, handle: Self::Handle);
    /// When to look again at the latest.
    fn next(&self) -> Option<u64>;
    /// Takes out what is due, a batch at most, so that the lock is not held for long.
    fn take_due(&mut self, now: u64, due: &mut Vec<u64>);
}

/// Timers fired per holding of the lock.
const BATCH: usize = 1024;

/// Ordered by deadline, and a number that tells timers of one deadline apart.
#[derive(Default)]
pub(super) struct Tree {
    timers: BTreeMap<(u64, u64), u64>,
    next: u64,
}

impl Store for Tree {
    type Handle = (u64, u64);

    fn new(_tick: Duration) -> Self {
        Self::default()
    }

    fn insert(&mut self, deadline: u64, payload: u64) -> (u64, u64) {
        self.next += 1;
        self.timers.insert((deadline, self.next), payload);
        (deadline, self.next)
    }

    fn remove(&mut self, at: (u64, u64)) {
        self.timers.remove(&at).expect("the timer is pending");
    }

    fn next(&self) -> Option<u64> {
        self.timers.first_key_value().map(|(at, _)| at.0)
    }

    fn take_due(&mut self, now: u64, due: &mut Vec<u64>) {
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
            if due.len() == BATCH {
                return;
            }
        }
    }
}

impl Store for IndexedHeap {
    type Handle = IndexedKey;

    fn new(_tick: Duration) -> Self {
        Self::default()
    }

    fn insert(&mut self, deadline: u64, payload: u64) -> IndexedKey {
        Self::insert(self, deadline, payload)
    }

    fn remove(&mut self, key: IndexedKey) {
        Self::remove(self, key);
    }

    fn next(&self) -> Option<u64> {
        Self::next(self)
    }

    fn take_due(&mut self, now: u64, due: &mut Vec<u64>) {
        while due.len() < BATCH {
            let Some(payload) = self.pop_due(now) else { return };
            due.push(payload);
        }
    }
}

impl Store for LocalTimer<u64> {
    type Handle = Key<u64>;

    fn new(tick: Duration) -> Self {
        Self::new(tick).expect("the tick is in range")
    }

    fn insert(&mut self, deadline: u64, payload: u64) -> Key<u64> {
        self.schedule(Time::ZERO, Time::from_nanos(deadline), payload).expect("there is no limit")
    }

    fn remove(&mut self, key: Key<u64>) {
        assert!(self.cancel(key).won());
    }

    fn next(&self) -> Option<u64> {
        self.next_deadline().map(Time::as_nanos)
    }

    fn take_due(&mut self, now: u64, due: &mut Vec<u64>) {
        // What is left over is due at once, so the thread comes back for it.
        self.poll(Time::from_nanos(now), |expired| due.push(expired.payload));
    }
}

struct State<S> {
    store: S,
    /// Until when the thread waits.
    awaited: u64,
}

/// One store with its lock.
struct Shard<S> {
    state: Mutex<State<S>>,
    earlier: Condvar,
    origin: Instant,
}

impl<S: Store> Shard<S> {
    fn start(setup: &Setup) -> Arc<Self> {
        let state = State { store: S::new(setup.tick), awaited: 0 };
        let origin = Instant::now();
        let shard = Arc::new(Self { state: Mutex::new(state), earlier: Condvar::new(), origin });
        let (served, book) = (Arc::clone(&shard), Arc::clone(&setup.book));
        std::thread::spawn(move || served.serve(&book));
        shard
    }

    fn now(&self) -> u64 {
        // 584 years fit.
        self.origin.elapsed().as_nanos() as u64
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on until the process ends.
    fn serve(&self, book: &Book) {
        let mut due = Vec::with_capacity(BATCH);
        loop {
            let mut state = self.lock();
            let now = self.now();
            state.store.take_due(now, &mut due);
            if due.is_empty() {
                let next = state.store.next().unwrap_or(u64::MAX);
                state.awaited = next;
                // A day stands for ever.
                let sleep = Duration::from_nanos(next.saturating_sub(now).min(86_400_000_000_000));
                drop(self.earlier.wait_timeout(state, sleep));
            } else {
                state.awaited = 0;
                drop(state);
                due.drain(..).for_each(|payload| book.fired(payload));
            }
        }
    }

    fn insert(&self, delay: Duration, payload: u64) -> S::Handle {
        let deadline = self.now() + delay.as_nanos() as u64;
        let mut state = self.lock();
        let handle = state.store.insert(deadline, payload);
        let is_earlier = deadline < state.awaited;
        if is_earlier {
            state.awaited = deadline;
        }
        drop(state);
        if is_earlier {
            self.earlier.notify_one();
        }
        handle
    }
}

/// A number of shards; `ONE` forces a single one.
pub(super) struct Locked<S, const ONE: bool>(Vec<Arc<Shard<S>>>);

/// One tree.
pub(super) type LockedTree = Locked<Tree, true>;
/// One indexed 4-ary heap per core: what server teams write today.
pub(super) type LockedHeaps = Locked<IndexedHeap, false>;
/// One of this project's own wheels.
pub(super) type LockedWheel = Locked<LocalTimer<u64>, true>;

impl<S: Store, const ONE: bool> CrossPeer for Locked<S, ONE> {
    type Session = LockedSession<S>;

    fn start(setup: Setup) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let shards = if ONE { 1 } else { setup.shards.unwrap_or_else(cores) };
        Self((0..shards).map(|_| Shard::start(&setup)).collect())
    }

    fn session(&self, thread: usize) -> LockedSession<S> {
        let home = thread % self.0.len();
        LockedSession { shards: self.0.clone(), home }
    }
}

/// A thread's home shard, and the others for cancelling.
pub(super) struct LockedSession<S> {
    shards: Vec<Arc<Shard<S>>>,
    home: usize,
}

impl<S: Store> Session for LockedSession<S> {
    type Handle = (usize, S::Handle);

    fn schedule(&mut self, delay: Duration, payload: u64) -> Self::Handle {
        (self.home, self.shards[self.home].insert(delay, payload))
    }

    fn cancel(&mut self, (shard, handle): Self::Handle) {
        self.shards[shard].lock().store.remove(handle);
    }
}
