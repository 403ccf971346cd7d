//! `DelayQueue` and `LocalSleeps` on a clock turned by hand, each against a list.

#[allow(dead_code, reason = "shared with the library's tests")]
#[path = "../../../tests/futures/rig.rs"]
mod rig;

#[allow(dead_code, unreachable_pub, reason = "shared with other programs")]
#[path = "../../../tests/support"]
mod support {
    pub(crate) mod random;
    pub(crate) mod setup;
}

mod local;
mod queue;

use std::time::Duration;
use support::random::Random;
use tickwheel::{Time, When};

/// In nanoseconds, as all times of the lists.
const TICK: u64 = 1_000_000;

/// Chooses a deadline, which may have passed if it is a point in time; returns it also as a caller names it.
fn some_deadline(random: &mut Random, now: u64) -> (u64, When) {
    let ahead = if random.chance(80) {
        20 * TICK
    } else {
        3_000 * TICK
    };
    let ahead = random.below(ahead);
    if random.chance(50) {
        return (now + ahead, Duration::from_nanos(ahead).into());
    }
    let deadline = (now + ahead).saturating_sub(5 * TICK);
    (deadline, Time::from_nanos(deadline).into())
}
