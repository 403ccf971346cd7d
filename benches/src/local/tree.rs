//! A `BTreeMap` ordered by deadline.

use super::peer::LocalPeer;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

/// Deadline in nanoseconds, and a number that tells timers of one deadline apart.
type At = (u64, u64);

/// The tree.
#[derive(Default)]
pub struct TreePeer {
    tree: BTreeMap<At, u64>,
    now: u64,
    next: u64,
}

impl TreePeer {
    fn insert(&mut self, delay: Duration, payload: u64) -> At {
        self.next += 1;
        // A delay of the workloads is far below 584 years.
        let at = (self.now + delay.as_nanos() as u64, self.next);
        self.tree.insert(at, payload);
        at
    }
}

impl LocalPeer for TreePeer {
    type Handle = At;

    fn new(_capacity: usize) -> Self {
        Self::default()
    }

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> At {
        self.insert(delay, payload)
    }

    #[inline]
    fn cancel(&mut self, at: At) -> u64 {
        self.tree.remove(&at).expect("the timer is pending")
    }

    #[inline]
    fn rearm(&mut self, at: At, delay: Duration) -> At {
        let payload = self.cancel(at);
        self.insert(delay, payload)
    }

    fn advance(&mut self, by: Duration) -> usize {
        self.now += by.as_nanos() as u64;
        let mut fired = 0;
        while let Some(first) = self.tree.first_entry().filter(|first| first.key().0 <= self.now) {
            black_box(first.remove());
            fired += 1;
        }
        fired
    }
}
