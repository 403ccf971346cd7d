//! What was promised and what came, kept by the process that asks and receives, without a look at Redis.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::REDELIVER_AFTER;
use crate::job::{JobId, Queue};

/// How long a consumer may hold a job, in milliseconds.
const HOLD_MS: u64 = REDELIVER_AFTER.as_millis() as u64;

/// One job.
#[derive(Debug, Default)]
pub(super) struct Entry {
    accepted: bool,
    /// Before this it must not come: the last deadline that was acknowledged.
    not_before_ms: u64,
    /// The deadline with which it was made.
    made_for_ms: u64,
    /// What came by this moment may have been taken back before the job was cancelled or moved, because the consumer
    /// had not ended it in time. 0 if it was neither.
    taken_back_ms: u64,
    cancelled: bool,
    /// A consumer had it by then, so it may have come.
    held: bool,
    /// It never works, so it must end among the dead.
    poison: bool,
    dead: bool,
    /// It has fired and come while its queue was paused.
    in_pause: bool,
    /// Each time that it came: handed over or arrived, whichever was earlier.
    came_ms: Vec<u64>,
}

impl Entry {
    /// It is to come at this moment.
    pub(super) fn accept(&mut self, due_ms: u64, poison: bool) {
        (self.accepted, self.poison) = (true, poison);
        (self.made_for_ms, self.not_before_ms) = (due_ms, due_ms);
    }

    /// By the answer that came at `answered_ms` it does not come any more; `held` if a consumer had it by then.
    pub(super) fn cancel(&mut self, answered_ms: u64, held: bool) {
        (self.cancelled, self.held) = (true, held);
        self.taken_back_ms = answered_ms.saturating_sub(HOLD_MS);
    }

    /// By the answer that came at `answered_ms` it comes at another moment.
    pub(super) fn defer(&mut self, answered_ms: u64, due_ms: u64) {
        self.not_before_ms = due_ms;
        self.taken_back_ms = answered_ms.saturating_sub(HOLD_MS);
    }

    /// It comes at the moment that is known, or at this one.
    pub(super) fn defer_perhaps(&mut self, due_ms: u64) {
        self.not_before_ms = self.not_before_ms.min(due_ms);
    }

    /// Whether it came at `came_ms` before it was cancelled or moved, and waited again by then.
    fn is_taken_back(&self, came_ms: u64) -> bool {
        came_ms <= self.taken_back_ms && (self.cancelled || came_ms < self.not_before_ms)
    }

    /// When it came without being taken back.
    fn came(&self) -> impl Iterator<Item = u64> {
        let came_ms = self.came_ms.iter().copied();
        came_ms.filter(|&came| !self.is_taken_back(came))
    }

    /// A time at which it came too early, and the deadline that held then.
    fn too_early(&self) -> Option<(u64, u64)> {
        let came = self
            .came_ms
            .iter()
            .map(|&came| match self.is_taken_back(came) {
                true => (came, self.made_for_ms),
                false => (came, self.not_before_ms),
            });
        came.filter(|(came, due)| came < due).min()
    }
}

/// The books.
#[derive(Debug, Default)]
pub(super) struct Books {
    jobs: HashMap<JobId, Entry>,
    /// Since when the queue that is not the default one hands nothing out, while that is so.
    pub(super) paused_from: Option<u64>,
    /// Requests that no node has answered: these jobs may come or not.
    pub(super) unsure: usize,
    /// Correct requests that were refused.
    pub(super) refused: u64,
}

/// What the books say in the end.
#[derive(Debug, Default)]
pub(super) struct Audit {
    accepted: u64,
    delivered: u64,
    cancelled: u64,
    dead: u64,
    /// Broken promises, each with its jobs.
    pub(super) breaches: BTreeMap<&'static str, Vec<String>>,
}

impl Books {
    pub(super) fn job(&mut self, id: &JobId) -> &mut Entry {
        self.jobs.entry(id.clone()).or_default()
    }

    /// A delivery has come.
    pub(super) fn came(&mut self, id: &JobId, fired_ms: u64, arrived_ms: u64) {
        let is_paused = self.paused_from.is_some_and(|from| fired_ms >= from);
        let job = self.job(id);
        job.in_pause |= is_paused && id.queue() != Queue::default();
        job.came_ms.push(fired_ms.min(arrived_ms));
    }

    /// The nodes say that these jobs are dead. Returns whether all poison is among them.
    pub(super) fn buried(&mut self, ids: &[JobId]) -> bool {
        ids.iter().for_each(|id| self.job(id).dead = true);
        self.jobs.values().all(|job| job.dead || !job.poison)
    }

    /// Whether everything that was accepted has come or was cancelled.
    pub(super) fn balance(&self) -> bool {
        self.jobs
            .values()
            .all(|job| !job.accepted || job.cancelled || job.came().next().is_some())
    }

    pub(super) fn audit(&self) -> Audit {
        let mut audit = Audit::default();
        self.jobs.iter().for_each(|(id, job)| audit.judge(id, job));
        // A job whose acceptance nobody heard of may come.
        if audit
            .breaches
            .get("unknown")
            .is_some_and(|jobs| jobs.len() <= self.unsure)
        {
            audit.breaches.remove("unknown");
        }
        if self.refused > 0 {
            audit.breach("refused", format!("{} correct requests", self.refused));
        }
        // A run in which nothing happens shows nothing.
        if audit.delivered == 0 {
            audit.breach("idle", "nothing was delivered".to_owned());
        }
        audit
    }
}

impl Audit {
    fn breach(&mut self, kind: &'static str, what: String) {
        self.breaches.entry(kind).or_default().push(what);
    }

    fn judge(&mut self, id: &JobId, job: &Entry) {
        if job.in_pause {
            self.breach("in a pause", format!("{id} came"));
        }
        if !job.accepted {
            return self.breach("unknown", format!("{id} was not asked for"));
        }
        if job.poison != job.dead {
            let what = if job.dead {
                "is dead, and no poison"
            } else {
                "is poison, and not dead"
            };
            self.breach("misjudged", format!("{id} {what}"));
        }
        self.accepted += 1;
        let has_come = job.came().next().is_some();
        if job.cancelled && has_come && !job.held {
            self.breach("after cancel", format!("{id} came all the same"));
        } else if job.cancelled && job.came_ms.is_empty() {
            self.cancelled += 1;
        } else if !job.cancelled && !has_come {
            let due = job.not_before_ms;
            self.breach("lost", format!("{id}, due at {due}, has not come"));
        } else if job.dead {
            self.dead += 1;
        } else {
            self.delivered += 1;
        }
        if let Some((came, due)) = job.too_early() {
            self.breach("early", format!("{id}, due at {due}, came at {came}"));
        }
    }
}

/// The balance, and the first of each kind of breach.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            accepted,
            delivered,
            cancelled,
            dead,
            breaches,
        } = self;
        write!(
            f,
            "accepted {accepted} = delivered {delivered} + cancelled {cancelled} + dead {dead}"
        )?;
        for (kind, jobs) in breaches {
            write!(f, "; {kind} {}: {}", jobs.len(), jobs[0])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> JobId {
        format!("0-{n:016x}").parse().unwrap()
    }

    #[test]
    fn each_breach_is_found() {
        let mut books = Books::default();
        for n in 0..5 {
            books.job(&id(n)).accept(100, n == 1);
        }
        books.job(&id(1)).defer(90, 300);
        books.job(&id(2)).cancel(90, false);
        books.refused = 1;
        assert!(books.audit().breaches.contains_key("idle"));
        for (n, fired_ms) in [(0, 99), (1, 100), (2, 100), (4, 100), (9, 60)] {
            books.came(&id(n), fired_ms, fired_ms + 1);
        }
        let breaches = books.audit().breaches;
        let found: Vec<_> = breaches
            .iter()
            .map(|(kind, jobs)| (*kind, jobs.len()))
            .collect();
        let kinds = [
            "after cancel",
            "early",
            "lost",
            "misjudged",
            "refused",
            "unknown",
        ];
        assert_eq!(
            found,
            kinds.map(|kind| (kind, if kind == "early" { 2 } else { 1 }))
        );
        assert!(books.buried(&[id(1)]));
        assert!(!books.audit().breaches.contains_key("misjudged"));
        assert!(books.buried(&[id(4)]));
        assert!(
            books.audit().breaches.contains_key("misjudged"),
            "dead, and no poison"
        );
        let mailed: JobId = "0-0000000000000007-mail".parse().unwrap();
        books.paused_from = Some(500);
        books.came(&id(0), 500, 501);
        books.came(&mailed, 499, 501);
        assert!(!books.audit().breaches.contains_key("in a pause"));
        books.came(&mailed, 500, 501);
        assert_eq!(books.audit().breaches["in a pause"].len(), 1);
        books.jobs.remove(&mailed);
        books.unsure = 1;
        let audit = books.audit();
        assert!(
            !audit.breaches.contains_key("unknown"),
            "it may have been accepted unheard"
        );
        let said = audit.to_string();
        assert!(
            said.starts_with("accepted 5 = delivered 1 + cancelled 0 + dead 2; after"),
            "{said}"
        );
    }

    #[test]
    fn a_job_whose_acceptance_nobody_heard_of_may_be_dead() {
        let mut books = Books {
            unsure: 1,
            ..Books::default()
        };
        books.job(&id(0)).accept(100, false);
        books.came(&id(0), 100, 101);
        books.came(&id(9), 100, 101);
        books.buried(&[id(9)]);
        let breaches = books.audit().breaches;
        assert!(breaches.is_empty(), "{breaches:?}");
    }

    #[test]
    fn what_came_before_a_change_counts_unless_its_hold_had_ended_by_then() {
        let mut books = Books::default();
        for n in 0..8 {
            books.job(&id(n)).accept(100, false);
        }
        let late = 100 + HOLD_MS;
        books.job(&id(0)).cancel(late, false);
        books.job(&id(1)).cancel(late - 1, false);
        books.job(&id(2)).cancel(late, false);
        books.job(&id(3)).defer(late, 9000);
        books.job(&id(4)).defer(late - 1, 9000);
        books.job(&id(5)).defer(late, 9000);
        books.job(&id(6)).defer(late, 9000);
        // The answer to this move came long after the job.
        books.job(&id(7)).defer(9000 + 2 * HOLD_MS, 9000);
        let comes = |books: &mut Books, n, ms| books.came(&id(n), ms, ms);
        for n in 0..6 {
            comes(&mut books, n, 100);
        }
        comes(&mut books, 2, 101);
        comes(&mut books, 6, 99);
        for n in [3, 4, 6, 7] {
            assert!(!books.balance());
            comes(&mut books, n, 9000);
        }
        assert!(!books.balance(), "5 was taken back, and has not come again");
        let audit = books.audit();
        let found: Vec<_> = audit.breaches.into_iter().collect();
        let [cancelled, early, lost] = found.as_slice() else {
            panic!("{found:?}");
        };
        let named = |(kind, jobs): &(&str, Vec<String>), numbers: &[u64]| {
            let ids = numbers.iter().map(|n| id(*n).to_string());
            let mut jobs: Vec<_> = jobs.iter().map(|job| job[..18].to_owned()).collect();
            jobs.sort();
            assert_eq!(jobs, ids.collect::<Vec<_>>(), "{kind}");
        };
        named(cancelled, &[1, 2]);
        named(early, &[4, 6]);
        named(lost, &[5]);
    }
}
