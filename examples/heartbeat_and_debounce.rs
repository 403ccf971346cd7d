//! A heartbeat at a fixed rate, and a debounce that saves once a series of events has ended.

use std::sync::mpsc::channel;
use std::time::Duration;
use tickwheel::{Key, LocalTimer, MissedTicks, Period, Time, Timer};

const QUIET: Duration = Duration::from_millis(50);

/// Arms the save at the first event of a series, and moves it later at each further one.
fn event(timer: &mut LocalTimer<&'static str>, armed: &mut Option<Key<&'static str>>, now: Time) {
    let moved = armed.is_some_and(|key| timer.reschedule(now, key, QUIET).is_moved());
    if !moved {
        *armed = timer.schedule(now, QUIET, "save").ok();
    }
}

fn debounce() -> Result<(), Box<dyn std::error::Error>> {
    let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    let mut armed = None;
    let at = |ms| Time::ZERO + Duration::from_millis(ms);
    for ms in [0, 20, 40] {
        event(&mut timer, &mut armed, at(ms));
    }
    assert_eq!(timer.poll(at(89), |_| ()).fired, 0);
    assert_eq!(
        timer
            .poll(at(90), |saved| println!("{}", saved.payload))
            .fired,
        1
    );
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A fixed rate keeps its phase; `Skip` says what happens to missed beats.
    let timer = Timer::new()?;
    let (beat, beats) = channel::<u32>();
    let period = Period::fixed_rate(Duration::from_millis(2), MissedTicks::Skip);
    let heart = timer.repeat(Duration::ZERO, period, move || _ = beat.send(1))?;
    for _ in 0..3 {
        beats.recv()?;
        println!("beat");
    }
    assert!(timer.cancel(heart).is_won());
    debounce()
}
