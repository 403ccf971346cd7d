//! The last look at every slot once all threads have ended, and the verdict.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::slot::Phase;
use super::{Book, Kind, Ticket, histogram, lock};

/// What the producers counted, all lanes together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Timers the engine accepted, by the shard named in the key.
    pub(crate) accepted: Vec<u64>,
    /// Cancels won.
    pub(crate) cancelled: u64,
    /// Timers refused because too many were pending.
    pub(crate) refused_full: u64,
    /// Timers refused because the engine had stopped.
    pub(crate) refused_stopped: u64,
    /// Reschedules that moved their timer.
    pub(crate) rescheduled: u64,
}

impl Tally {
    /// Timers accepted on all shards.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.iter().sum()
    }

    /// Counts a timer accepted on `shard`.
    #[inline]
    pub(crate) fn accept(&mut self, shard: usize) {
        if shard >= self.accepted.len() {
            self.accepted.resize(shard + 1, 0);
        }
        self.accepted[shard] += 1;
    }

    /// Adds another producer's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        for (shard, count) in other.accepted.iter().enumerate() {
            if shard >= self.accepted.len() {
                self.accepted.resize(shard + 1, 0);
            }
            self.accepted[shard] += count;
        }
        self.cancelled += other.cancelled;
        self.refused_full += other.refused_full;
        self.refused_stopped += other.refused_stopped;
        self.rescheduled += other.rescheduled;
    }
}

/// The engine's own statistics after `stop`, to be held against the books.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct EngineCounts {
    pub(crate) scheduled: Vec<u64>,
    pub(crate) fired: Vec<u64>,
    pub(crate) cancelled: u64,
    pub(crate) returned: u64,
    pub(crate) rescheduled: u64,
    pub(crate) rejected: u64,
    pub(crate) panics: u64,
    pub(crate) pending: u64,
}

/// The judgement over a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) accepted: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
    pub(crate) returned: u64,
    pub(crate) refused: u64,
    /// Of the refused, those that came after `stop`.
    pub(crate) refused_after_stop: u64,
    pub(crate) rescheduled: u64,
    pub(crate) early: u64,
    pub(crate) twice: u64,
    pub(crate) lost: u64,
    pub(crate) mismatches: u64,
    /// `kind: description`, the first of each kind.
    pub(crate) evidence: Vec<String>,
}

impl Verdict {
    /// Whether nothing at all was found.
    pub(crate) fn is_ok(&self) -> bool {
        self.early == 0 && self.twice == 0 && self.lost == 0 && self.mismatches == 0
    }

    /// "ok" or "breach".
    pub(crate) fn word(&self) -> &'static str {
        if self.is_ok() { "ok" } else { "breach" }
    }
}

impl Book {
    /// Timers fired, by shard. Exact once all threads have ended.
    pub(crate) fn fired_by_shard(&self) -> Vec<u64> {
        self.shards.iter().map(|record| lock(record).fired).collect()
    }

    /// How late timers fired, in nanoseconds, all shards together.
    pub(crate) fn lateness(&self) -> Histogram<u64> {
        let mut all = histogram();
        for record in &self.shards {
            all.add(&lock(record).lateness).expect("all lateness histograms have the same bounds");
        }
        all
    }

    /// Judges the run. Producers and workers must have ended; `returned` is what `stop` gave back.
    pub(crate) fn audit(
        &self,
        returned: &[Ticket],
        tally: &Tally,
        engine: &EngineCounts,
    ) -> Verdict {
        for &ticket in returned {
            self.audit_returned(ticket);
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let (life, phase) = slot.life();
            let ticket = Ticket { slot: index as u32, life };
            let fired = slot.fired() == life;
            match phase {
                Phase::Pending if !fired => {
                    self.breach(Kind::Lost, ticket, "neither fired, nor cancelled, nor returned");
                }
                Phase::Cancelled | Phase::Refused | Phase::Returned if fired => {
                    self.breach(Kind::Twice, ticket, &format!("{phase:?}, and fired as well"));
                }
                _ => {}
            }
        }
        let fired = self.fired_by_shard();
        self.compare_sums(returned.len() as u64, tally, &fired);
        self.compare_engine(returned.len() as u64, tally, &fired, engine);
        let evidence = lock(&self.evidence);
        Verdict {
            accepted: tally.accepted(),
            fired: fired.iter().sum(),
            cancelled: tally.cancelled,
            returned: returned.len() as u64,
            refused: tally.refused_full + tally.refused_stopped,
            refused_after_stop: tally.refused_stopped,
            rescheduled: tally.rescheduled,
            early: evidence.count(Kind::Early),
            twice: evidence.count(Kind::Twice),
            lost: evidence.count(Kind::Lost),
            mismatches: evidence.count(Kind::Mismatch),
            evidence: evidence.lines(),
        }
    }

    fn audit_returned(&self, ticket: Ticket) {
        let Some(slot) = self.slots.get(ticket.slot as usize) else {
            self.breach(Kind::Mismatch, ticket, "returned, but never scheduled");
            return;
        };
        let (life, phase) = slot.life();
        if life != ticket.life {
            let what = format!("returned after it had ended (its slot is at life {life})");
            self.breach(Kind::Twice, ticket, &what);
        } else if phase != Phase::Pending {
            self.breach(Kind::Twice, ticket, &format!("returned by stop after it was {phase:?}"));
        } else if slot.fired() == life {
            slot.set_phase(life, Phase::Judged);
            self.breach(Kind::Twice, ticket, "returned by stop although its handler had run");
        } else {
            slot.set_phase(life, Phase::Returned);
        }
    }

    fn compare_sums(&self, returned: u64, tally: &Tally, fired: &[u64]) {
        let accepted = tally.accepted();
        let fired = fired.iter().sum::<u64>();
        let ended = fired + tally.cancelled + returned;
        if accepted != ended {
            self.breach_text(
                Kind::Mismatch,
                format!(
                    "accepted {accepted}, but fired {fired} + cancelled {} + returned {returned} = \
                     {ended}",
                    tally.cancelled
                ),
            );
        }
    }

    /// Holds the engine's statistics against the books.
    fn compare_engine(&self, returned: u64, tally: &Tally, fired: &[u64], engine: &EngineCounts) {
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let mut pairs = vec![
            ("scheduled timers".to_owned(), engine.scheduled.iter().sum(), tally.accepted()),
            ("fired timers".to_owned(), sum(&engine.fired), sum(fired)),
            ("cancelled timers".to_owned(), engine.cancelled, tally.cancelled),
            ("returned timers".to_owned(), engine.returned, returned),
            ("rescheduled timers".to_owned(), engine.rescheduled, tally.rescheduled),
            ("handler panics".to_owned(), engine.panics, 0),
            ("timers pending after stop".to_owned(), engine.pending, 0),
        ];
        let shards = engine.scheduled.len().max(tally.accepted.len());
        for shard in 0..shards {
            let at = |counts: &[u64]| counts.get(shard).copied().unwrap_or(0);
            let (theirs, ours) = (at(&engine.scheduled), at(&tally.accepted));
            pairs.push((format!("timers scheduled on shard {shard}"), theirs, ours));
            let (theirs, ours) = (at(&engine.fired), at(fired));
            pairs.push((format!("timers fired on shard {shard}"), theirs, ours));
        }
        for (what, theirs, ours) in pairs {
            if theirs != ours {
                let text =
                    format!("{what}: the engine's statistics say {theirs}, the books {ours}");
                self.breach_text(Kind::Mismatch, text);
            }
        }
        // Refusals after `stop` may or may not count as rejections; those for lack of room must.
        let most = tally.refused_full + tally.refused_stopped;
        if !(tally.refused_full..=most).contains(&engine.rejected) {
            let text = format!(
                "rejected timers: the engine's statistics say {}, the books {}",
                engine.rejected, tally.refused_full
            );
            self.breach_text(Kind::Mismatch, text);
        }
    }
}

#[cfg(test)]
mod tests;
