//! Timers as one writes them by hand: a store behind a mutex, and a thread that waits on a condition variable.

use super::{CrossPeer, Setup};
use crate::book::Book;
use crate::slots::{SlotKey, Slots};
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tickwheel::{Key, LocalTimer, Time};

/// Timers that one thread at a time uses; times are nanoseconds.
pub(super) trait Store: Send + 'static {
    type Handle: Copy + Send + 'static;
    fn new(tick: Duration) -> Self;
    fn insert(&mut self, deadline: u64, payload: u64) -> Self::Handle;
    /// Takes a pending timer out.
    fn remove(&mut self, handle: Self::Handle);
    /// Returns the time at which to look again at the latest.
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
        let is_due = |first: &OccupiedEntry<'_, (u64, u64), u64>| first.key().0 <= now;
        while due.len() < BATCH
            && let Some(first) = self.timers.first_entry().filter(is_due)
        {
            due.push(first.remove());
        }
    }
}

impl Store for LocalTimer<u64> {
    type Handle = Key<u64>;

    fn new(tick: Duration) -> Self {
        Self::new(tick).expect("the tick is in range")
    }

    fn insert(&mut self, deadline: u64, payload: u64) -> Key<u64> {
        self.schedule(Time::ZERO, Time::from_nanos(deadline), payload)
            .expect("there is no limit")
    }

    fn remove(&mut self, key: Key<u64>) {
        assert!(self.cancel(key).is_won());
    }

    fn next(&self) -> Option<u64> {
        self.next_deadline().map(Time::as_nanos)
    }

    fn take_due(&mut self, now: u64, due: &mut Vec<u64>) {
        // What is left over is due at once, so the thread comes back for it.
        self.poll(Time::from_nanos(now), |expired| due.push(expired.payload));
    }
}

/// Children of a heap's node: four lie in one cache line.
const ARITY: usize = 4;

/// Timers in an implicit 4-ary heap of (deadline, slot); each slot knows its position in the heap, so that a cancel
/// takes the timer out at once.
#[derive(Default)]
pub(super) struct IndexedHeap {
    heap: Vec<(u64, u32)>,
    slots: Slots<u32>,
}

impl IndexedHeap {
    fn remove_at(&mut self, at: usize) -> u32 {
        let (_, slot) = self.heap.swap_remove(at);
        if at < self.heap.len() {
            let moved = self.heap[at].1;
            self.sift_down(at);
            let at = *self.slots.extra(moved);
            self.sift_up(at as usize);
        }
        slot
    }

    #[inline]
    fn place(&mut self, at: usize, entry: (u64, u32)) {
        self.heap[at] = entry;
        // Fewer than 2^32 timers.
        *self.slots.extra(entry.1) = at as u32;
    }

    fn sift_up(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].0 <= entry.0 {
                break;
            }
            self.place(at, self.heap[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let first = at * ARITY + 1;
            let last = (first + ARITY).min(self.heap.len());
            let least = (first..last).min_by_key(|child| self.heap[*child].0);
            let Some(child) = least.filter(|child| self.heap[*child].0 < entry.0) else {
                break;
            };
            self.place(at, self.heap[child]);
            at = child;
        }
        self.place(at, entry);
    }
}

impl Store for IndexedHeap {
    type Handle = SlotKey;

    fn new(_tick: Duration) -> Self {
        Self::default()
    }

    #[inline]
    fn insert(&mut self, deadline: u64, payload: u64) -> SlotKey {
        let key = self.slots.insert(payload, 0);
        self.heap.push((deadline, key.0));
        self.sift_up(self.heap.len() - 1);
        key
    }

    #[inline]
    fn remove(&mut self, key: SlotKey) {
        let at = *self.slots.extra(key.0);
        self.slots.remove(key);
        self.remove_at(at as usize);
    }

    fn next(&self) -> Option<u64> {
        self.heap.first().map(|first| first.0)
    }

    fn take_due(&mut self, now: u64, due: &mut Vec<u64>) {
        while due.len() < BATCH && self.next().is_some_and(|next| next <= now) {
            let slot = self.remove_at(0);
            due.push(self.slots.remove(self.slots.key(slot)));
        }
    }
}

struct State<S> {
    store: S,
    /// Until when the thread waits.
    awaited: u64,
}

/// One store with its lock, and a thread that goes on until the process ends.
struct Shard<S> {
    state: Mutex<State<S>>,
    earlier: Condvar,
    origin: Instant,
}

impl<S: Store> Shard<S> {
    fn start(setup: &Setup) -> &'static Self {
        let state = Mutex::new(State {
            store: S::new(setup.tick),
            awaited: 0,
        });
        let shard = Self {
            state,
            earlier: Condvar::new(),
            origin: Instant::now(),
        };
        let (shard, book): (&'static Self, _) = (Box::leak(Box::new(shard)), setup.book);
        std::thread::spawn(move || shard.serve(book));
        shard
    }

    fn now(&self) -> u64 {
        // 584 years fit.
        self.origin.elapsed().as_nanos() as u64
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

/// A thread's home shard, and the others for cancelling. `ONE` forces a single shard.
pub(super) struct Locked<S: 'static, const ONE: bool> {
    shards: Vec<&'static Shard<S>>,
    home: usize,
}

/// One tree.
pub(super) type LockedTree = Locked<Tree, true>;
/// One indexed 4-ary heap per core: what server teams write today.
pub(super) type LockedHeaps = Locked<IndexedHeap, false>;
/// One of this project's own wheels.
pub(super) type LockedWheel = Locked<LocalTimer<u64>, true>;

impl<S, const ONE: bool> Clone for Locked<S, ONE> {
    fn clone(&self) -> Self {
        Self {
            shards: self.shards.clone(),
            home: self.home,
        }
    }
}

impl<S: Store, const ONE: bool> CrossPeer for Locked<S, ONE> {
    type Handle = (usize, S::Handle);

    fn start(setup: Setup) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let shards = if ONE {
            1
        } else {
            setup.shards.unwrap_or_else(cores)
        };
        Self {
            shards: (0..shards).map(|_| Shard::start(&setup)).collect(),
            home: 0,
        }
    }

    fn session(&self, thread: usize) -> Self {
        Self {
            home: thread % self.shards.len(),
            ..self.clone()
        }
    }

    fn schedule(&self, delay: Duration, payload: u64) -> Self::Handle {
        (self.home, self.shards[self.home].insert(delay, payload))
    }

    fn cancel(&self, (shard, handle): Self::Handle) {
        self.shards[shard].lock().store.remove(handle);
    }
}
