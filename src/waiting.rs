//! How a thread waits until one timer's handler has returned: what `wait_for_handler` of each front comes to.
//!
//! The owner signals nothing, so that timers for which no thread waits pay nothing. The waiting thread checks the
//! shard again, at first at once, and in the end every millisecond.

use crate::shard::ShardHandle;
use crate::types::{Key, WaitError};
use std::time::{Duration, Instant};

/// Checks before the first pause: most handlers are short.
const SPINS: u32 = 100;
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Waits until no handler of the timer that `key` names is under way or decided, for `limit` at most.
pub(crate) fn wait_for_handler<T>(
    shard: &ShardHandle<T>,
    key: Key<T>,
    limit: Duration,
) -> Result<(), WaitError> {
    if shard.is_inside_turn() {
        return Err(WaitError::InsideHandler);
    }
    // First of all: a handler that begins after this is not the timer's.
    if shard.is_pending(key) {
        return Err(WaitError::Pending);
    }
    let Some(call) = shard.call_under_way(key) else {
        return Ok(());
    };
    let is_over = || shard.call_under_way(key) != Some(call);
    let until = Instant::now().checked_add(limit);
    for _ in 0..SPINS {
        if is_over() {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    let mut pause = FIRST_PAUSE;
    while !is_over() {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(WaitError::TimedOut);
        }
        std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}
