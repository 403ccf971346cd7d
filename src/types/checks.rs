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

#[cfg(test)]
mod tests {
    use super::super::error::tests::says;
    use super::*;

    #[test]
    fn tick_errors_name_the_tick_and_the_range() {
        let tick = |nanos| check_tick(Duration::from_nanos(nanos));
        says(tick(0).unwrap_err(), &["tick is 0", "1us to 1h", "from_millis(1)"]);
        says(tick(999).unwrap_err(), &["999ns", "1us to 1h"]);
        says(tick(3_600_000_000_001).unwrap_err(), &["3600.000000001s", "1us to 1h"]);
        assert_eq!(tick(1_000), Ok(1_000));
        assert_eq!(tick(3_600_000_000_000), Ok(3_600_000_000_000));
        says(check_tick(Duration::MAX).unwrap_err(), &["1us to 1h"]);
    }

    #[test]
    fn bucket_errors_name_the_count_and_the_range() {
        says(check_buckets(0).unwrap_err(), &["buckets is 0", "1 to 65536", "Hashed"]);
        says(check_buckets(65_537).unwrap_err(), &["65537", "1 to 65536", "Hierarchical"]);
        assert_eq!(check_buckets(65_536), Ok(65_536));
        assert_eq!((check_buckets(1), check_buckets(513)), (Ok(1), Ok(1024)));
    }

    #[test]
    fn shard_errors_name_the_number_and_the_range() {
        says(check_shards(0).unwrap_err(), &["shards is 0", "1 to 1024"]);
        says(check_shards(1025).unwrap_err(), &["1025", "1 to 1024"]);
        assert_eq!((check_shards(1), check_shards(1024)), (Ok(1), Ok(1024)));
    }

    #[test]
    fn the_other_settings_are_checked() {
        says(check_max_pending(0).unwrap_err(), &["max_pending is 0", "at least 1"]);
        says(check_budget("fire", 0).unwrap_err(), &["budget.fire is 0", "at least 1"]);
        says(check_thread_name("a\0b").unwrap_err(), &["a\\0b", "byte 1", "Builder::thread_name"]);
        assert_eq!((check_max_pending(1), check_budget("drain", 7)), (Ok(1), Ok(7)));
        assert_eq!(check_thread_name("timer"), Ok(()));
    }
}
