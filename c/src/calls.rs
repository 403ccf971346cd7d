//! What a shard is at while it calls: a worker, or a loop in its poll. Threads that wait for one callback ask for it.
//!
//! A callback has a number, one more than twice that of the callbacks before it. A thread that has found a timer ended
//! reads the number: the timer's callback has this one or the next, or is over. The callers of callbacks pay four
//! stores, signal nothing, and wait for nobody.

use super::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module. On a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Calls {
    /// The number of the callback that runs; even between two.
    number: AtomicU64,
    /// The key of that callback's timer, or of the last one's.
    key: [AtomicU64; 2],
    /// A loop polls. Engines know this themselves.
    polls: AtomicBool,
}

/// How far the callback of a timer is that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// It may be about to begin. No callback of the shard runs.
    Unknown,
    Runs,
    Over,
}

impl Calls {
    /// Calls a timer's callback. Only the thread that turns the shard does.
    #[inline]
    pub(crate) fn call(&self, key: [u64; 2], callback: impl FnOnce()) {
        // ORDERING: Relaxed: only the turning threads write, one after the other.
        let number = self.number.load(Ordering::Relaxed) + 1;
        for (place, word) in self.key.iter().zip(key) {
            // ORDERING: Release pairs with `progress`: with another key comes all that the callback before did.
            place.store(word, Ordering::Release);
        }
        // ORDERING: Release, here and below, pairs with `progress`: with the number comes the key, and with a later
        // number all that the callback did.
        self.number.store(number, Ordering::Release);
        callback();
        self.number.store(number + 1, Ordering::Release);
    }

    /// Notes that a loop begins or ends a poll.
    pub(crate) fn set_polls(&self, polls: bool) {
        // ORDERING: Release pairs with `polls`: at the end what the callbacks did. A thread that has seen a timer ended
        // by the poll sees its beginning anyway.
        self.polls.store(polls, Ordering::Release);
    }

    pub(crate) fn polls(&self) -> bool {
        // ORDERING: Acquire pairs with `set_polls`.
        self.polls.load(Ordering::Acquire)
    }

    /// Returns the number that the callback of a timer has at most which the calling thread has found ended.
    pub(crate) fn last(&self) -> u64 {
        // ORDERING: Relaxed: the timer's end brings what was stored before it.
        self.number.load(Ordering::Relaxed) | 1
    }

    /// Returns how far the callback of the timer with this key is, whose number is `last` at most. `is_turning` tells
    /// whether a thread turns the shard.
    pub(crate) fn progress(
        &self,
        key: [u64; 2],
        last: u64,
        is_turning: impl FnOnce() -> bool,
    ) -> Progress {
        // ORDERING: Acquire pairs with `call`.
        let number = self.number.load(Ordering::Acquire);
        // ORDERING: Acquire pairs with `call`. A key that is stored before the next number differs, and then the callback
        // is over.
        let is_its = || [0, 1].map(|word| self.key[word].load(Ordering::Acquire)) == key;
        if number > last || number == last && !is_its() || !is_turning() {
            Progress::Over
        } else if number < last {
            Progress::Unknown
        } else {
            Progress::Runs
        }
    }
}
