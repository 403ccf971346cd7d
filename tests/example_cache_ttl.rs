//! The cache of `examples/cache_ttl.rs`: by hand on a clock that stands still, then by several threads at once.

#[path = "../examples/cache_ttl.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example is a program with a `main` of its own")]
mod cache_ttl;

use cache_ttl::{Cache, Plan, work};
use std::time::Duration;
use tickwheel::{Builder, Drive, ManualClock, Pinning, ScheduleErrorKind};

const MS: Duration = Duration::from_millis(1);

/// A cache on a clock that is turned by hand. Timers fire only in `cache.timer().turn()`.
fn manual(builder: Builder) -> (Cache<&'static str, u32>, ManualClock) {
    let clock = ManualClock::new();
    let engine = builder.shards(1).pinning(Pinning::Off).drive(Drive::Manual).clock(clock.clone());
    (Cache::new(engine).unwrap(), clock)
}

fn turn(cache: &Cache<&'static str, u32>) -> usize {
    cache.timer().turn().unwrap()
}

#[test]
fn an_entry_is_served_until_its_time_and_not_a_nanosecond_longer() {
    let (cache, clock) = manual(Builder::new());
    // Not a whole number of ticks: the timer fires half a tick after the entry's time.
    cache.put("a", 1, 10 * MS + MS / 2).unwrap();
    clock.advance(10 * MS + MS / 2 - Duration::from_nanos(1));
    assert_eq!(turn(&cache), 0);
    assert_eq!(cache.get(&"a"), Some(1));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(turn(&cache), 0, "the tick is not over");
    assert_eq!((cache.get(&"a"), cache.len()), (None, 1), "held, but not served");
    clock.advance(MS / 2);
    assert_eq!(turn(&cache), 1);
    assert_eq!((cache.get(&"a"), cache.len()), (None, 0));
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.expired, stats.stale), (1, 2, 1, 0));
}

#[test]
fn a_late_engine_serves_nothing_late() {
    let (cache, clock) = manual(Builder::new());
    cache.put("a", 1, MS).unwrap();
    clock.advance(Duration::from_secs(3600));
    assert_eq!(cache.get(&"a"), None);
    assert_eq!(cache.remove(&"a"), None, "its time was up");
    assert_eq!(cache.timer().pending(), 0, "removed all the same");
}

#[test]
fn a_write_refreshes_and_the_old_deadline_means_nothing() {
    let (cache, clock) = manual(Builder::new());
    cache.put("a", 1, 10 * MS).unwrap();
    clock.advance(9 * MS);
    cache.put("a", 2, 10 * MS).unwrap();
    assert_eq!(cache.timer().pending(), 1, "one entry, one timer");
    clock.advance(9 * MS);
    assert_eq!(turn(&cache), 0);
    assert_eq!(cache.get(&"a"), Some(2));
    clock.advance(MS);
    assert_eq!((turn(&cache), cache.get(&"a"), cache.len()), (1, None, 0));
    assert_eq!(cache.stats().refreshed, 1);
}

#[test]
fn a_write_can_shorten_the_life_of_an_entry() {
    let (cache, clock) = manual(Builder::new());
    cache.put("a", 1, Duration::from_secs(1000)).unwrap();
    cache.put("a", 2, 5 * MS).unwrap();
    clock.advance(5 * MS);
    assert_eq!((turn(&cache), cache.len()), (1, 0));
    clock.advance(Duration::from_secs(1000));
    assert_eq!((turn(&cache), cache.stats().stale), (0, 0));
}

#[test]
fn a_removed_entry_takes_its_timer_along() {
    let (cache, clock) = manual(Builder::new());
    cache.put("a", 1, 5 * MS).unwrap();
    assert_eq!((cache.remove(&"a"), cache.remove(&"a")), (Some(1), None));
    assert_eq!((cache.timer().pending(), cache.len()), (0, 0));
    // The next entry of that name does not inherit the deadline.
    cache.put("a", 2, 50 * MS).unwrap();
    clock.advance(49 * MS);
    assert_eq!((turn(&cache), cache.get(&"a")), (0, Some(2)));
}

#[test]
fn a_cache_that_is_full_says_so_and_keeps_what_it_has() {
    let (cache, _clock) = manual(Builder::new().max_pending(2));
    cache.put("a", 1, MS).unwrap();
    cache.put("b", 2, MS).unwrap();
    let full = ScheduleErrorKind::TooManyPending { pending: 2, max_pending: 2 };
    assert_eq!(cache.put("c", 3, MS), Err(full));
    cache.put("a", 4, MS).unwrap();
    assert_eq!((cache.get(&"a"), cache.get(&"b"), cache.get(&"c")), (Some(4), Some(2), None));
    assert_eq!(cache.len(), 2);
}

#[test]
fn no_thread_sees_an_entry_late_or_misses_one_early() {
    let cache = Cache::new(Builder::new().shards(2)).unwrap();
    let plan = Plan { threads: 4, keys: 500, runs: Duration::from_secs(1) };
    let verdict = work(&cache, plan);
    assert!(verdict.is_ok(), "{verdict}");
    assert!(verdict.checked > 1000, "{verdict}");
    // What is left lives half a second at most; then it is gone without anybody asking for it.
    let begun = std::time::Instant::now();
    while !cache.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} entries are forgotten", cache.len());
        std::thread::sleep(5 * MS);
    }
    assert_eq!(cache.timer().pending(), 0);
    let stats = cache.stats();
    assert!(stats.hits > 0 && stats.expired > 0 && stats.refreshed > 0, "{stats:?}");
}
