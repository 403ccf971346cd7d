//! Loops that go from thread to thread: each thread polls for a while, with timers of the loop's own beside those of a
//! remote's thread, and hands the loop on. Now and then a loop is closed, and another one built.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use tickwheel::{EventLoopTimer, Key, Remote, Settings};

use super::Part;
use super::book::{Book, Entry};

/// Loops that are there at one time.
const LOOPS: usize = 3;
/// Rounds of a thread, and timers that each kind has set in one.
const ROUNDS: usize = 8;
const TIMERS: usize = 16;
/// How long a round may sleep.
const LONGEST: Duration = Duration::from_millis(2);

struct Loop {
    timer: EventLoopTimer<Entry>,
    /// The thread that sleeps for it.
    sleeper: Arc<Mutex<Option<Thread>>>,
    own: Vec<Key<Entry>>,
}

pub(super) fn run(part: &Part) {
    let mut loops = [(); LOOPS].map(|()| Loop::new());
    while !part.end.is_raised() {
        loops = loops.map(|it| {
            let book = Arc::clone(&part.book);
            let moved = thread::spawn(move || it.live(&book)).join();
            part.gone.moves.add(1);
            let it = moved.expect("a loop has panicked");
            if fastrand::u8(..) > 0 {
                return it;
            }
            it.close();
            Loop::new()
        });
    }
    loops.into_iter().for_each(Loop::close);
}

impl Loop {
    fn new() -> Self {
        let sleeper = Arc::<Mutex<Option<Thread>>>::default();
        let woken = Arc::clone(&sleeper);
        let timer = EventLoopTimer::with_waker(Settings::new(), move || {
            let sleeper = woken.lock().unwrap_or_else(PoisonError::into_inner);
            sleeper.iter().for_each(Thread::unpark);
        });
        Self {
            timer: timer.expect("these settings are in range"),
            sleeper,
            own: Vec::new(),
        }
    }

    fn close(self) {
        Entry::all_returned(self.timer.close());
    }

    /// Runs the loop on this thread for some rounds.
    fn live(mut self, book: &Arc<Book>) -> Self {
        *self.sleeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        let (remote, theirs) = (self.timer.remote(), Arc::clone(book));
        let sending = thread::spawn(move || send(&remote, &theirs));
        for _ in 0..ROUNDS {
            self.round(book);
        }
        sending.join().expect("a remote's thread has panicked");
        self
    }

    fn round(&mut self, book: &Arc<Book>) {
        for _ in 0..TIMERS {
            let delay = delay();
            let entry = Entry::new(book, delay);
            match self.timer.schedule(self.timer.now(), delay, entry) {
                Ok(key) => self.own.push(key),
                Err(refused) => refused.into_payload().returned(),
            }
        }
        for key in self.own.drain(..self.own.len() / 2) {
            Entry::cancelled(self.timer.cancel(key).into_payload());
        }
        let asleep = self.timer.poll_timeout(self.timer.now());
        thread::park_timeout(asleep.map_or(LONGEST, |asleep| asleep.min(LONGEST)));
        let now = self.timer.now();
        self.timer.poll(now, |expired| Entry::fired(expired, false));
    }
}

fn delay() -> Duration {
    Duration::from_micros(fastrand::u64(..5_000))
}

/// Sets timers of a loop on another thread, and cancels some.
fn send(remote: &Remote<Entry>, book: &Arc<Book>) {
    let mut keys = Vec::new();
    for _ in 0..ROUNDS * TIMERS {
        let delay = delay();
        match remote.schedule(delay, Entry::new(book, delay)) {
            Ok(key) => keys.push(key),
            Err(refused) => refused.into_payload().returned(),
        }
        if fastrand::bool() {
            let key = keys.swap_remove(fastrand::usize(..keys.len()));
            Entry::cancelled(remote.cancel(key).into_payload());
        }
    }
}
