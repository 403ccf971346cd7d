//! One timer inside of your own `mio` loop, with a handle through which other threads schedule.

use std::io::ErrorKind;
use std::time::Duration;
use tickwheel::{EventLoopTimer, Settings};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut poll = mio::Poll::new()?;
    let mut events = mio::Events::with_capacity(128);
    let mut timer: EventLoopTimer<&str> =
        EventLoopTimer::with_mio(Settings::new(), poll.registry(), mio::Token(0))?;

    let mut now = timer.now();
    timer.schedule(now, Duration::from_millis(30), "from the loop")?;
    let remote = timer.remote();
    let other = std::thread::spawn(move || {
        // Wakes the loop if it sleeps beyond this deadline.
        remote
            .schedule(Duration::from_millis(5), "from another thread")
            .is_ok()
    });

    let mut fired = Vec::new();
    while fired.len() < 2 {
        match poll.poll(&mut events, timer.poll_timeout(now)) {
            // A signal: an empty round.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            polled => polled?,
        }
        // Sockets come here, before the timers: what has arrived beats a timeout of the same round.
        now = timer.now();
        timer.poll(now, |expired| fired.push(expired.payload));
    }
    assert!(other.join().expect("the other thread ends"));
    println!("{fired:?}");
    // On a busy machine the other thread may start late, and its timer then comes second.
    fired.sort_unstable();
    assert_eq!(fired, ["from another thread", "from the loop"]);
    Ok(())
}
