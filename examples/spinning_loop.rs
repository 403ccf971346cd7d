//! Loops that never block: a `LocalTimer` where the loop arms all its timers itself, and an `EventLoopTimer` where other
//! threads arm some.
//!
//! ```text
//! cargo run --release --example spinning_loop
//! ```

use std::hint::spin_loop;
use std::time::{Duration, Instant};
use tickwheel::{EventLoopTimer, LocalTimer, MonotonicClock, Settings, Time};

const TICK: Duration = Duration::from_micros(10);

/// How far the processor's counter moves between two readings of the clock: 2 us on one of 5 GHz, 10 us at 1 GHz. Where
/// the counter needs another instruction each call reads the clock.
const COUNTS: u64 = if cfg!(target_arch = "x86_64") {
    10_000
} else {
    0
};

/// The machine's clock for a loop that asks for the time in each round and never sleeps. It repeats the last reading
/// until the processor's counter has moved on by [`COUNTS`], because a look at the counter takes a third of the time.
/// So it is never ahead of the clock, and no timer is early. It needs a counter that never stops, as all x86-64
/// processors of today have.
pub(crate) struct SpinClock {
    clock: MonotonicClock,
    counter: u64,
    read: Time,
}

impl SpinClock {
    pub(crate) fn new() -> Self {
        let clock = MonotonicClock::new();
        let (counter, read) = (counter(), clock.now());
        Self {
            clock,
            counter,
            read,
        }
    }

    #[inline]
    pub(crate) fn now(&mut self) -> Time {
        let counter = counter();
        // The counter of another core may lie behind: that looks as if it were far ahead.
        if counter.wrapping_sub(self.counter) >= COUNTS {
            (self.counter, self.read) = (counter, self.clock.now());
        }
        self.read
    }
}

#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and common systems allow it in user space.
    #[cfg(target_arch = "x86_64")]
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}

/// A loop that arms all its timers itself.
fn alone() -> Result<(), Box<dyn std::error::Error>> {
    let (mut clock, start) = (SpinClock::new(), Instant::now());
    let mut timer = LocalTimer::new(TICK)?;
    timer.schedule(clock.now(), Duration::from_micros(50), "retransmit")?;
    timer.schedule(clock.now(), Duration::from_micros(200), "give up")?;

    let mut fired = 0;
    while fired < 2 {
        // ... look at the sockets or rings, without blocking ...
        let polled = timer.poll(clock.now(), |expired| {
            println!("{} after {:?}", expired.payload, start.elapsed());
        });
        fired += polled.fired;
        spin_loop();
    }
    // The delay counts from a reading that may be a few microseconds old.
    assert!(start.elapsed() >= Duration::from_micros(150));
    Ok(())
}

/// A loop that spins needs no `poll_timeout`, and its waker does nothing.
fn with_others() -> Result<(), Box<dyn std::error::Error>> {
    let mut timer: EventLoopTimer<&str> =
        EventLoopTimer::with_waker(Settings::new().tick(TICK), || ())?;
    let remote = timer.remote();
    let other = std::thread::spawn(move || {
        let delay = Duration::from_micros(200);
        remote.schedule(delay, "from another thread").is_ok()
    });
    timer.schedule(timer.now(), Duration::from_micros(50), "from this one")?;

    let mut fired = 0;
    while fired < 2 {
        let polled = timer.poll(timer.now(), |expired| println!("{}", expired.payload));
        fired += polled.fired;
        spin_loop();
    }
    assert!(other.join().expect("the other thread ends"));
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    alone()?;
    with_others()
}
