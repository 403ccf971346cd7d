//! What was promised and what came, kept by the process that asks and receives, without a look at Redis.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::job::JobId;

/// One job.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) accepted: bool,
    /// Before this it must not come: the last deadline that was acknowledged.
    pub(super) not_before_ms: u64,
    pub(super) cancelled: bool,
    /// It never works, so it must end among the dead.
    pub(super) poison: bool,
    dead: bool,
    deliveries: u64,
    /// Deliveries that a consumer has given back.
    pub(super) failed: u64,
    /// When the first delivery was handed over, and when it arrived.
    first_ms: (u64, u64),
}

impl Entry {
    /// A delivery has come.
    pub(super) fn came(&mut self, fired_ms: u64, arrived_ms: u64) {
        if self.deliveries == 0 {
            self.first_ms = (fired_ms, arrived_ms);
        }
        self.deliveries += 1;
    }
}

/// The books.
#[derive(Debug, Default)]
pub(super) struct Books {
    jobs: HashMap<JobId, Entry>,
    pub(super) moved: u64,
    /// Requests that no node has answered: these jobs may come or not.
    pub(super) unsure: u64,
    /// Correct requests that were refused.
    pub(super) refused: u64,
}

/// What the books say in the end.
#[derive(Debug, Default)]
pub(super) struct Audit {
    counts: BTreeMap<&'static str, u64>,
    /// Broken promises, each with its jobs.
    pub(super) breaches: BTreeMap<&'static str, Vec<String>>,
    /// From each job's time to its hand-over, and to its arrival, in milliseconds.
    late_ms: [Vec<u64>; 2],
}

impl Books {
    pub(super) fn job(&mut self, id: &JobId) -> &mut Entry {
        self.jobs.entry(id.clone()).or_default()
    }

    /// The nodes say that these jobs are dead. Returns whether all poison is among them.
    pub(super) fn buried(&mut self, ids: &[JobId]) -> bool {
        ids.iter().for_each(|id| self.job(id).dead = true);
        self.jobs.values().all(|job| job.dead || !job.poison)
    }

    /// Whether everything that was accepted has come or was cancelled.
    pub(super) fn balance(&self) -> bool {
        self.jobs.values().all(|job| !job.accepted || job.cancelled || job.deliveries > 0)
    }

    pub(super) fn audit(&self) -> Audit {
        let mut audit = Audit::default();
        for (what, count) in [("moved", self.moved), ("without an answer", self.unsure)] {
            audit.count(what, count);
        }
        let unknown: Vec<&JobId> =
            self.jobs.iter().filter(|(_, job)| !job.accepted).map(|(id, _)| id).collect();
        // A job whose acceptance nobody heard of may come.
        if unknown.len() as u64 > self.unsure {
            unknown
                .iter()
                .for_each(|id| audit.breach("unknown", format!("{id} was not asked for")));
        }
        for (id, job) in &self.jobs {
            audit.judge(id, job);
        }
        if self.refused > 0 {
            audit.breach("refused", format!("{} correct requests", self.refused));
        }
        // A run in which nothing happens shows nothing.
        if !audit.counts.contains_key("delivered") {
            audit.breach("idle", "nothing was delivered".to_owned());
        }
        audit.late_ms.iter_mut().for_each(|late| late.sort_unstable());
        audit
    }
}

impl Audit {
    fn count(&mut self, what: &'static str, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }

    fn breach(&mut self, kind: &'static str, what: String) {
        self.breaches.entry(kind).or_default().push(what);
    }

    fn judge(&mut self, id: &JobId, job: &Entry) {
        self.count("given back", job.failed);
        self.count("delivered again", job.deliveries.saturating_sub(1 + job.failed));
        if job.poison != job.dead {
            let what = if job.dead { "is dead, and no poison" } else { "is poison, and not dead" };
            self.breach("misjudged", format!("{id} {what}"));
        }
        if !job.accepted {
            return;
        }
        self.count("accepted", 1);
        let (due, (fired, arrived)) = (job.not_before_ms, job.first_ms);
        match (job.cancelled, job.deliveries > 0) {
            (true, false) => self.count("cancelled", 1),
            (true, true) => self.breach("after cancel", format!("{id} came all the same")),
            (false, false) => self.breach("lost", format!("{id}, due at {due}, has not come")),
            (false, true) => {
                self.count(if job.dead { "dead" } else { "delivered" }, 1);
                self.late_ms[0].push(fired.saturating_sub(due));
                self.late_ms[1].push(arrived.saturating_sub(due));
            }
        }
        if job.deliveries > 0 && fired.min(arrived) < due {
            self.breach("early", format!("{id}, due at {due}, came at {fired}"));
        }
    }

    /// `ok`, or how often each promise was broken.
    pub(super) fn verdict(&self) -> String {
        let breaches = self.breaches.iter();
        let said: Vec<_> = breaches.map(|(kind, jobs)| format!("{kind} {}", jobs.len())).collect();
        if said.is_empty() { "ok".to_owned() } else { said.join(", ") }
    }
}

/// Counts, lateness, and the first of each kind of breach.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |what| self.counts.get(what).copied().unwrap_or_default();
        let sum = ["delivered", "cancelled", "dead"].map(|what| format!("{what} {}", count(what)));
        writeln!(f, "accepted {} = {}", count("accepted"), sum.join(" + "))?;
        for what in ["moved", "given back", "delivered again", "without an answer"] {
            writeln!(f, "{what} {}", count(what))?;
        }
        for (what, late) in ["handed over", "arrived"].into_iter().zip(&self.late_ms) {
            let at = |share: usize| late.get(late.len() * share / 1000).copied().unwrap_or(0);
            writeln!(
                f,
                "{what} late: p50 {} ms, p99 {} ms, p99.9 {} ms",
                at(500),
                at(990),
                at(999)
            )?;
        }
        for (kind, jobs) in &self.breaches {
            writeln!(f, "{kind}: {}", jobs[0])?;
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

    /// Books of so many accepted jobs, all due at 100.
    fn accepted(count: u64) -> Books {
        let mut books = Books::default();
        for n in 0..count {
            *books.job(&id(n)) = Entry { accepted: true, not_before_ms: 100, ..Entry::default() };
        }
        books
    }

    #[test]
    fn books_that_balance_have_no_findings() {
        let mut books = accepted(4);
        books.job(&id(1)).cancelled = true;
        books.job(&id(2)).not_before_ms = 200;
        assert!(!books.balance());
        for (n, fired_ms) in [(0, 100), (0, 100), (2, 203), (3, 101)] {
            books.job(&id(n)).came(fired_ms, fired_ms + 1);
        }
        assert!(books.balance());
        let audit = books.audit();
        assert_eq!(audit.verdict(), "ok");
        assert_eq!(audit.late_ms, [[0, 1, 3], [1, 2, 4]]);
        let said = audit.to_string();
        assert!(said.starts_with("accepted 4 = delivered 3 + cancelled 1 + dead 0\n"), "{said}");
        assert!(said.contains("delivered again 1\n"), "{said}");
    }

    #[test]
    fn each_breach_is_found() {
        let mut books = accepted(5);
        books.job(&id(1)).not_before_ms = 300;
        books.job(&id(1)).poison = true;
        books.job(&id(2)).cancelled = true;
        books.refused = 1;
        assert!(books.audit().breaches.contains_key("idle"));
        for (n, fired_ms) in [(0, 99), (1, 100), (2, 100), (4, 100), (9, 60)] {
            books.job(&id(n)).came(fired_ms, fired_ms + 1);
        }
        let verdict = "after cancel 1, early 2, lost 1, misjudged 1, refused 1, unknown 1";
        assert_eq!(books.audit().verdict(), verdict);
        assert!(books.buried(&[id(1)]));
        assert!(!books.audit().breaches.contains_key("misjudged"));
        assert!(books.buried(&[id(4)]));
        assert!(books.audit().breaches.contains_key("misjudged"), "dead, and no poison");
        books.unsure = 1;
        let breaches = books.audit().breaches;
        assert!(!breaches.contains_key("unknown"), "it may have been accepted unheard");
    }
}
