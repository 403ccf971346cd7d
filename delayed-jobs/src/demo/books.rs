//! What was promised and what came, kept by the process that asks and receives, without a look at Redis.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::job::JobId;
use crate::store::Delivery;

/// One job.
#[derive(Clone, Debug, Default)]
struct Entry {
    accepted: bool,
    /// Before this it must not come: the last deadline that was acknowledged.
    not_before_ms: u64,
    cancelled: bool,
    /// It never works, so it must end among the dead.
    poison: bool,
    dead: bool,
    deliveries: u64,
    /// Deliveries that a consumer has given back.
    failed: u64,
    /// The first delivery: when it was handed over, and when it arrived.
    fired_ms: u64,
    arrived_ms: u64,
}

/// The books.
#[derive(Debug, Default)]
pub(super) struct Books {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    jobs: HashMap<JobId, Entry>,
    accepted: u64,
    cancelled: u64,
    moved: u64,
    delivered: u64,
    unsure: u64,
    refused: u64,
    news: String,
}

/// What the books say in the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    pub(super) cancelled: u64,
    pub(super) moved: u64,
    pub(super) dead: u64,
    pub(super) failed: u64,
    pub(super) duplicates: u64,
    pub(super) unsure: u64,
    pub(super) early: u64,
    pub(super) lost: u64,
    pub(super) after_cancel: u64,
    /// Poison that is not dead, and dead jobs that are no poison.
    pub(super) misjudged: u64,
    pub(super) refused: u64,
    pub(super) unknown: u64,
    /// The first of each kind of breach.
    pub(super) findings: Vec<String>,
    /// From each job's time to its hand-over, and to its arrival, in milliseconds.
    pub(super) late_ms: Vec<(u64, u64)>,
}

impl Books {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn accepted(&self, id: &JobId, due_ms: u64) {
        let mut inner = self.lock();
        let entry = inner.jobs.entry(id.clone()).or_default();
        entry.accepted = true;
        entry.not_before_ms = due_ms;
        inner.accepted += 1;
    }

    /// An accepted job never works.
    pub(super) fn poison(&self, id: &JobId) {
        self.lock().jobs.entry(id.clone()).or_default().poison = true;
    }

    /// A consumer has given a delivery back.
    pub(super) fn failed(&self, id: &JobId) {
        self.lock().jobs.entry(id.clone()).or_default().failed += 1;
    }

    /// The nodes say that these jobs are dead. Returns whether all poison is among them.
    pub(super) fn buried(&self, ids: &[JobId]) -> bool {
        let mut inner = self.lock();
        for id in ids {
            inner.jobs.entry(id.clone()).or_default().dead = true;
        }
        inner.jobs.values().all(|entry| entry.dead || !entry.poison)
    }

    /// No node has answered; the job may come or not.
    pub(super) fn unsure(&self) {
        self.lock().unsure += 1;
    }

    /// A correct request was refused.
    pub(super) fn refused(&self) {
        self.lock().refused += 1;
    }

    pub(super) fn cancelled(&self, id: &JobId) {
        let mut inner = self.lock();
        inner.jobs.entry(id.clone()).or_default().cancelled = true;
        inner.cancelled += 1;
    }

    pub(super) fn moved(&self, id: &JobId, due_ms: u64) {
        let mut inner = self.lock();
        inner.jobs.entry(id.clone()).or_default().not_before_ms = due_ms;
        inner.moved += 1;
    }

    /// A move came too late, or its answer was lost and it came too late when it was asked for again: the
    /// job has fired at one of the two deadlines.
    pub(super) fn perhaps_moved(&self, id: &JobId, due_ms: u64) {
        let mut inner = self.lock();
        let entry = inner.jobs.entry(id.clone()).or_default();
        entry.not_before_ms = entry.not_before_ms.min(due_ms);
    }

    pub(super) fn delivered(&self, delivery: &Delivery, arrived_ms: u64) {
        let mut inner = self.lock();
        let entry = inner.jobs.entry(delivery.id.clone()).or_default();
        entry.deliveries += 1;
        if entry.deliveries == 1 {
            entry.fired_ms = delivery.fired_ms;
            entry.arrived_ms = arrived_ms;
            inner.delivered += 1;
        }
    }

    pub(super) fn tell(&self, news: String) {
        self.lock().news = news;
    }

    pub(super) fn news(&self) -> String {
        self.lock().news.clone()
    }

    /// Accepted, and delivered at least once.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.accepted, inner.delivered)
    }

    /// Whether everything that was accepted has come or was cancelled.
    pub(super) fn balance(&self) -> bool {
        let done = |entry: &Entry| !entry.accepted || entry.cancelled || entry.deliveries > 0;
        self.lock().jobs.values().all(done)
    }

    pub(super) fn audit(&self) -> Audit {
        let inner = self.lock();
        let mut audit = Audit {
            accepted: inner.accepted,
            moved: inner.moved,
            unsure: inner.unsure,
            refused: inner.refused,
            ..Audit::default()
        };
        for (id, entry) in &inner.jobs {
            audit.judge(id, entry);
        }
        // A job whose acceptance nobody heard of may come.
        if audit.unknown > audit.unsure {
            audit.found(1, "unknown", "more jobs came than were asked for without an answer");
        } else {
            audit.unknown = 0;
        }
        if audit.refused > 0 {
            audit.found(audit.refused, "refused", "a correct request was refused");
        }
        audit
    }
}

impl Audit {
    fn judge(&mut self, id: &JobId, entry: &Entry) {
        self.failed += entry.failed;
        self.duplicates += entry.deliveries.saturating_sub(1 + entry.failed);
        if entry.poison != entry.dead {
            self.misjudged += 1;
            let what =
                if entry.dead { "is dead, and no poison" } else { "is poison, and not dead" };
            self.found(self.misjudged, "misjudged", &format!("{id} {what}"));
        }
        if !entry.accepted {
            self.unknown += 1;
            return;
        }
        let came = entry.deliveries > 0;
        let due = entry.not_before_ms;
        match (entry.cancelled, came) {
            (true, false) => self.cancelled += 1,
            (true, true) => {
                self.cancelled += 1;
                self.after_cancel += 1;
                self.found(self.after_cancel, "after cancel", &format!("{id} came all the same"));
            }
            (false, false) => {
                self.lost += 1;
                self.found(self.lost, "lost", &format!("{id}, due at {due}, has not come"));
            }
            (false, true) => {
                self.dead += u64::from(entry.dead);
                self.delivered += u64::from(!entry.dead);
                let late = |moment: u64| moment.saturating_sub(due);
                self.late_ms.push((late(entry.fired_ms), late(entry.arrived_ms)));
            }
        }
        if came && entry.fired_ms.min(entry.arrived_ms) < due {
            self.early += 1;
            let said = format!("{id}, due at {due}, came at {}", entry.fired_ms);
            self.found(self.early, "early", &said);
        }
    }

    fn found(&mut self, count: u64, kind: &str, what: &str) {
        if count == 1 || kind == "refused" {
            self.findings.push(format!("{kind}: {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> JobId {
        format!("0-{n:016x}").parse().unwrap()
    }

    fn came(books: &Books, n: u64, fired_ms: u64) {
        books.delivered(&Delivery::of(id(n), 0, fired_ms), fired_ms + 1);
    }

    #[test]
    fn books_that_balance_have_no_findings() {
        let books = Books::default();
        (0..4).for_each(|n| books.accepted(&id(n), 100));
        books.cancelled(&id(1));
        books.moved(&id(2), 200);
        assert!(!books.balance());
        came(&books, 0, 100);
        came(&books, 0, 100);
        came(&books, 2, 203);
        came(&books, 3, 101);
        assert!(books.balance());
        let audit = books.audit();
        assert_eq!((audit.accepted, audit.delivered, audit.cancelled), (4, 3, 1));
        assert_eq!((audit.duplicates, audit.moved), (1, 1));
        assert!(audit.findings.is_empty(), "{:?}", audit.findings);
        let mut late = audit.late_ms;
        late.sort_unstable();
        assert_eq!(late, [(0, 1), (1, 2), (3, 4)]);
    }

    #[test]
    fn each_breach_is_found() {
        let books = Books::default();
        (0..5).for_each(|n| books.accepted(&id(n), 100));
        came(&books, 0, 99);
        books.moved(&id(1), 300);
        came(&books, 1, 100);
        books.cancelled(&id(2));
        came(&books, 2, 100);
        books.poison(&id(1));
        books.perhaps_moved(&id(4), 50);
        came(&books, 4, 60);
        came(&books, 9, 60);
        books.refused();
        let audit = books.audit();
        assert_eq!((audit.early, audit.lost, audit.after_cancel), (2, 1, 1));
        assert_eq!((audit.unknown, audit.refused, audit.misjudged), (1, 1, 1));
        assert_eq!(audit.findings.len(), 6, "{:?}", audit.findings);
        assert!(books.buried(&[id(1)]));
        assert_eq!((books.audit().misjudged, books.audit().dead), (0, 1));
        assert!(books.buried(&[id(4)]));
        assert_eq!(books.audit().misjudged, 1, "dead, and no poison");
        books.unsure();
        assert_eq!(books.audit().unknown, 0, "it may have been accepted unheard");
    }
}
