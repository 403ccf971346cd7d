//! A thread stops where it needs memory: where a move is known to the timer and not yet to its owner, and where the
//! thread begins and ends.

use crate::allocator::{expect_a_stop, go_on, has_stopped, stop_at_the_next_allocation};
use crate::holds_soon;
use crate::support::setup::one_shard;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tickwheel::{Expired, Key, ManualClock, Time, Timer};

const TIMERS: usize = 64;
const THREADS: usize = 140;
/// Where the deadlines lie, and where they are moved to.
const OLD: Duration = Duration::from_secs(10);
const NEW: Duration = Duration::from_secs(5);

/// The number that a thread takes in its first call, and gives back at its end, is handed out under a lock.
#[test]
fn a_thread_that_stops_where_it_begins_or_ends_keeps_nobody_from_beginning() {
    const ABOUT_TO: usize = 1;
    const PAST_IT: usize = 2;
    let _alone = crate::alone();
    let timer = one_shard().build_with(|_: Expired<u64>| ()).unwrap();
    timer.start().unwrap();
    let call = |timer: &Timer<u64>| _ = timer.schedule(OLD, 0).unwrap();
    let begins_beside = |stopping: &JoinHandle<()>, at: &AtomicUsize| {
        // It may need no memory.
        let stands = || match at.load(Ordering::SeqCst) {
            ABOUT_TO => has_stopped() || stopping.is_finished(),
            at => at == PAST_IT,
        };
        assert!(holds_soon(stands));
        let other = timer.clone();
        let beginning = std::thread::spawn(move || call(&other));
        let begins = holds_soon(|| beginning.is_finished());
        go_on();
        beginning.join().unwrap();
        assert!(begins, "a first call waits for a thread that is stopped");
    };
    // So many that the list of numbers grows.
    let mut alive = Vec::new();
    for _ in 0..THREADS {
        let (own, at) = (timer.clone(), Arc::new(AtomicUsize::new(0)));
        let (steps, (end, may_end)) = (Arc::clone(&at), channel());
        let thread = std::thread::spawn(move || {
            stop_at_the_next_allocation();
            steps.store(ABOUT_TO, Ordering::SeqCst);
            call(&own);
            steps.store(PAST_IT, Ordering::SeqCst);
            let _ = may_end.recv();
            drop((own, may_end));
            stop_at_the_next_allocation();
            steps.store(ABOUT_TO, Ordering::SeqCst);
        });
        begins_beside(&thread, &at);
        alive.push((thread, at, end));
    }
    for (thread, at, end) in alive {
        at.store(0, Ordering::SeqCst);
        end.send(()).unwrap();
        begins_beside(&thread, &at);
        thread.join().unwrap();
    }
}

/// A timer whose mover stands still fires at its old deadline; all others fire at their new ones, and nobody is early.
#[test]
fn a_mover_that_stops_makes_no_timer_later_than_it_was() {
    let _alone = crate::alone();
    let clock = ManualClock::new();
    let fired: Arc<Mutex<Vec<(usize, Time)>>> = Arc::default();
    let (log, time) = (Arc::clone(&fired), clock.clone());
    let timer = one_shard()
        .clock(clock.clone())
        .build_with(move |expired: Expired<usize>| {
            log.lock().unwrap().push((expired.payload, time.now()));
        })
        .unwrap();
    let keys: Vec<Key<usize>> = (0..TIMERS)
        .map(|n| timer.schedule(Time::ZERO + OLD, n).unwrap())
        .collect();
    // One that is due has its shard take all of them out of the inbox.
    let _ = timer.schedule(Time::ZERO, TIMERS).unwrap();
    assert!(holds_soon(|| std::mem::take(&mut *fired.lock().unwrap())
        .len()
        == 1));
    let at = Arc::new(AtomicUsize::new(0));
    expect_a_stop();
    let mover = std::thread::spawn({
        let (timer, at, keys) = (timer.clone(), Arc::clone(&at), keys.clone());
        move || {
            // The thread has its place in the engine, and half a block for its messages, before it stops.
            for key in keys {
                if at.fetch_add(1, Ordering::SeqCst) == 3 {
                    stop_at_the_next_allocation();
                }
                assert!(
                    timer.reschedule(key, Time::ZERO + NEW).is_moved(),
                    "until it has stopped"
                );
                if has_stopped() {
                    return;
                }
            }
        }
    });
    assert!(
        holds_soon(has_stopped),
        "the thread has moved all timers without needing memory"
    );
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
        assert_eq!(
            at,
            Time::ZERO + if n < stuck { NEW } else { OLD },
            "timer {n} of {stuck}"
        );
    }
}
