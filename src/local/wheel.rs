//! The wheels of a local timer: what a tick is, and the order of a queue.

use crate::time::{TickRate, Time};
use crate::wheel::{AnyWheel, Entry, Fifo, Wheel};
use core::time::Duration;

/// A wheel that a [`LocalTimer`](crate::LocalTimer) drives. Usually a tick is one of the timer's rate.
pub trait LocalWheel: Wheel {
    /// Returns when `tick` begins.
    #[inline(always)]
    fn time_of(rate: &TickRate, tick: u64) -> Time {
        rate.start_of(tick)
    }

    /// Returns the tick of `now`.
    #[inline(always)]
    fn tick_of(rate: &TickRate, now: Time) -> u64 {
        rate.current(now)
    }

    /// Returns until when to sleep if the next deadline is `next`.
    fn with_slack(rate: &TickRate, next: Time, slack: Duration) -> Time {
        rate.with_slack(next, slack)
    }

    /// Drops dead entries at the front if the entry of node `index` was there; only a queue does.
    #[inline(always)]
    fn entry_died(&mut self, index: u32, is_live: impl Fn(&Entry) -> bool) {
        let _ = (index, is_live);
    }

    /// Drops dead entries at the front after a complete poll; only a queue does.
    #[inline(always)]
    fn poll_ended(&mut self, is_live: impl Fn(&Entry) -> bool) {
        let _ = is_live;
    }
}

impl LocalWheel for AnyWheel {}

/// A tick is a nanosecond, and the entry at the front is live, unless a poll was cut short.
impl LocalWheel for Fifo {
    #[inline(always)]
    fn time_of(_: &TickRate, tick: u64) -> Time {
        Time::from_nanos(tick)
    }

    /// Returns at most the last tick but one: a timer at the end of the scale never fires.
    #[inline(always)]
    fn tick_of(_: &TickRate, now: Time) -> u64 {
        now.as_nanos().min(u64::MAX - 1)
    }

    fn with_slack(_: &TickRate, next: Time, slack: Duration) -> Time {
        next.saturating_add(slack)
    }

    #[inline]
    fn entry_died(&mut self, index: u32, is_live: impl Fn(&Entry) -> bool) {
        if self.front().is_some_and(|front| front.index == index) {
            self.trim(is_live);
        }
    }

    #[inline]
    fn poll_ended(&mut self, is_live: impl Fn(&Entry) -> bool) {
        self.trim(is_live);
    }
}
