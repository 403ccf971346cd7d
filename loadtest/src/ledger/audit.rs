//! The last look at every slot once all threads have ended, and the verdict.

use hdrhistogram::Histogram;

use super::slot::Phase;
use super::table::{Ledger, Ticket, lock};
use super::totals::{EngineCounts, Totals};
use crate::findings::Breach;
use crate::measure::histogram;
use crate::numbers::count;
use crate::report::model::Verdict;

impl Ledger {
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
        totals: &Totals,
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
                    self.breach(Breach::Lost, ticket, "neither fired, nor cancelled, nor returned");
                }
                Phase::Cancelled | Phase::Refused | Phase::Returned if fired => {
                    self.breach(Breach::Twice, ticket, &format!("{phase:?}, and fired as well"));
                }
                _ => {}
            }
        }
        let fired = self.fired_by_shard();
        self.compare_sums(returned.len() as u64, totals, &fired);
        self.compare_engine(returned.len() as u64, totals, &fired, engine);
        let findings = lock(&self.findings);
        let (accepted, returned) = (totals.accepted(), returned.len() as u64);
        let fired = fired.iter().sum();
        let equals = if fired + totals.cancelled + returned == accepted { "=" } else { "≠" };
        let refused = totals.refused_full + totals.refused_stopped;
        let breaches = [Breach::Early, Breach::Twice, Breach::Lost, Breach::Mismatch];
        Verdict {
            began: accepted,
            balance: format!(
                "accepted {} {equals} fired {} + cancelled {} + returned {}",
                count(accepted),
                count(fired),
                count(totals.cancelled),
                count(returned),
            ),
            counts: vec![
                ("accepted", accepted),
                ("fired", fired),
                ("cancelled", totals.cancelled),
                ("returned", returned),
                ("rescheduled", totals.rescheduled),
                ("refused", refused),
                ("refused_after_stop", totals.refused_stopped),
            ],
            breaches: findings.counts(&breaches),
            findings: findings.lines(),
        }
    }

    fn audit_returned(&self, ticket: Ticket) {
        let Some(slot) = self.slots.get(ticket.slot as usize) else {
            self.breach(Breach::Mismatch, ticket, "returned, but never scheduled");
            return;
        };
        let (life, phase) = slot.life();
        if life != ticket.life {
            let what = format!("returned after it had ended (its slot is at life {life})");
            self.breach(Breach::Twice, ticket, &what);
        } else if phase != Phase::Pending {
            self.breach(Breach::Twice, ticket, &format!("returned by stop after it was {phase:?}"));
        } else if slot.fired() == life {
            slot.set_phase(life, Phase::Judged);
            self.breach(Breach::Twice, ticket, "returned by stop although its handler had run");
        } else {
            slot.set_phase(life, Phase::Returned);
        }
    }

    fn compare_sums(&self, returned: u64, totals: &Totals, fired: &[u64]) {
        let accepted = totals.accepted();
        let fired = fired.iter().sum::<u64>();
        let ended = fired + totals.cancelled + returned;
        if accepted != ended {
            self.breach_text(
                Breach::Mismatch,
                format!(
                    "accepted {accepted}, but fired {fired} + cancelled {} + returned {returned} = \
                     {ended}",
                    totals.cancelled
                ),
            );
        }
    }

    /// Holds the engine's statistics against the ledger.
    fn compare_engine(&self, returned: u64, totals: &Totals, fired: &[u64], engine: &EngineCounts) {
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let mut pairs = vec![
            ("scheduled timers".to_owned(), engine.scheduled.iter().sum(), totals.accepted()),
            ("fired timers".to_owned(), sum(&engine.fired), sum(fired)),
            ("cancelled timers".to_owned(), engine.cancelled, totals.cancelled),
            ("returned timers".to_owned(), engine.returned, returned),
            ("rescheduled timers".to_owned(), engine.rescheduled, totals.rescheduled),
            ("handler panics".to_owned(), engine.panics, 0),
            ("timers pending after stop".to_owned(), engine.pending, 0),
        ];
        let shards = engine.scheduled.len().max(totals.accepted.len());
        for shard in 0..shards {
            let at = |counts: &[u64]| counts.get(shard).copied().unwrap_or(0);
            let (theirs, ours) = (at(&engine.scheduled), at(&totals.accepted));
            pairs.push((format!("timers scheduled on shard {shard}"), theirs, ours));
            let (theirs, ours) = (at(&engine.fired), at(fired));
            pairs.push((format!("timers fired on shard {shard}"), theirs, ours));
        }
        for (what, theirs, ours) in pairs {
            if theirs != ours {
                let text =
                    format!("{what}: the engine's statistics say {theirs}, the ledger {ours}");
                self.breach_text(Breach::Mismatch, text);
            }
        }
        // Refusals after `stop` may or may not count as rejections; those for lack of room must.
        let most = totals.refused_full + totals.refused_stopped;
        if !(totals.refused_full..=most).contains(&engine.rejected) {
            let text = format!(
                "rejected timers: the engine's statistics say {}, the ledger {}",
                engine.rejected, totals.refused_full
            );
            self.breach_text(Breach::Mismatch, text);
        }
    }
}

#[cfg(test)]
mod tests;
