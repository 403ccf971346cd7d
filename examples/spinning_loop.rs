//! Loops that never block: a `LocalTimer` where the loop arms all its timers itself, and an `EventLoopTimer` where other
//! threads arm some.
//!
//! ```text
//! cargo run --release --example spinning_loop
//! ```

use std::hint::spin_loop;
use std::time::{Duration, Instant};
use tickwheel::{EventLoopTimer, LocalTimer, Settings, SpinClock};

const TICK: Duration = Duration::from_micros(10);

/// A clock that looks at the processor's counter, and reads the machine's clock only every few microseconds.
fn alone() -> Result<(), Box<dyn std::error::Error>> {
    let (clock, start) = (SpinClock::new(), Instant::now());
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
    assert!(start.elapsed() >= Duration::from_micros(200), "never early");
    Ok(())
}

/// A loop that spins needs no `poll_timeout`, and its waker does nothing.
fn with_others() -> Result<(), Box<dyn std::error::Error>> {
    let mut timer: EventLoopTimer<&str> = Settings::new().tick(TICK).build_with_waker(|| ())?;
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
