//! A thread stops where it needs memory, which is where a move is known to the timer and not yet to its owner.

use crate::allocator::{go_on, has_stopped, stop_at_the_next_allocation};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tickwheel::{Builder, Expired, Key, ManualClock, Pinning, Time, Timer};

const TIMERS: usize = 64;
/// Where the deadlines lie, and where they are moved to.
const OLD: Duration = Duration::from_secs(10);
const NEW: Duration = Duration::from_secs(5);

/// Waits for something that another thread does; false after a time that only a hang can take.
fn holds_soon(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// A timer whose mover stands still fires at its old deadline; all others fire at their new ones, and nobody is early.
#[test]
fn a_mover_that_stops_makes_no_timer_later_than_it_was() {
    let _alone = crate::alone();
    let clock = ManualClock::new();
    let fired: Arc<Mutex<Vec<(usize, Time)>>> = Arc::default();
    let (log, time) = (Arc::clone(&fired), clock.clone());
    let timer: Timer<usize> = Builder::new()
        .shards(1)
        .pinning(Pinning::Off)
        .clock(clock.clone())
        .build_with(move |expired: Expired<usize>| {
            log.lock().unwrap().push((expired.payload, time.now()));
        })
        .unwrap();
    let keys: Vec<Key<usize>> =
        (0..TIMERS).map(|n| timer.schedule_key(Time::ZERO + OLD, n).unwrap()).collect();
    // One that is due has its shard take all of them out of the inbox.
    let _ = timer.schedule_key(Time::ZERO, TIMERS).unwrap();
    assert!(holds_soon(|| std::mem::take(&mut *fired.lock().unwrap()).len() == 1));
    let at = Arc::new(AtomicUsize::new(0));
    let mover = std::thread::spawn({
        let (timer, at, keys) = (timer.clone(), Arc::clone(&at), keys.clone());
        move || {
            // The thread has its place in the engine, and half a block for its messages, before it stops.
            for key in keys {
                if at.fetch_add(1, Ordering::SeqCst) == 3 {
                    stop_at_the_next_allocation();
                }
                assert!(timer.reschedule(key, Time::ZERO + NEW).moved(), "until it has stopped");
                if has_stopped() {
                    return;
                }
            }
        }
    });
    assert!(holds_soon(has_stopped), "the thread has moved all timers without needing memory");
    let stuck = at.load(Ordering::SeqCst) - 1;
    clock.set(Time::ZERO + NEW);
    let early = holds_soon(|| fired.lock().unwrap().len() == stuck);
    clock.set(Time::ZERO + OLD);
    let late = holds_soon(|| fired.lock().unwrap().len() == TIMERS);
    go_on();
    mover.join().unwrap();
    assert!(early, "{stuck} timers were moved before the thread stopped");
    assert!(late, "timer {stuck} fires at neither deadline");
    for &(n, at) in &*fired.lock().unwrap() {
        assert_eq!(at, Time::ZERO + if n < stuck { NEW } else { OLD }, "timer {n} of {stuck}");
    }
}
