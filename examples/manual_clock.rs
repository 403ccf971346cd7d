//! A test of code that uses timers, on a clock that the test turns: no sleeping, no flakiness.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tickwheel::{Builder, Drive, Expired, ManualClock};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let alarms = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&alarms);
    // `Drive::Manual`: no threads; timers fire inside of `turn`, in this thread.
    let timer = Builder::new()
        .shards(1)
        .clock(clock.clone())
        .drive(Drive::Manual)
        .build_with(move |_: Expired<&str>| {
            seen.fetch_add(1, Ordering::Relaxed);
        })?;

    timer.schedule(Duration::from_secs(3600), "lease expires")?;
    clock.advance(Duration::from_secs(3600) - Duration::from_millis(1));
    assert_eq!(timer.turn()?, 0, "never early");
    clock.advance(Duration::from_millis(1));
    assert_eq!(timer.turn()?, 1, "exactly in time");
    assert_eq!(alarms.load(Ordering::Relaxed), 1);
    println!("an hour has passed in no time");
    Ok(())
}
