//! The smallest use: a timer engine, a timeout that is cancelled, and one that fires.

use std::time::Duration;
use tickwheel::Timer;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One shard and one worker thread per core; `clone` gives another handle to the same engine.
    let timer = Timer::new()?;

    let timeout = timer.run_after(Duration::from_secs(5), || println!("the request timed out"))?;
    // The answer came: from here on the timeout cannot fire.
    assert!(timer.cancel(timeout).is_won());
    assert!(
        !timer.cancel(timeout).is_won(),
        "only one of cancel and fire wins, and only once"
    );

    let (sender, fired) = std::sync::mpsc::channel();
    timer.run_after(Duration::from_millis(20), move || {
        sender.send("20 ms later").unwrap_or(())
    })?;
    println!("{}", fired.recv()?);

    timer.run_after(Duration::from_secs(3600), || println!("an hour later"))?;
    println!("{} timer has not fired yet", timer.stop()?.len());
    Ok(())
}
