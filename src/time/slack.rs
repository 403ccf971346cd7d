//! How long an owner sleeps that may fire a little later.

use super::{TickRate, Time};
use core::time::Duration;

impl TickRate {
    /// Until when to sleep if the next deadline is at `next`: until the last tick that begins at most `slack`
    /// after it, or until `next` itself.
    #[inline]
    pub(crate) fn with_slack(&self, next: Time, slack: Duration) -> Time {
        if next == Time::MAX {
            return next;
        }
        self.start_of(self.current(next.saturating_add(slack))).max(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sleep_ends_at_the_last_tick_within_the_slack() {
        let (rate, at) = (TickRate::new(10), Time::from_nanos);
        let until = |next, slack| rate.with_slack(at(next), Duration::from_nanos(slack)).as_nanos();
        assert_eq!((until(20, 0), until(20, 9), until(20, 10), until(20, 39)), (20, 20, 30, 50));
        assert_eq!((until(25, 0), until(25, 4), until(25, 5)), (25, 25, 30), "never before `next`");
        assert_eq!(until(u64::MAX, 5), u64::MAX, "never stays never");
        let next = at(u64::MAX - 100);
        assert!(rate.with_slack(next, Duration::MAX) >= next);
    }
}
