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
