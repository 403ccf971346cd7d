//! What both timers do alike: the bounds of sweeping, refusals, the time that is left.

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

/// The answer to a timer for which there is no memory.
#[cold]
pub(super) fn no_memory<T>(payload: T) -> ScheduleError<T> {
    ScheduleError::new(ScheduleErrorKind::OutOfMemory, payload)
}

/// How long to sleep: from `now` to what `slack` makes of `next`; not at all where `next` has come.
pub(super) fn until(
    next: Option<Time>,
    now: Time,
    slack: impl FnOnce(Time) -> Time,
) -> Option<Duration> {
    let until = |next| if next <= now { next } else { slack(next) };
    next.map(|next| until(next).saturating_duration_since(now))
}
