//! Netty's hashed wheel timer, which Dubbo copied, in its plainest form; and the same timers in tickwheel's wheel.
//!
//! ```text
//! cargo run --example hashed_wheel
//!
//! bucket   0    1    2    3    4    5    6    7      hand = 2: the last tick that has passed
//!          |    |    ^    |         |
//!          |    |   hand  due at 3  due at 13: one round to wait
//!          due at 8  due at 9
//! ```
//!
//! A timer lies in the bucket of its deadline's low bits. Bucket by bucket the hand goes round; a timer whose deadline
//! is more than one round ahead counts the visits that it has to wait for (scheme 6 of "Hashed and Hierarchical Timing
//! Wheels", Varghese and Lauck 1987). To schedule and to cancel takes a constant time. What the hand does takes more:
//! it stops at each tick, also where nothing is due, and it passes each far timer once a round. That is why tickwheel's
//! wheel has rings instead, each as coarse as all of the one below is long: it moves a timer once or twice in its life,
//! and skips the ticks at which nothing is due.

use std::error::Error;
use std::time::Duration;
use tickwheel::{LocalTimer, Time};

/// A timer, or the head of a bucket's ring of timers.
struct Node<T> {
    next: usize,
    previous: usize,
    /// Visits of the hand that pass before the one at which it is due.
    rounds: u64,
    /// Tells timers apart that had this place one after the other.
    number: u64,
    /// Of a timer that is pending.
    value: Option<T>,
}

/// Names a timer of a [`HashedWheel`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashedKey {
    place: usize,
    number: u64,
}

/// Timers by the low bits of their deadlines, which are ticks.
pub(crate) struct HashedWheel<T> {
    /// First the heads, one for each bucket; then the timers.
    nodes: Vec<Node<T>>,
    buckets: usize,
    free: Vec<usize>,
    hand: u64,
    scheduled: u64,
}

impl<T> HashedWheel<T> {
    /// Creates a wheel of which all ticks up to `hand` have passed.
    pub(crate) fn new(buckets: usize, hand: u64) -> Self {
        let head = |place| Node {
            next: place,
            previous: place,
            rounds: 0,
            number: 0,
            value: None,
        };
        Self {
            nodes: (0..buckets).map(head).collect(),
            buckets,
            free: Vec::new(),
            hand,
            scheduled: 0,
        }
    }

    /// Returns the last tick that has passed.
    pub(crate) fn hand(&self) -> u64 {
        self.hand
    }

    /// Schedules a timer; one whose deadline has passed is due at the next tick.
    pub(crate) fn schedule(&mut self, deadline: u64, value: T) -> HashedKey {
        let deadline = deadline.max(self.hand + 1);
        let head = (deadline % self.buckets as u64) as usize;
        self.scheduled += 1;
        let node = Node {
            next: head,
            previous: self.nodes[head].previous,
            rounds: (deadline - self.hand - 1) / self.buckets as u64,
            number: self.scheduled,
            value: Some(value),
        };
        let (last, number) = (node.previous, node.number);
        let place = self.free.pop().unwrap_or(self.nodes.len());
        if place < self.nodes.len() {
            self.nodes[place] = node;
        } else {
            self.nodes.push(node);
        }
        (self.nodes[last].next, self.nodes[head].previous) = (place, place);
        HashedKey { place, number }
    }

    /// Takes a pending timer out.
    pub(crate) fn cancel(&mut self, key: HashedKey) -> Option<T> {
        let is_pending = self.nodes[key.place].number == key.number;
        is_pending.then(|| self.unlink(key.place)).flatten()
    }

    fn unlink(&mut self, place: usize) -> Option<T> {
        let node = &mut self.nodes[place];
        let value = node.value.take()?;
        let (previous, next) = (node.previous, node.next);
        self.nodes[previous].next = next;
        self.nodes[next].previous = previous;
        self.free.push(place);
        Some(value)
    }

    /// Lets the next tick pass and appends what is due then to `due`, in the order of the calls of `schedule`.
    pub(crate) fn advance(&mut self, due: &mut Vec<T>) {
        self.hand += 1;
        let head = (self.hand % self.buckets as u64) as usize;
        let mut place = self.nodes[head].next;
        while place != head {
            let node = &mut self.nodes[place];
            let next = node.next;
            if node.rounds > 0 {
                node.rounds -= 1;
            } else {
                due.extend(self.unlink(place));
            }
            place = next;
        }
    }
}

const MS: u64 = 1_000_000;
const BUCKETS: usize = 8;
/// The latest deadline: each timer waits for up to a hundred rounds.
const LAST: u64 = 100 * BUCKETS as u64;

/// Runs the same timers through both wheels and compares what fires at each tick of a millisecond.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut hashed = HashedWheel::new(BUCKETS, 0);
    let mut timer = LocalTimer::new(Duration::from_millis(1))?;
    for n in 0..2000 {
        let deadline = 1 + n * n % LAST;
        let here = hashed.schedule(deadline, n);
        let there = timer.schedule(Time::ZERO, Time::from_nanos(deadline * MS), n)?;
        if n % 3 == 0 {
            assert_eq!(hashed.cancel(here), Some(n));
            assert_eq!(hashed.cancel(here), None, "a timer is cancelled once");
            assert_eq!(timer.cancel(there).into_payload(), Some(n));
        }
    }

    let mut fired = 0;
    while hashed.hand() < LAST {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        hashed.advance(&mut here);
        let tick = hashed.hand();
        timer.poll(Time::from_nanos(tick * MS), |expired| {
            there.push(expired.payload);
        });
        assert_eq!(here, there, "at tick {tick}");
        fired += here.len();
    }
    println!("{fired} timers fired at the same ticks, in the same order");

    // A timer of a year is one step for the one wheel. The other one would stop at 31 536 000 000 ticks.
    let year = Time::from_nanos(365 * 24 * 3600 * 1000 * MS);
    timer.schedule(Time::from_nanos(LAST * MS), year, 0)?;
    let polled = timer.poll(year, |_| println!("a year later another one"));
    assert_eq!((fired, polled.fired), (1333, 1));
    Ok(())
}
