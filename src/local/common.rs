//! What both timers do alike: the bounds of sweeping, refusals, timeouts for a sleep.

use super::table::MAX_NODES;
use crate::time::Time;
use crate::types::{ScheduleError, ScheduleErrorKind};
use core::time::Duration;

/// Zombies that may gather between two looks at the bound: cheap enough to be lost in the cancels.
pub(super) const ZOMBIES_PER_LOOK: u32 = 64;

/// Entries that a cancel looks at when the bound is exceeded. Eight for every zombie of a look: a sweep
/// goes round a wheel twice the bound's size before a quarter more has gathered, and takes some
/// microseconds at a time.
pub(super) const SWEEP_PER_LOOK: usize = 8 * ZOMBIES_PER_LOOK as usize;

/// The answer to one timer more than `limit`, which is how many are pending.
#[cold]
pub(super) fn refusal<T>(limit: usize, payload: T) -> ScheduleError<T> {
    let kind = if limit == MAX_NODES {
        ScheduleErrorKind::OutOfNodes { shard: 0, limit: limit as u64 }
    } else {
        ScheduleErrorKind::TooManyPending { pending: limit, max_pending: limit }
    };
    ScheduleError::new(kind, payload)
}

/// From `now` to `next`; zero where `next` has come.
pub(super) fn until(next: Option<Time>, now: Time) -> Option<Duration> {
    next.map(|next| next.saturating_duration_since(now))
}

/// A timeout in whole milliseconds for `epoll_wait` and `poll`: rounded up; -1 for ever.
pub(super) fn whole_ms(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        let ms = |nanos| whole_ms(Some(Duration::from_nanos(nanos)));
        assert_eq!([ms(0), ms(1), ms(999_999), ms(1_000_000), ms(1_000_001)], [0, 1, 1, 1, 2]);
        assert_eq!(whole_ms(None), -1);
        assert_eq!(whole_ms(Some(Duration::MAX)), i32::MAX);
    }
}
