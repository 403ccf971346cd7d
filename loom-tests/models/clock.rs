//! The clock that is moved by hand: whoever reads a time sees what was done before the clock was moved to it.

use super::harness::{Probe, UNBOUNDED, explore, spawn_with};
use crate::time::{ManualClock, Time};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Another thread writes and moves the clock by a second. If `look` finds `moved`, the time that both come to, what it
/// wrote is there.
fn written_before(moves: fn(&ManualClock) -> Time, look: fn(&ManualClock) -> Time, moved: Time) {
    let shared = Arc::new((ManualClock::new(), Probe::new()));
    let (clock, written) = &*shared;
    let mover = spawn_with(&shared, move |(clock, written)| {
        written.set(1);
        moves(clock);
    });
    if look(clock) >= moved {
        assert_eq!(written.get(), 1);
    }
    mover.join().unwrap();
    assert_eq!(clock.now(), moved, "no move is lost");
}

fn advance(clock: &ManualClock) -> Time {
    clock.advance(SECOND)
}

fn set(clock: &ManualClock) -> Time {
    clock.set(Time::ZERO + SECOND)
}

/// Whoever reads a time sees what was done before the clock was moved to it.
#[test]
fn advanced_or_read() {
    explore(UNBOUNDED, || {
        written_before(advance, ManualClock::now, Time::ZERO + SECOND)
    });
}

/// Whoever reads a time sees what was done before the clock was set to it.
#[test]
fn set_or_read() {
    explore(UNBOUNDED, || {
        written_before(set, ManualClock::now, Time::ZERO + SECOND)
    });
}

/// An advance answers with the time that both have come to, which is as good as a reading.
#[test]
fn advanced_or_advanced() {
    explore(UNBOUNDED, || {
        written_before(advance, advance, Time::ZERO + 2 * SECOND)
    });
}

/// So is the answer of a clock that stands further on already.
#[test]
fn set_or_set_to_less() {
    let look = |clock: &ManualClock| clock.set(Time::from_nanos(1));
    explore(UNBOUNDED, move || {
        written_before(set, look, Time::ZERO + SECOND)
    });
}
