//! Runs the timers that need no operating system through their lives, on virtual time, and judges each.

#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::time::Duration;
use tickwheel::{FixedTimer, LocalTimer, Time};

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
/// # Errors
///
/// Says what a timer did that it must not do.
pub fn wheel(timers: u32) -> Result<Ends, &'static str> {
    let mut random = Random(0x9E37_79B9);
    let mut timer = LocalTimer::new(TICK).map_err(|_| "a tick of a millisecond is refused")?;
    let mut ends = Ends::default();
    // When each is due, and nothing once it has ended.
    let mut due: Vec<Option<Time>> = Vec::new();
    let mut now = Time::ZERO;
    for id in 0..timers {
        let delay = random.delay();
        let key = timer.schedule(now, delay, id).map_err(|_| "a schedule is refused")?;
        due.push(Some(now + delay));
        match random.below(3) {
            0 => {
                if timer.cancel(key).into_payload() != Some(id) {
                    return Err("a cancel of a pending timer lost");
                }
                due[id as usize] = None;
                ends.cancelled += 1;
            }
            1 => {
                let delay = random.delay();
                if !timer.reschedule(now, key, delay).moved() {
                    return Err("a pending timer was not moved");
                }
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
        let mut fault = None;
        timer.poll(now, |expired| match due[expired.payload as usize].take() {
            Some(due) if due > now => fault = Some("a timer fired early"),
            Some(due) if now > due + TICK && !overdue => fault = Some("a timer fired late"),
            Some(_) => ends.fired += 1,
            None => fault = Some("a timer ended twice"),
        });
        if let Some(fault) = fault {
            return Err(fault);
        }
    }
    if due.iter().any(Option::is_some) { Err("a timer was lost") } else { Ok(ends) }
}

/// Schedules so many timers of one delay and fires them, in their order.
///
/// # Errors
///
/// Says what a timer did that it must not do.
pub fn queue(timers: u32) -> Result<Ends, &'static str> {
    const DELAY: Duration = Duration::from_millis(50);
    const STEP: Duration = Duration::from_micros(100);
    let mut timer = FixedTimer::with_delay(DELAY);
    let (mut ends, mut now, mut next) = (Ends::default(), Time::ZERO, 0);
    let mut fault = None;
    let mut left = timers;
    while left > 0 || !timer.is_empty() {
        if left > 0 {
            let id = timers - left;
            let key = timer.schedule(now, id).map_err(|_| "a schedule is refused")?;
            left -= 1;
            if id % 4 == 3 {
                if timer.cancel(key).into_payload() != Some(id) {
                    return Err("a cancel of a pending timer lost");
                }
                ends.cancelled += 1;
            }
        }
        timer.poll(now, |expired| {
            let scheduled = Time::ZERO + STEP * expired.payload;
            if now < scheduled + DELAY {
                fault = Some("a timer fired early");
            } else if now > scheduled + DELAY + TICK {
                fault = Some("a timer fired late");
            } else if expired.payload < next {
                fault = Some("a timer fired out of its order, or twice");
            }
            next = expired.payload + 1;
            ends.fired += 1;
        });
        if let Some(fault) = fault {
            return Err(fault);
        }
        now = now + STEP;
    }
    if ends.fired + ends.cancelled == timers { Ok(ends) } else { Err("a timer was lost") }
}
