//! Threads that come by the dozen, use a long-lived engine, and go: each leaves timers behind, which the next ones
//! cancel or move, and sets one more while its thread-locals are destroyed.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tickwheel::{Builder, Key, Pinning, Timer};

use super::Part;
use super::book::{Book, Entry};

/// Threads that are there at one time.
const CROWD: usize = 12;
/// Timers that each sets.
const TIMERS: usize = 48;
/// Keys that are handed on.
const KEPT: usize = 4096;

pub(super) fn run(part: &Part) {
    let builder = Builder::new().shards(2).pinning(Pinning::Off);
    let timer = builder.build_with(|expired| Entry::fired(expired, false));
    let timer = timer.expect("these settings are in range");
    let mut keys = Vec::new();
    while !part.end.is_raised() {
        let share = keys.len() / CROWD;
        let crowd = [(); CROWD].map(|()| {
            let left = keys.split_off(keys.len() - share);
            let (timer, book) = (timer.clone(), Arc::clone(&part.book));
            thread::spawn(move || visit(timer, book, left))
        });
        for visitor in crowd {
            keys.extend(visitor.join().expect("a visitor has panicked"));
        }
        keys.truncate(KEPT);
        part.gone.threads.add(CROWD as u64);
    }
    Entry::all_returned(timer.stop().expect("its workers are alive"));
}

fn delay() -> Duration {
    Duration::from_micros(fastrand::u64(..200_000))
}

/// Uses the engine from a thread that ends then; returns keys of what it leaves pending.
fn visit(timer: Timer<Entry>, book: Arc<Book>, left: Vec<Key<Entry>>) -> Vec<Key<Entry>> {
    let mut keys = Vec::with_capacity(TIMERS);
    for _ in 0..TIMERS {
        let delay = delay();
        match timer.schedule(delay, Entry::new(&book, delay)) {
            Ok(key) => keys.push(key),
            Err(refused) => refused.into_payload().returned(),
        }
        if fastrand::bool() {
            let key = keys.swap_remove(fastrand::usize(..keys.len()));
            Entry::cancelled(timer.cancel(key).into_payload());
        }
    }
    // Only later, because an entry knows its first deadline.
    for key in left {
        if fastrand::bool() {
            Entry::cancelled(timer.cancel(key).into_payload());
        } else {
            let _ = timer.reschedule(key, Duration::from_secs(1));
        }
    }
    LEAVER.set(Some(Leaver { timer, book }));
    keys
}

/// Sets a timer while the thread ends.
struct Leaver {
    timer: Timer<Entry>,
    book: Arc<Book>,
}

impl Drop for Leaver {
    fn drop(&mut self) {
        let delay = delay();
        if let Err(refused) = self.timer.schedule(delay, Entry::new(&self.book, delay)) {
            refused.into_payload().returned();
        }
    }
}

thread_local! {
    static LEAVER: RefCell<Option<Leaver>> = const { RefCell::new(None) };
}
