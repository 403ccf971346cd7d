//! An in-memory cache whose entries live for a time of their own, removed by the timer engine.
//!
//! ```text
//! cargo run --release --example cache_ttl
//! ```
//!
//! Several threads write, read, overwrite and remove for two seconds, and check every single answer: no entry may
//! be served after its time, and none may vanish before it.
//!
//! What to look at:
//!
//! * **Typed payload.** A timer carries the cache key and nothing else, so scheduling allocates nothing; one handler
//!   removes the entries ([`Stripes::expire`]).
//! * **A write refreshes.** Overwriting an entry moves its timer ([`Cache::put`]); a later deadline moves nothing in
//!   the wheel.
//! * **Stale keys are harmless.** If the timer fires while the entry is being overwritten, the handler finds an entry
//!   that carries another timer's key, and leaves it alone.
//! * **The engine frees memory, the clock decides.** A timer is never early but may be late, by a tick or a busy
//!   worker. [`Cache::get`] compares the time itself, so lateness is never served.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tickwheel::{BuildError, Builder, Expired, Key, ScheduleErrorKind, Time, Timer};

/// Parts of the map that are locked separately.
const STRIPES: usize = 64;

/// What the cache has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Reads that found an entry.
    pub hits: u64,
    /// Reads that found none, or one whose time was up.
    pub misses: u64,
    /// Entries removed by their timer.
    pub expired: u64,
    /// Entries overwritten in time: their timer was moved.
    pub refreshed: u64,
    /// Timers that fired for an entry that was no longer theirs.
    pub stale: u64,
    /// How late the latest of the entries was removed.
    pub latest: Duration,
}

#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    expired: AtomicU64,
    refreshed: AtomicU64,
    stale: AtomicU64,
    latest_ns: AtomicU64,
}

fn count(counter: &AtomicU64) {
    // ORDERING: Relaxed: a figure for reports; nothing is read because of it.
    counter.fetch_add(1, Ordering::Relaxed);
}

struct Entry<K, V> {
    value: V,
    /// Served before this time only.
    until: Time,
    /// The timer that removes the entry; another timer's alarm is not for it.
    timer: Key<K>,
}

type Stripe<K, V> = HashMap<K, Entry<K, V>>;

/// The map, as the cache's users and the engine's handler share it.
struct Stripes<K, V> {
    stripes: Box<[Mutex<Stripe<K, V>>]>,
    hasher: RandomState,
    counters: Counters,
}

impl<K: Hash + Eq, V> Stripes<K, V> {
    fn new() -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(HashMap::new())).collect();
        Self { stripes, hasher: RandomState::new(), counters: Counters::default() }
    }

    fn lock(&self, key: &K) -> MutexGuard<'_, Stripe<K, V>> {
        let stripe = self.hasher.hash_one(key) as usize % STRIPES;
        // No user code runs under the lock but `Hash`, `Eq`, `Clone` and `Drop`; the map survives their panics.
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine's handler: removes the entry, if the timer is still the entry's own.
    fn expire(&self, expired: &Expired<K>) {
        let mut stripe = self.lock(&expired.payload);
        if stripe.get(&expired.payload).is_none_or(|entry| entry.timer != expired.key) {
            return count(&self.counters.stale);
        }
        let removed = stripe.remove(&expired.payload);
        drop(stripe);
        // The value is dropped outside the lock.
        drop(removed);
        count(&self.counters.expired);
        let lateness = u64::try_from(expired.lateness.as_nanos()).unwrap_or(u64::MAX);
        // ORDERING: Relaxed: see `count`.
        self.counters.latest_ns.fetch_max(lateness, Ordering::Relaxed);
    }
}

/// A cache. Share it by reference or in an `Arc`; every method may be called from any thread.
pub struct Cache<K, V> {
    stripes: Arc<Stripes<K, V>>,
    timer: Timer<K>,
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Clone + Send + 'static,
{
    /// A cache whose engine has these settings.
    pub fn new(engine: Builder) -> Result<Self, BuildError> {
        let stripes = Arc::new(Stripes::new());
        let handler = Arc::clone(&stripes);
        let timer = engine.build_with(move |expired| handler.expire(&expired))?;
        Ok(Self { stripes, timer })
    }

    /// Stores `value` for `ttl`, in place of what was there. Fails if the engine takes no more timers; then the key
    /// has no entry.
    pub fn put(&self, key: K, value: V, ttl: Duration) -> Result<(), ScheduleErrorKind> {
        let mut stripe = self.stripes.lock(&key);
        // Under the lock: while this thread waited for it, time passed.
        let until = self.timer.now() + ttl;
        if let Some(entry) = stripe.get_mut(&key) {
            if self.timer.reschedule(entry.timer, until).moved() {
                let old = std::mem::replace(&mut entry.value, value);
                entry.until = until;
                drop(stripe);
                drop(old);
                count(&self.stripes.counters.refreshed);
                return Ok(());
            }
            // The timer has fired, and its handler waits for the lock. It will find another timer's key.
        }
        match self.timer.schedule_key(until, key.clone()) {
            Ok(timer) => {
                stripe.insert(key, Entry { value, until, timer });
                Ok(())
            }
            Err(error) => {
                stripe.remove(&key);
                Err(error.kind().clone())
            }
        }
    }

    /// The value, if its time is not up.
    pub fn get(&self, key: &K) -> Option<V> {
        let stripe = self.stripes.lock(key);
        let value = match stripe.get(key) {
            Some(entry) if self.timer.now() < entry.until => Some(entry.value.clone()),
            _ => None,
        };
        drop(stripe);
        let counters = &self.stripes.counters;
        count(if value.is_some() { &counters.hits } else { &counters.misses });
        value
    }

    /// Takes an entry out, if there is one whose time is not up.
    pub fn remove(&self, key: &K) -> Option<V> {
        let mut stripe = self.stripes.lock(key);
        let entry = stripe.remove(key)?;
        drop(stripe);
        // Lost if the timer has just fired: it will find no entry.
        self.timer.cancel(entry.timer);
        (self.timer.now() < entry.until).then_some(entry.value)
    }

    /// Entries held, those included whose time is up but whose timer has not fired yet.
    pub fn len(&self) -> usize {
        let stripes = self.stripes.stripes.iter();
        stripes.map(|stripe| stripe.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The engine: its time, what it has counted.
    pub fn timer(&self) -> &Timer<K> {
        &self.timer
    }

    /// What the cache has counted.
    pub fn stats(&self) -> Stats {
        let counters = &self.stripes.counters;
        // ORDERING: Relaxed: see `count`.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            hits: read(&counters.hits),
            misses: read(&counters.misses),
            expired: read(&counters.expired),
            refreshed: read(&counters.refreshed),
            stale: read(&counters.stale),
            latest: Duration::from_nanos(read(&counters.latest_ns)),
        }
    }
}

// ---------------------------------------------------------------------------------------------------
// Several threads that check every answer
// ---------------------------------------------------------------------------------------------------

/// How the cache is put to work.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Threads.
    pub threads: u64,
    /// Keys that each thread writes. It reads those of all.
    pub keys: u64,
    /// How long.
    pub runs: Duration,
}

/// What the threads saw from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// Answers that were checked.
    pub checked: u64,
    /// Entries that were served although their time had been up before the question.
    pub served_late: u64,
    /// Entries that were gone although their time was not up after the answer.
    pub gone_early: u64,
}

impl Verdict {
    /// Whether every answer was right.
    pub fn is_ok(&self) -> bool {
        self.served_late == 0 && self.gone_early == 0
    }

    fn add(&mut self, other: Self) {
        self.checked += other.checked;
        self.served_late += other.served_late;
        self.gone_early += other.gone_early;
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { checked, served_late, gone_early } = self;
        let verdict = if self.is_ok() { "OK" } else { "WRONG" };
        write!(
            f,
            "{verdict}: of {checked} answers {served_late} served an entry after its time \
             and {gone_early} missed one before it"
        )
    }
}

/// What is cached: when the entry's time is up at the latest, as soon as its writer knows.
pub type Lease = Arc<OnceLock<Instant>>;

/// Runs the plan and judges every answer by the writers' own clocks.
pub fn work(cache: &Cache<u64, Lease>, plan: Plan) -> Verdict {
    let mut verdict = Verdict::default();
    thread::scope(|scope| {
        let worker = |number| scope.spawn(move || Worker::new(cache, plan, number).run());
        let workers: Vec<_> = (0..plan.threads).map(worker).collect();
        for worker in workers {
            match worker.join() {
                Ok(seen) => verdict.add(seen),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    verdict
}

struct Worker<'a> {
    cache: &'a Cache<u64, Lease>,
    plan: Plan,
    /// The first of this thread's keys.
    first: u64,
    /// What this thread has written: when at the earliest and at the latest the entry's time is up.
    written: HashMap<u64, (Instant, Instant)>,
    random: u64,
    verdict: Verdict,
}

impl<'a> Worker<'a> {
    fn new(cache: &'a Cache<u64, Lease>, plan: Plan, number: u64) -> Self {
        let first = number * plan.keys;
        let (written, verdict) = (HashMap::new(), Verdict::default());
        Self { cache, plan, first, written, random: number + 1, verdict }
    }

    /// Xorshift (Marsaglia 2003).
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % below
    }

    fn run(mut self) -> Verdict {
        let begun = Instant::now();
        while begun.elapsed() < self.plan.runs {
            let own = self.first + self.random(self.plan.keys);
            match self.random(16) {
                0..4 => self.write(own),
                4 => self.remove(own),
                5..8 => self.read_any(),
                _ => self.read(own),
            }
        }
        self.verdict
    }

    fn write(&mut self, key: u64) {
        // Two milliseconds to half a second, most of them short.
        let longest = if self.random(8) == 0 { 500 } else { 40 };
        let ttl = Duration::from_micros(2000 + self.random(longest * 1000));
        let lease = Lease::default();
        let earliest = Instant::now() + ttl;
        let put = self.cache.put(key, Arc::clone(&lease), ttl);
        let latest = *lease.get_or_init(|| Instant::now() + ttl);
        match put {
            Ok(()) => self.written.insert(key, (earliest, latest)),
            Err(_) => self.written.remove(&key),
        };
    }

    fn remove(&mut self, key: u64) {
        self.cache.remove(&key);
        self.written.remove(&key);
    }

    /// Reads a key of this thread, of which it knows everything.
    fn read(&mut self, key: u64) {
        let asked = Instant::now();
        let answer = self.cache.get(&key);
        let answered = Instant::now();
        self.verdict.checked += 1;
        match (answer, self.written.get(&key)) {
            (Some(_), Some((_, latest))) => self.verdict.served_late += u64::from(asked >= *latest),
            // It was removed.
            (Some(_), None) => self.verdict.served_late += 1,
            (None, Some((earliest, _))) => {
                self.verdict.gone_early += u64::from(answered < *earliest);
            }
            (None, None) => {}
        }
    }

    /// Reads anybody's key. If the lease is not signed yet, the write has not returned, and any answer is right.
    fn read_any(&mut self) {
        let key = self.random(self.plan.threads * self.plan.keys);
        let asked = Instant::now();
        let lease = self.cache.get(&key);
        if let Some(latest) = lease.as_ref().and_then(|lease| lease.get()) {
            self.verdict.checked += 1;
            self.verdict.served_late += u64::from(asked >= *latest);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, 16) as u64;
    let plan = Plan { threads, keys: 10_000, runs: Duration::from_secs(2) };
    println!(
        "{threads} threads write, read, overwrite and remove {} keys with lives of 2 ms to 0.5 s, for {:?}",
        threads * plan.keys,
        plan.runs
    );
    let cache = Cache::new(Builder::new())?;
    let verdict = work(&cache, plan);
    let held = cache.len();

    // Whatever is left lives half a second at most.
    let begun = Instant::now();
    while !cache.is_empty() && begun.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(10));
    }
    let Stats { hits, misses, expired, refreshed, stale, latest } = cache.stats();
    println!("{hits:>10} hits");
    println!("{misses:>10} misses");
    println!("{refreshed:>10} refreshed by a write");
    println!("{expired:>10} expired, the latest of them {latest:.1?} late");
    println!("{stale:>10} alarms came too late to matter: the entry had been replaced or removed");
    println!(
        "{held:>10} entries held at the end, and {:.1?} later {}",
        begun.elapsed(),
        cache.len()
    );
    println!("{:>10} timers pending", cache.timer().pending());
    println!("{verdict}");
    if verdict.is_ok() && cache.is_empty() { Ok(()) } else { Err("the cache is broken".into()) }
}
