//! A payload of your own type: nothing is boxed, one handler gets all timers, and a timer is named by a
//! small `Copy` key that can lie in your own structures.

use std::sync::mpsc;
use std::time::Duration;
use tickwheel::{Builder, Expired};

/// What a timer means.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Alarm {
    CloseIdle { connection: u32 },
    Retry { request: u64 },
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (sender, alarms) = mpsc::channel();
    let timer = Builder::new().tick(Duration::from_millis(1)).build_with(
        move |expired: Expired<Alarm>| {
            sender
                .send((expired.payload, expired.lateness))
                .expect("main listens until the end");
        },
    )?;

    let close = Alarm::CloseIdle { connection: 7 };
    let idle = timer.schedule(Duration::from_millis(300), close)?;
    timer.schedule(Duration::from_millis(10), Alarm::Retry { request: 1 })?;

    // Data came on the connection: its deadline moves out, which costs a few stores.
    assert!(
        timer
            .reschedule(idle, Duration::from_millis(500))
            .is_moved()
    );

    for expected in [Alarm::Retry { request: 1 }, close] {
        let (alarm, lateness) = alarms.recv()?;
        assert_eq!(alarm, expected);
        println!("{alarm:?}, {lateness:?} late");
    }
    // The key is stale now. Using it is harmless, whatever has been scheduled since.
    assert!(!timer.cancel(idle).is_won());
    Ok(())
}
