//! A thread stops where it needs memory: where it begins and where it ends.

use crate::allocator::{go_on, has_stopped, stop_at_the_next_allocation};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Expired, Timer};

const THREADS: usize = 140;
const LATER: Duration = Duration::from_secs(10);

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

/// The number that a thread takes in its first call, and gives back at its end, is handed out under a lock.
#[test]
fn a_thread_that_stops_where_it_begins_or_ends_keeps_nobody_from_beginning() {
    const ABOUT_TO: usize = 1;
    const PAST_IT: usize = 2;
    let _alone = crate::alone();
    let timer: Timer<u64> = Builder::new().shards(1).build_with(|_: Expired<u64>| ()).unwrap();
    timer.start().unwrap();
    let call = |timer: &Timer<u64>| _ = timer.schedule_key(LATER, 0).unwrap();
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
