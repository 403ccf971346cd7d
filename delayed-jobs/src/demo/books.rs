//! What was promised and what came, kept by the process that asks and receives, without a look at Redis.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::job::{JobId, Queue};

/// One job.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) accepted: bool,
    /// Before this it must not come: the last deadline that was acknowledged.
    pub(super) not_before_ms: u64,
    pub(super) cancelled: bool,
    /// A consumer had it by then, so it may have come.
    pub(super) held: bool,
    /// It never works, so it must end among the dead.
    pub(super) poison: bool,
    dead: bool,
    /// It has fired and come while its queue was paused.
    in_pause: bool,
    /// When it first came: handed over or arrived, whichever was earlier.
    came_ms: Option<u64>,
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
        job.came_ms.get_or_insert(fired_ms.min(arrived_ms));
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
            .all(|job| !job.accepted || job.cancelled || job.came_ms.is_some())
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
        let due = job.not_before_ms;
        match (job.cancelled, job.came_ms) {
            (true, None) => self.cancelled += 1,
            (true, Some(_)) if !job.held => {
                self.breach("after cancel", format!("{id} came all the same"))
            }
            (false, None) => self.breach("lost", format!("{id}, due at {due}, has not come")),
            (_, Some(_)) if job.dead => self.dead += 1,
            (_, Some(_)) => self.delivered += 1,
        }
        if let Some(came) = job.came_ms.filter(|came| *came < due) {
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
            *books.job(&id(n)) = Entry {
                accepted: true,
                not_before_ms: 100,
                ..Entry::default()
            };
        }
        books.job(&id(1)).not_before_ms = 300;
        books.job(&id(1)).poison = true;
        books.job(&id(2)).cancelled = true;
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
        books.job(&id(0)).accepted = true;
        books.came(&id(0), 100, 101);
        books.came(&id(9), 100, 101);
        books.buried(&[id(9)]);
        let breaches = books.audit().breaches;
        assert!(breaches.is_empty(), "{breaches:?}");
    }
}
