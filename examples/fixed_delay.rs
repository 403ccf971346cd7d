//! Timeouts that all have one delay, in a queue: the first one set is the first one due, so there is nothing to sort.
//!
//! ```text
//! cargo run --example fixed_delay
//! ```
//!
//! An idle timeout that every message sets anew is the usual case. Set, cancel and a look at the next deadline take a
//! constant time, and a poll the number of timers that it passes. A cancelled timer keeps its place until the ones before
//! it have gone, so the queue is as long as the timers that were set within one delay. Where that is too long, or there
//! are several delays, take a [`LocalTimer`](tickwheel::LocalTimer).

use std::collections::VecDeque;
use std::error::Error;
use std::time::Duration;
use tickwheel::{Clock, ManualClock, Time};

/// Names a timer, for ever.
#[derive(Clone, Copy)]
struct Key(u64);

/// Timers with one delay.
struct Timeouts<T> {
    delay: Duration,
    /// Deadlines and payloads, the earliest first; no payload where the timer was cancelled.
    queue: VecDeque<(Time, Option<T>)>,
    /// The number of the timer in front.
    first: u64,
}

impl<T> Timeouts<T> {
    fn new(delay: Duration) -> Self {
        let queue = VecDeque::new();
        Self {
            delay,
            queue,
            first: 0,
        }
    }

    /// Sets a timer. The times of all calls must not go back.
    fn set(&mut self, now: Time, payload: T) -> Key {
        self.queue.push_back((now + self.delay, Some(payload)));
        Key(self.first + self.queue.len() as u64 - 1)
    }

    /// Returns the payload of a timer that is pending.
    fn cancel(&mut self, key: Key) -> Option<T> {
        let place = usize::try_from(key.0.checked_sub(self.first)?).ok()?;
        let payload = self.queue.get_mut(place)?.1.take();
        self.drop_cancelled();
        payload
    }

    fn next_deadline(&self) -> Option<Time> {
        self.queue.front().map(|(deadline, _)| *deadline)
    }

    /// Returns the payload of the first timer that is due, if one is.
    fn pop_due(&mut self, now: Time) -> Option<T> {
        if self.next_deadline()? > now {
            return None;
        }
        let (_, payload) = self.pop()?;
        self.drop_cancelled();
        payload
    }

    /// Keeps a timer that is pending in front.
    fn drop_cancelled(&mut self) {
        while self
            .queue
            .front()
            .is_some_and(|(_, payload)| payload.is_none())
        {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<(Time, Option<T>)> {
        self.first += 1;
        self.queue.pop_front()
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let mut idle = Timeouts::new(Duration::from_secs(30));
    let mut keys: Vec<Key> = (0..3).map(|number| idle.set(clock.now(), number)).collect();

    // Connection 1 sends something every ten seconds, and connection 2 is closed by its client.
    for _ in 0..4 {
        let now = Clock::now(&clock) + Duration::from_secs(10);
        clock.set(now);
        while let Some(number) = idle.pop_due(now) {
            println!("{now}: connection {number} was idle");
            assert_eq!((number, now), (0, Time::from_secs(30)));
        }
        let number = idle.cancel(keys[1]).ok_or("it is pending")?;
        keys[1] = idle.set(now, number);
        idle.cancel(keys[2]);
    }
    assert_eq!(idle.next_deadline(), Some(Time::from_secs(70)));
    assert!(idle.cancel(keys[0]).is_none(), "it has fired");
    Ok(())
}
