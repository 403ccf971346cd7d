//! `silent-threads`: what thousands of threads that have scheduled once, and do nothing since, cost the others.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches --bin silent-threads # 100, 1000, 3000 and 10 000 threads
//! cargo run --release -p tickwheel-benches --bin silent-threads -- 500
//! ```
//!
//! One shard, turned by hand, so that all times are of the calling thread. A turn drains one message of one thread and
//! fires it; a pair is a schedule and its cancel, with a turn whenever many messages lie unread; both are medians of
//! pieces. First timers are the schedules of the silent threads, one after the other. Memory is what the process has
//! more when each of them has scheduled and cancelled 680 timers, by its resident pages.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Drive, Expired, ManualClock, Timer};
use tickwheel_benches::machine;

const THREADS: [usize; 4] = [100, 1000, 3000, 10_000];
const STACK: usize = 64 << 10;
const HOUR: Duration = Duration::from_secs(3600);
const TURNS: usize = 2000;
const PIECES: usize = 40;
const PAIRS: usize = 50_000;
/// As many as there are up to a thread's first large block.
const TIMERS: u64 = 680;

/// A thread that does one step whenever it is told to.
struct Silent {
    go: Sender<()>,
    done: Receiver<Duration>,
    thread: JoinHandle<()>,
}

impl Silent {
    fn start(timer: &Timer<u64>) -> Self {
        let ((go, told), (tell, done)) = (channel(), channel());
        let timer = timer.clone();
        let live = move || {
            if told.recv().is_err() {
                return;
            }
            let start = Instant::now();
            timer.schedule(HOUR, 0).expect("there is memory");
            tell.send(start.elapsed()).expect("the bench waits");
            if told.recv().is_err() {
                return;
            }
            for n in 0..TIMERS {
                let key = timer.schedule(HOUR, n).expect("there is memory");
                _ = timer.cancel(key);
            }
            tell.send(Duration::ZERO).expect("the bench waits");
            // Silent until the bench drops its end.
            _ = told.recv();
        };
        let thread = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(live)
            .expect("the system has threads");
        Self { go, done, thread }
    }

    /// Has the thread do its next step; returns how long that took.
    fn step(&self) -> Duration {
        self.go.send(()).expect("the thread waits");
        self.done.recv().expect("the thread answers")
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the microseconds of a turn that drains and fires one timer of this thread.
fn turn_us(timer: &Timer<u64>, clock: &ManualClock) -> f64 {
    let turn = |_| {
        timer
            .schedule(Duration::from_millis(2), 1)
            .expect("there is memory");
        clock.advance(Duration::from_millis(3));
        let start = Instant::now();
        let fired = timer.turn().expect("the engine runs");
        let took = start.elapsed();
        assert_eq!(fired, 1, "the timer is due");
        took.as_nanos() as f64 / 1000.0
    };
    median((0..TURNS).map(turn).collect())
}

/// Returns the nanoseconds of a pair.
fn pair_ns(timer: &Timer<u64>) -> f64 {
    let piece = |_| {
        let start = Instant::now();
        for n in 0..PAIRS {
            let key = timer.schedule(HOUR, n as u64).expect("there is memory");
            _ = timer.cancel(key);
        }
        timer.turn().expect("the engine runs");
        start.elapsed().as_nanos() as f64 / PAIRS as f64
    };
    median((0..PIECES).map(piece).collect())
}

/// Returns the resident memory of this process in KiB.
fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn measure(threads: usize) {
    let clock = ManualClock::new();
    let timer = Builder::new()
        .shards(1)
        .drive(Drive::Manual)
        .clock(clock.clone())
        .build_with(|_: Expired<u64>| ())
        .expect("the settings are fine");
    let silent: Vec<_> = (0..threads).map(|_| Silent::start(&timer)).collect();
    let first: Vec<_> = silent
        .iter()
        .map(|it| it.step().as_nanos() as f64 / 1000.0)
        .collect();
    let first_us = median(first[first.len() / 2..].to_vec());
    timer.turn().expect("the engine runs");
    let (turn_us, pair_ns) = (turn_us(&timer, &clock), pair_ns(&timer));
    let before = resident_kib();
    for (n, it) in silent.iter().enumerate() {
        it.step();
        if n % 32 == 0 {
            timer.turn().expect("the engine runs");
        }
    }
    timer.turn().expect("the engine runs");
    let kib = (resident_kib() - before) as f64 / threads as f64;
    println!("{threads:7} | {turn_us:9.2} | {pair_ns:7.1} | {first_us:14.2} | {kib:9.1}");
    for Silent { go, thread, .. } in silent {
        drop(go);
        thread.join().expect("a silent thread ends");
    }
}

fn main() {
    let before = machine::load();
    println!("{}, {}", machine::describe(), machine::quietness(&before));
    println!("threads |  turn, us | pair ns | first timer us | KiB of each");
    let chosen: Vec<usize> = std::env::args()
        .skip(1)
        .map(|argument| argument.parse().expect("a number of threads"))
        .collect();
    let counts = if chosen.is_empty() {
        &THREADS[..]
    } else {
        &chosen
    };
    counts.iter().copied().for_each(measure);
}
