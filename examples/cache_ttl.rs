//! A cache whose entries live for a time of their own: the engine frees the memory, the clock decides what
//! is served.
//!
//! ```text
//! cargo run --example cache_ttl
//! ```
//!
//! A timer carries the cache key and nothing else, so scheduling allocates nothing. It is never early but
//! may be late, by a tick or a busy worker; [`Cache::get`] compares the time itself, so lateness is never
//! served.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;
use tickwheel::{BuildError, Builder, Expired, Key, ScheduleError, Time, Timer};

struct Entry<K, V> {
    value: V,
    /// Served before this time only.
    until: Time,
    /// The timer that removes the entry; another timer's alarm is not for it.
    timer: Key<K>,
}

type Map<K, V> = HashMap<K, Entry<K, V>>;

/// A cache that any thread may use.
struct Cache<K, V> {
    map: Arc<Mutex<Map<K, V>>>,
    timer: Timer<K>,
}

/// No user code runs under the lock but `Hash`, `Eq` and `Clone`; the map survives their panics.
fn lock<K, V>(map: &Mutex<Map<K, V>>) -> MutexGuard<'_, Map<K, V>> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K, V> Cache<K, V>
where
    K: Hash + Eq + Clone + Send + 'static,
    V: Clone + Send + 'static,
{
    fn new() -> Result<Self, BuildError> {
        let map = Arc::new(Mutex::new(Map::new()));
        let handlers = Arc::clone(&map);
        let timer = Builder::new().build_with(move |expired: Expired<K>| {
            let mut map = lock(&handlers);
            // While the handler waited for the lock, the entry may have been overwritten or removed.
            let is_own = map
                .get(&expired.payload)
                .is_some_and(|entry| entry.timer == expired.key);
            let removed = is_own.then(|| map.remove(&expired.payload));
            drop(map);
            // The value is dropped outside of the lock.
            drop(removed);
        })?;
        Ok(Self { map, timer })
    }

    /// Stores `value` for `ttl`, in place of what was there.
    fn put(&self, key: K, value: V, ttl: Duration) -> Result<(), ScheduleError<K>> {
        let mut map = lock(&self.map);
        // Under the lock: time passes while a thread waits for it.
        let until = self.timer.now() + ttl;
        let old = map.get(&key).map(|entry| entry.timer);
        // A write refreshes: if the timer of the old entry can be moved, it is kept.
        let timer = match old.filter(|old| self.timer.reschedule(*old, until).is_moved()) {
            Some(moved) => moved,
            None => self.timer.schedule(until, key.clone())?,
        };
        let replaced = map.insert(
            key,
            Entry {
                value,
                until,
                timer,
            },
        );
        drop(map);
        drop(replaced);
        Ok(())
    }

    /// The value, if its time is not up.
    fn get(&self, key: &K) -> Option<V> {
        let map = lock(&self.map);
        map.get(key)
            .filter(|entry| self.timer.now() < entry.until)
            .map(|entry| entry.value.clone())
    }

    /// Takes an entry out, if there is one whose time is not up.
    fn remove(&self, key: &K) -> Option<V> {
        let entry = lock(&self.map).remove(key)?;
        // Lost if the timer has just fired: its handler will find no entry.
        self.timer.cancel(entry.timer);
        (self.timer.now() < entry.until).then_some(entry.value)
    }

    /// Entries held, those included whose time is up but whose timer has not fired yet.
    fn len(&self) -> usize {
        lock(&self.map).len()
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ms = Duration::from_millis;
    let cache = Cache::new()?;
    let begun = cache.timer.now();
    cache.put("short", 1, ms(50))?;
    cache.put("refreshed", 2, ms(50))?;
    cache.put("removed", 3, ms(60_000))?;
    cache.put("refreshed", 4, ms(60_000))?;
    let short = cache.get(&"short");
    assert!(
        short == Some(1) || cache.timer.now() >= begun + ms(50),
        "gone only after its time"
    );
    assert_eq!(cache.remove(&"removed"), Some(3));
    while cache.len() > 1 {
        sleep(ms(1));
    }
    assert_eq!(
        (cache.get(&"short"), cache.get(&"refreshed")),
        (None, Some(4))
    );
    println!("one entry expired, one was removed, the refreshed one lives");
    println!("timers pending: {}", cache.timer.pending());
    Ok(())
}
