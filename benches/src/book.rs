//! A book of the times at which timers were due and fired.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One entry per timer, written by the thread that schedules or fires it.
///
/// A due time is taken *before* the peer is called, so a timer that fires before it is early beyond doubt.
pub struct Book {
    origin: Instant,
    /// Payloads below this share entry 0 and are only counted, so that the book costs next to nothing: the time of the
    /// last one is kept.
    counted: usize,
    due: Box<[AtomicU64]>,
    fired: Box<[AtomicU64]>,
    fires: AtomicUsize,
    count: AtomicUsize,
}

/// Stands for "has not fired".
const NEVER: u64 = u64::MAX;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

impl Book {
    /// Makes a book that only counts the payloads below `counted`, and has the times of `timers` more.
    pub fn new(counted: usize, timers: usize) -> Self {
        Self {
            origin: Instant::now(),
            counted,
            due: (0..=timers).map(|_| AtomicU64::new(0)).collect(),
            fired: (0..=timers).map(|_| AtomicU64::new(NEVER)).collect(),
            fires: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }

    fn now(&self) -> u64 {
        nanos(self.origin.elapsed())
    }

    fn entry(&self, payload: u64) -> usize {
        (payload as usize + 1).saturating_sub(self.counted)
    }

    /// Notes that `payload` is about to be scheduled `delay` from now; payload 0 stands for all counted ones.
    pub fn due_in(&self, payload: u64, delay: Duration) {
        let Some(due) = self.due.get(self.entry(payload)) else {
            return;
        };
        // ORDERING: Relaxed: read after the timer has fired, which the peer orders after its schedule.
        due.store(self.now() + nanos(delay), Ordering::Relaxed);
    }

    /// Notes that `payload` fires now.
    pub fn fired(&self, payload: u64) {
        let entry = self.entry(payload);
        let Some(fired) = self.fired.get(entry) else {
            return;
        };
        // ORDERING: Relaxed: only the number matters; the time below is published by `fires`.
        if entry == 0 && self.count.fetch_add(1, Ordering::Relaxed) + 1 != self.counted {
            return;
        }
        // ORDERING: Relaxed: published by `fires`.
        fired.store(self.now(), Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `wait_for`: who sees the count sees the times.
        self.fires.fetch_add(1, Ordering::Release);
    }

    /// Waits until `timers` have fired (all counted ones together are one); returns whether they have in time.
    pub fn wait_for(&self, timers: usize, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        // ORDERING: Acquire pairs with the Release in `fired`.
        while self.fires.load(Ordering::Acquire) < timers {
            if Instant::now() > until {
                return false;
            }
            // Seldom: each look costs as much as a peer's own wake-up, and counts as its work.
            std::thread::sleep(Duration::from_millis(25));
        }
        true
    }

    /// Returns nanoseconds from due to fired of every timer that has fired, the counted ones left out.
    pub fn lateness(&self) -> Vec<i64> {
        (1..self.fired.len())
            .filter_map(|entry| self.late(entry))
            .collect()
    }

    /// Returns nanoseconds from the due time of the counted ones to the last of them.
    pub fn counted_lateness(&self) -> Option<i64> {
        self.late(0)
    }

    fn late(&self, entry: usize) -> Option<i64> {
        // ORDERING: Relaxed: the caller has called `wait_for`.
        let fired = self.fired[entry].load(Ordering::Relaxed);
        // ORDERING: Relaxed: as above.
        let due = self.due[entry].load(Ordering::Relaxed);
        (fired != NEVER).then(|| fired.cast_signed().wrapping_sub(due.cast_signed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_late_and_missing_timers_show_and_counted_ones_are_one() {
        let book = Book::new(2, 3);
        for (payload, seconds) in [(0, 0), (2, 0), (3, 60), (4, 0)] {
            book.due_in(payload, Duration::from_secs(seconds));
        }
        [2, 3, 0]
            .into_iter()
            .for_each(|payload| book.fired(payload));
        assert!(book.wait_for(2, Duration::ZERO) && !book.wait_for(3, Duration::from_millis(1)));
        let lateness = book.lateness();
        assert_eq!((lateness.len(), book.counted_lateness()), (2, None));
        assert!(lateness[0] >= 0 && lateness[1] < -59_000_000_000);
        book.fired(1);
        assert!(book.wait_for(3, Duration::ZERO) && book.counted_lateness().is_some());
    }
}
