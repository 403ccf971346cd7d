//! A race on purpose, which ThreadSanitizer must report: a handler and the thread that set its timer write one cell,
//! and nothing but time lies between the two.

use std::cell::UnsafeCell;
use std::thread::sleep;
use std::time::Duration;
use tickwheel::Timer;

struct Shared(UnsafeCell<u64>);

// SAFETY: a lie, for this is the race.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(0));

fn write() {
    // SAFETY: none.
    unsafe { *SHARED.0.get() += 1 }
}

fn main() {
    let timer = Timer::new().expect("an engine");
    timer
        .run_after(Duration::from_millis(1), write)
        .expect("a timer");
    sleep(Duration::from_millis(500));
    write();
}
