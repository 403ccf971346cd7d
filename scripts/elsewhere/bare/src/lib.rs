//! Runs the timers that need no operating system through their lives, on virtual time, and judges each.

#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::time::Duration;
use tickwheel_core::{LocalTimer, Time};

const TICK: Duration = Duration::from_millis(1);

/// Counts ends of timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub fired: u32,
    pub cancelled: u32,
}

/// Xorshift of 32 bits (Marsaglia, 2003).
struct Random(u32);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % bound
    }

    fn delay(&mut self) -> Duration {
        Duration::from_micros(u64::from(self.below(20_000_000)))
    }
}

/// Schedules, moves and cancels so many timers on a wheel and fires the others.
///
/// # Panics
///
/// If a timer does what it must not do.
#[must_use]
pub fn wheel(timers: u32) -> Ends {
    let mut random = Random(0x9E37_79B9);
    let mut timer = LocalTimer::new(TICK).expect("a tick of a millisecond");
    let mut ends = Ends::default();
    // When each is due, and nothing once it has ended.
    let mut due: Vec<Option<Time>> = Vec::new();
    let mut now = Time::ZERO;
    for id in 0..timers {
        let delay = random.delay();
        let key = timer.schedule(now, delay, id).expect("memory for a timer");
        due.push(Some(now + delay));
        match random.below(3) {
            0 => {
                assert_eq!(timer.cancel(key).into_payload(), Some(id), "a cancel lost");
                due[id as usize] = None;
                ends.cancelled += 1;
            }
            1 => {
                let delay = random.delay();
                assert!(timer.reschedule(now, key, delay).is_moved(), "a pending timer did not move");
                due[id as usize] = Some(now + delay);
            }
            _ => {}
        }
        now = now + Duration::from_micros(u64::from(random.below(100)));
    }
    while let Some(next) = timer.next_deadline() {
        // The first of them came due while the last were scheduled, and fire together.
        let overdue = next < now;
        now = now.max(next);
        timer.poll(now, |expired| {
            let due = due[expired.payload as usize].take().expect("a timer ends once");
            assert!(due <= now, "a timer fired early");
            assert!(overdue || now <= due + TICK, "a timer fired late");
            ends.fired += 1;
        });
    }
    assert!(due.iter().all(Option::is_none), "a timer was lost");
    ends
}

/// Schedules so many timers of one delay and fires them, in their order.
///
/// # Panics
///
/// If a timer does what it must not do.
#[must_use]
pub fn queue(timers: u32) -> Ends {
    const DELAY: Duration = Duration::from_millis(50);
    const STEP: Duration = Duration::from_micros(100);
    let mut timer = LocalTimer::default();
    let (mut ends, mut now, mut next, mut ids) = (Ends::default(), Time::ZERO, 0, 0..timers);
    while !ids.is_empty() || !timer.is_empty() {
        if let Some(id) = ids.next() {
            let key = timer.schedule(now, DELAY, id).expect("memory for a timer");
            if id % 4 == 3 {
                assert_eq!(timer.cancel(key).into_payload(), Some(id), "a cancel lost");
                ends.cancelled += 1;
            }
        }
        timer.poll(now, |expired| {
            let due = Time::ZERO + STEP * expired.payload + DELAY;
            assert!(due <= now, "a timer fired early");
            assert!(now <= due + TICK, "a timer fired late");
            assert!(expired.payload >= next, "a timer fired out of its order, or twice");
            next = expired.payload + 1;
            ends.fired += 1;
        });
        now = now + STEP;
    }
    assert_eq!(ends.fired + ends.cancelled, timers, "a timer was lost");
    ends
}
