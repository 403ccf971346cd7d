//! The clock that is moved by hand: whoever reads a time sees what was done before the clock was moved to it.

use super::harness::{Probe, UNBOUNDED, explore, spawn};
use crate::time::{ManualClock, Time};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Another thread writes and moves the clock by a second. If `look` finds that it has, what it wrote is there.
fn written_before(move_by_a_second: fn(&ManualClock), look: fn(&ManualClock) -> Time, moved: Time) {
    let (clock, written) = (ManualClock::new(), Arc::new(Probe::new()));
    let mover = spawn({
        let (clock, written) = (clock.clone(), Arc::clone(&written));
        move || {
            written.set(1);
            move_by_a_second(&clock);
        }
    });
    if look(&clock) >= moved {
        assert_eq!(written.get(), 1);
    }
    mover.join().unwrap();
}

fn advance(clock: &ManualClock) {
    clock.advance(SECOND);
}

fn set(clock: &ManualClock) {
    clock.set(Time::ZERO + SECOND);
}

/// Whoever reads a time sees what was done before the clock was moved to it.
#[test]
fn advanced_or_read() {
    explore(UNBOUNDED, || written_before(advance, ManualClock::now, Time::ZERO + SECOND));
}

/// Whoever reads a time sees what was done before the clock was set to it.
#[test]
fn set_or_read() {
    explore(UNBOUNDED, || written_before(set, ManualClock::now, Time::ZERO + SECOND));
}

/// An advance answers with the time that both have come to, which is as good as a reading.
#[test]
fn advanced_or_advanced() {
    let look = |clock: &ManualClock| clock.advance(SECOND);
    explore(UNBOUNDED, move || written_before(advance, look, Time::ZERO + 2 * SECOND));
}

/// So is the answer of a clock that stands further on already.
#[test]
fn set_or_set_to_less() {
    let look = |clock: &ManualClock| clock.set(Time::from_nanos(1));
    explore(UNBOUNDED, move || written_before(set, look, Time::ZERO + SECOND));
}
