//! The first sleep of a process, which builds the shared engine.

use crate::support::setup::ms;
use std::process::Command;
use std::time::Instant;
use tickwheel::Time;

const FIRST: &str = "TICKWHEEL_FIRST_SLEEP";

#[test]
fn the_first_sleep_of_a_process_counts_from_its_call_and_not_from_when_the_engine_is_built() {
    if std::env::var_os(FIRST).is_some() {
        let start = Time::from(Instant::now());
        let deadline = tickwheel::sleep(ms(5)).deadline();
        let end = Time::from(Instant::now());
        assert!(deadline >= start + ms(5));
        // Nearer to the beginning of the call than to its end.
        let begun = deadline - ms(5) - start < end - (deadline - ms(5));
        std::process::exit(if begun { 0 } else { 3 });
    }
    let this = std::env::current_exe().unwrap();
    let test =
        "the_first_sleep_of_a_process_counts_from_its_call_and_not_from_when_the_engine_is_built";
    let mut counted = 0;
    for _ in 0..9 {
        let name = format!("first::{test}");
        let child = Command::new(&this)
            .args(["--exact", &name])
            .env(FIRST, "1")
            .output();
        match child.unwrap().status.code() {
            Some(0) => counted += 1,
            // The system may have taken the processor away between the two readings of the clock.
            Some(3) => {}
            code => panic!("{code:?}"),
        }
    }
    assert!(counted > 4, "only {counted} of 9");
}
