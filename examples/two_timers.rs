//! Two timers of different payloads and ticks in one loop: they share its waker and its clock, and the loop sleeps for the
//! shorter of their timeouts.

use mio::{Events, Poll, Token, Waker};
use std::sync::Arc;
use std::time::Duration;
use tickwheel::{EventLoopTimer, Settings};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
    let mut idle: EventLoopTimer<u32> = EventLoopTimer::with_mio_waker(
        Settings::new().tick(Duration::from_millis(10)),
        Arc::clone(&waker),
    )?;
    let mut retries: EventLoopTimer<&str> = EventLoopTimer::with_mio_waker(Settings::new(), waker)?;

    let mut now = idle.now();
    idle.schedule(now, Duration::from_secs(30), 17)?;
    let remote = retries.remote();
    let other = std::thread::spawn(move || {
        remote
            .schedule(Duration::from_millis(2), "again")
            .map(|_| ())
    });

    let mut events = Events::with_capacity(16);
    let mut fired = 0;
    while fired == 0 {
        // Both are asked, in every round.
        let timeouts = [idle.poll_timeout(now), retries.poll_timeout(now)];
        match poll.poll(&mut events, timeouts.into_iter().flatten().min()) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            polled => polled?,
        }
        now = idle.now();
        fired += idle
            .poll(now, |expired| println!("close {}", expired.payload))
            .fired;
        fired += retries
            .poll(now, |expired| println!("try {}", expired.payload))
            .fired;
    }
    other.join().expect("it does not panic")?;
    Ok(())
}
