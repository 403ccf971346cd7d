//! `bursts`: a million timers at once, again and again: what the system has to do for each burst, and what stays.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches --bin bursts
//! strace -f -c -e trace=mmap,munmap,madvise target/release/bursts # also counts the calls that move memory
//! ```
//!
//! Of each kind the first burst, which gets its memory, is left out. The times are those of the burst alone, and the
//! processor's of all threads.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};
use tickwheel::{Builder, EventLoopTimer, Expired, MonotonicClock, Settings, Time};

const TIMERS: u64 = 1_000_000;
const BURSTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(100);
/// By then everything that has been cancelled or has fired must be gone.
const REST: Duration = Duration::from_secs(3);

/// What the process has used so far.
#[derive(Clone, Copy)]
struct Usage {
    wall: Instant,
    user_us: i64,
    system_us: i64,
    faults: i64,
}

impl Usage {
    fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process knows its usage");
        Self {
            wall: Instant::now(),
            user_us: usage.user_time().num_microseconds(),
            system_us: usage.system_time().num_microseconds(),
            faults: usage.minor_page_faults(),
        }
    }
}

/// Runs the bursts of one kind and prints what one took.
fn measure(kind: &str, mut burst: impl FnMut(), mut after: impl FnMut(Duration)) {
    burst();
    let (mut wall, mut user, mut system, mut faults) = (Duration::ZERO, 0, 0, 0);
    for _ in 0..BURSTS {
        after(PAUSE);
        let before = Usage::now();
        burst();
        let now = Usage::now();
        wall += now.wall - before.wall;
        user += now.user_us - before.user_us;
        system += now.system_us - before.system_us;
        faults += now.faults - before.faults;
    }
    let between = resident();
    after(REST);
    let each = |sum: i64| sum as f64 / f64::from(BURSTS) / 1000.0;
    println!(
        "{kind:16} {:6.1} ms, {:6.1} user, {:5.1} system, {:6.0} faults; {between:4} MiB between, {:3} MiB after {REST:?}",
        wall.as_secs_f64() * 1000.0 / f64::from(BURSTS),
        each(user),
        each(system),
        each(faults) * 1000.0,
        resident(),
    );
}

/// Returns the memory of this process that is in use, in MiB; 0 where the system does not tell.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// An engine's timers, which fire or are cancelled.
fn engine(cancels: bool) {
    let timer = Builder::new()
        .shards(1)
        .build_with(|_: Expired<u64>| ())
        .expect("the settings are fine");
    let mut keys = Vec::with_capacity(TIMERS as usize);
    let kind = if cancels {
        "engine, cancels"
    } else {
        "engine, fires"
    };
    let burst = || {
        keys.clear();
        keys.extend((0..TIMERS).map(|n| {
            let delay = Duration::from_millis(if cancels { 60_000 } else { 30 + n % 100 });
            timer.schedule(delay, n).expect("there is memory")
        }));
        if cancels {
            keys.iter().for_each(|key| _ = timer.cancel(*key));
        }
        while timer.pending() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // Nothing wakes a worker meanwhile.
    measure(kind, burst, std::thread::sleep);
}

/// The timers of a loop, which fire. `poll` says whether some are left.
fn fires(kind: &str, mut schedule: impl FnMut(Time, Duration, u64), poll: impl Fn(Time) -> bool) {
    let clock = MonotonicClock::new();
    // The time that the loop is told runs ahead when all are to fire, so that it waits for none.
    let ahead = Cell::new(Duration::ZERO);
    let now = || clock.now() + ahead.get();
    let burst = || {
        let start = now();
        (0..TIMERS).for_each(|n| schedule(start, Duration::from_millis(30 + n % 100), n));
        ahead.set(ahead.get() + Duration::from_millis(130));
        while poll(now()) {}
    };
    let idle = |pause: Duration| {
        let end = Instant::now() + pause;
        while Instant::now() < end {
            poll(now());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    measure(kind, burst, idle);
}

fn main() {
    engine(false);
    engine(true);
    let timer = EventLoopTimer::<u64>::with_waker(Settings::new(), || ());
    let timer = RefCell::new(timer.expect("the settings are fine"));
    fires(
        "loop, fires",
        |now, delay, n| {
            _ = timer
                .borrow_mut()
                .schedule(now, delay, n)
                .expect("there is memory")
        },
        |now| timer.borrow_mut().poll(now, |_| ()).more || !timer.borrow().is_empty(),
    );
    let timer = Settings::new().build_local::<u64>();
    let timer = RefCell::new(timer.expect("the settings are fine"));
    fires(
        "local, fires",
        |now, delay, n| {
            _ = timer
                .borrow_mut()
                .schedule(now, delay, n)
                .expect("there is memory")
        },
        |now| timer.borrow_mut().poll(now, |_| ()).more || !timer.borrow().is_empty(),
    );
}
