//! The settings that a builder is given, held against the limits.
//!
//! Pure functions from a setting to its checked form, or to the error that names the cure.

use core::time::Duration;

use super::error::BuildError;
use super::limits::{MAX_BUCKETS, MAX_TICK, MIN_TICK};

/// Checks the length of a tick and gives it in nanoseconds.
pub(crate) fn check_tick(tick: Duration) -> Result<u64, BuildError> {
    if !(MIN_TICK..=MAX_TICK).contains(&tick) {
        return Err(BuildError::TickOutOfRange { tick });
    }
    Ok(crate::time::saturating_ns(tick))
}

/// Checks the buckets of a hashed wheel and rounds them up to a power of two.
pub(crate) fn check_buckets(buckets: usize) -> Result<usize, BuildError> {
    match buckets {
        1..=MAX_BUCKETS => Ok(buckets.next_power_of_two()),
        _ => Err(BuildError::BucketsOutOfRange { buckets }),
    }
}

/// Checks the number of shards.
#[cfg(feature = "threads")]
pub(crate) fn check_shards(shards: usize) -> Result<usize, BuildError> {
    match shards {
        1..=super::limits::MAX_SHARDS => Ok(shards),
        _ => Err(BuildError::ShardsOutOfRange { shards }),
    }
}

/// Checks the limit on pending timers.
pub(crate) fn check_max_pending(max_pending: usize) -> Result<usize, BuildError> {
    if max_pending == 0 { Err(BuildError::ZeroMaxPending) } else { Ok(max_pending) }
}

/// Checks one part of the budget.
pub(crate) fn check_budget(which: &'static str, value: usize) -> Result<usize, BuildError> {
    if value == 0 { Err(BuildError::ZeroBudget { which }) } else { Ok(value) }
}

/// Checks the prefix of thread names: `std` panics on a NUL in one.
#[cfg(feature = "threads")]
pub(crate) fn check_thread_name(name: &str) -> Result<(), BuildError> {
    match name.find('\0') {
        Some(at) => Err(BuildError::BadThreadName { name: name.into(), at }),
        None => Ok(()),
    }
}
