//! Threads that sleep until a timer is due, each of which arms a timer in the loop of the next one.
//!
//! A waker must end the current sleep or, if the loop is not asleep yet, the next one. `Thread::unpark` does.

use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::Duration;
use tickwheel::{EventLoopTimer, Remote, Settings};

const LOOPS: usize = 3;

fn run(number: usize, remotes: &[OnceLock<Remote<usize>>], all_are_there: &Barrier) -> usize {
    let this = thread::current();
    let built = EventLoopTimer::with_waker(Settings::new(), move || this.unpark());
    let mut timer: EventLoopTimer<usize> = built.expect("the settings are in range");
    assert!(remotes[number].set(timer.remote()).is_ok());
    all_are_there.wait();
    let next = remotes[(number + 1) % LOOPS].get().expect("all are there");
    next.schedule(Duration::from_millis(2), number)
        .expect("that loop waits for it");
    let (mut called_by, mut now) = (None, timer.now());
    while called_by.is_none() {
        match timer.poll_timeout(now) {
            None => thread::park(),
            Some(timeout) => thread::park_timeout(timeout),
        }
        now = timer.now();
        timer.poll(now, |expired| called_by = Some(expired.payload));
    }
    called_by.expect("as the loop asks")
}

pub(crate) fn main() {
    let remotes: Arc<Vec<OnceLock<_>>> = Arc::new((0..LOOPS).map(|_| OnceLock::new()).collect());
    let barrier = Arc::new(Barrier::new(LOOPS));
    let begin = |number| {
        let (remotes, barrier) = (Arc::clone(&remotes), Arc::clone(&barrier));
        thread::spawn(move || run(number, &remotes, &barrier))
    };
    let loops: Vec<_> = (0..LOOPS).map(begin).collect();
    for (number, running) in loops.into_iter().enumerate() {
        let called_by = running.join().expect("no loop panics");
        assert_eq!(called_by, (number + LOOPS - 1) % LOOPS);
    }
}
