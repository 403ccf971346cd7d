//! The books: each timer carries an entry, which is ended by whoever takes it, once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel::{Expired, Unfired};

use crate::findings::{Breach, Findings};
use crate::measure::LiveCount;

/// How many timers have begun, and how they have ended.
#[derive(Default)]
pub(super) struct Book {
    begun: LiveCount,
    fired: LiveCount,
    cancelled: LiveCount,
    /// By a stop, or to a caller whose schedule was refused.
    returned: LiveCount,
    early: LiveCount,
    /// Dropped by the library, which has no reason to.
    dropped: LiveCount,
}

impl Book {
    /// What a sample counts: timers that have begun, that have ended, and that have fired.
    pub(super) fn sample(&self) -> [u64; 3] {
        let (fired, others) = (self.fired.get(), self.cancelled.get() + self.returned.get());
        [self.begun.get(), fired + others, fired]
    }

    /// Notes what is wrong once nothing is pending. Returns how many timers there were, and how they have ended.
    pub(super) fn balance(&self, findings: &mut Findings) -> (u64, [u64; 3]) {
        let ends = [&self.fired, &self.cancelled, &self.returned].map(LiveCount::get);
        let (begun, dropped) = (self.begun.get(), self.dropped.get());
        let ended: u64 = ends.iter().sum();
        for _ in 0..self.early.get() {
            findings.add(Breach::Early, "fired before its time".into());
        }
        for _ in 0..dropped {
            findings.add(Breach::Lost, "dropped by the library".into());
        }
        for _ in (ended + dropped)..begun {
            findings.add(Breach::Lost, "never ended, nor dropped".into());
        }
        for _ in begun..(ended + dropped) {
            findings.add(Breach::Twice, "ended more often than begun".into());
        }
        (begun, ends)
    }
}

/// What a timer carries.
pub(super) struct Entry {
    book: Arc<Book>,
    /// Not after the timer's deadline.
    due: Instant,
    /// The engine's end may drop it, which counts as returned.
    may_drop: bool,
    has_ended: bool,
}

impl Entry {
    /// Begins an entry, for a timer that is scheduled at once.
    pub(super) fn new(book: &Arc<Book>, delay: Duration) -> Self {
        book.begun.add(1);
        Self {
            book: Arc::clone(book),
            due: Instant::now() + delay,
            may_drop: false,
            has_ended: false,
        }
    }

    pub(super) fn that_may_be_dropped(self) -> Self {
        let mut entry = self;
        entry.may_drop = true;
        entry
    }

    fn end(mut self, as_what: fn(&Book) -> &LiveCount) {
        self.has_ended = true;
        as_what(&self.book).add(1);
    }

    /// Its timer has fired, by its time unless all timers were to fire.
    pub(super) fn fired(expired: Expired<Self>, at_any_time: bool) {
        let entry = expired.payload;
        if !at_any_time && Instant::now() < entry.due {
            entry.book.early.add(1);
        }
        entry.end(|book| &book.fired);
    }

    /// Its timer was cancelled, unless that came too late.
    pub(super) fn cancelled(payload: Option<Self>) {
        if let Some(entry) = payload {
            entry.end(|book| &book.cancelled);
        }
    }

    pub(super) fn returned(self) {
        self.end(|book| &book.returned);
    }

    pub(super) fn all_returned(unfired: Vec<Unfired<Self>>) {
        for it in unfired {
            it.payload.returned();
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.has_ended {
            let book = &self.book;
            let count = if self.may_drop {
                &book.returned
            } else {
                &book.dropped
            };
            count.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Balances the books of two timers that end so.
    fn balanced(end: fn(Entry)) -> Vec<(&'static str, u64)> {
        let book = Arc::<Book>::default();
        Entry::new(&book, Duration::ZERO).returned();
        end(Entry::new(&book, Duration::ZERO));
        let mut findings = Findings::default();
        book.balance(&mut findings);
        findings.counts(&[Breach::Lost, Breach::Twice])
    }

    #[test]
    fn a_timer_that_the_library_keeps_or_drops_is_lost() {
        assert_eq!(balanced(Entry::returned), [("lost", 0), ("twice", 0)]);
        assert_eq!(balanced(drop), [("lost", 1), ("twice", 0)]);
        assert_eq!(balanced(std::mem::forget), [("lost", 1), ("twice", 0)]);
        let twice = |entry: Entry| {
            entry.book.fired.add(1);
            entry.returned();
        };
        assert_eq!(balanced(twice), [("lost", 0), ("twice", 1)]);
        let on_purpose = |entry: Entry| drop(entry.that_may_be_dropped());
        assert_eq!(balanced(on_purpose), [("lost", 0), ("twice", 0)]);
    }
}
