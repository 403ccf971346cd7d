//! When timers were due and when they fired.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One entry per timer, written by whatever thread schedules or fires it.
///
/// A due time is taken *before* the peer is called, so a timer that fires before it is early beyond doubt.
pub struct Book {
    origin: Instant,
    /// Payloads below this are only counted, so that the book costs next to nothing: the time of the last
    /// one is kept in entry 0.
    counted: usize,
    due: Box<[AtomicU64]>,
    fired: Box<[AtomicU64]>,
    fires: AtomicUsize,
    count: AtomicUsize,
}

/// Stands for "has not fired".
const NEVER: u64 = u64::MAX;

impl Book {
    /// A book in which every one of `timers` payloads has its times.
    #[must_use]
    pub fn new(timers: usize) -> Self {
        Self::partly_counted(0, timers)
    }

    /// A book in which payloads below `counted` are only counted, and `timers` more have their times.
    #[must_use]
    pub fn partly_counted(counted: usize, timers: usize) -> Self {
        let entries = timers + usize::from(counted > 0);
        Self {
            origin: Instant::now(),
            counted,
            due: (0..entries).map(|_| AtomicU64::new(0)).collect(),
            fired: (0..entries).map(|_| AtomicU64::new(NEVER)).collect(),
            fires: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(NEVER)
    }

    fn entry(&self, payload: u64) -> Option<usize> {
        let payload = usize::try_from(payload).ok()?;
        let first = usize::from(self.counted > 0);
        payload.checked_sub(self.counted).map(|entry| entry + first)
    }

    /// Notes that `payload` is about to be scheduled `delay` from now.
    pub fn due_in(&self, payload: u64, delay: Duration) {
        let Some(due) = self.entry(payload).and_then(|entry| self.due.get(entry)) else { return };
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(NEVER);
        // ORDERING: Relaxed: read after the timer has fired, which the peer orders after its schedule.
        due.store(self.now() + delay, Ordering::Relaxed);
    }

    /// Notes that `payload` fires now.
    pub fn fired(&self, payload: u64) {
        match self.entry(payload) {
            None => {
                // ORDERING: Relaxed: only the number matters; the time below is published by `fires`.
                let before = self.count.fetch_add(1, Ordering::Relaxed);
                if before + 1 == self.counted {
                    // ORDERING: Relaxed: published by `fires`.
                    self.fired[0].store(self.now(), Ordering::Relaxed);
                } else {
                    return;
                }
            }
            Some(entry) => {
                let Some(fired) = self.fired.get(entry) else { return };
                // ORDERING: Relaxed: published by `fires`.
                fired.store(self.now(), Ordering::Relaxed);
            }
        }
        // ORDERING: Release pairs with the Acquire in `wait_for`: who sees the count sees the times.
        self.fires.fetch_add(1, Ordering::Release);
    }

    /// Notes that the counted ones are due in `delay`.
    pub fn counted_due_in(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(NEVER);
        // ORDERING: Relaxed: as in `due_in`.
        self.due[0].store(self.now() + delay, Ordering::Relaxed);
    }

    /// Waits until `timers` have fired (all counted ones together are one); whether they have in time.
    #[must_use]
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

    /// Nanoseconds from due to fired of every timer that has fired, the counted ones left out.
    #[must_use]
    pub fn lateness(&self) -> Vec<i64> {
        let first = usize::from(self.counted > 0);
        (first..self.fired.len()).filter_map(|entry| self.late(entry)).collect()
    }

    /// Nanoseconds from the due time of the counted ones to the last of them.
    #[must_use]
    pub fn counted_lateness(&self) -> Option<i64> {
        self.late(0)
    }

    fn late(&self, entry: usize) -> Option<i64> {
        // ORDERING: Relaxed: whoever asks has called `wait_for`.
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
    fn early_late_and_missing_timers_show() {
        let book = Book::new(3);
        book.due_in(0, Duration::ZERO);
        book.due_in(1, Duration::from_secs(60));
        book.due_in(2, Duration::ZERO);
        book.fired(0);
        book.fired(1);
        assert!(book.wait_for(2, Duration::ZERO) && !book.wait_for(3, Duration::from_millis(1)));
        let lateness = book.lateness();
        assert_eq!(lateness.len(), 2);
        assert!(lateness[0] >= 0 && lateness[1] < -59_000_000_000);
    }

    #[test]
    fn counted_timers_are_one() {
        let book = Book::partly_counted(2, 1);
        book.counted_due_in(Duration::ZERO);
        book.due_in(2, Duration::ZERO);
        book.fired(0);
        assert!(!book.wait_for(1, Duration::ZERO) && book.counted_lateness().is_none());
        book.fired(1);
        book.fired(2);
        assert!(book.wait_for(2, Duration::ZERO));
        assert!(book.counted_lateness().unwrap() >= 0 && book.lateness().len() == 1);
    }
}
