//! The last look at every slot once all threads have ended, and the verdict.

use tickwheel::Stats;

use super::slot::Phase;
use super::{Ledger, Ticket, Totals, lock};
use crate::findings::Breach::{Early, Lost, Mismatch, Twice};
use crate::numbers::count;
use crate::report::model::Verdict;

impl Ledger {
    /// Judges the run. Producers and workers must have ended; `returned` is what `stop` gave back, `stats` what the
    /// engine says of itself.
    pub(crate) fn audit(&self, returned: &[Ticket], totals: &Totals, stats: &Stats) -> Verdict {
        for &ticket in returned {
            self.audit_returned(ticket);
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let (life, phase) = slot.life();
            let ticket = Ticket {
                slot: index as u32,
                life,
            };
            let fired = slot.fired() == life;
            match phase {
                Phase::Pending if !fired => {
                    self.breach(Lost, ticket, "neither fired, nor cancelled, nor returned");
                }
                Phase::Cancelled | Phase::Refused | Phase::Returned if fired => {
                    self.breach(Twice, ticket, &format!("{phase:?}, and fired as well"));
                }
                _ => {}
            }
        }
        let Totals {
            accepted,
            cancelled,
            refused_full,
            refused_stopped,
            rescheduled,
        } = *totals;
        let (fired, returned) = (self.fired(), returned.len() as u64);
        let refused = refused_full + refused_stopped;
        // Refusals after `stop` may or may not count as rejections; those for lack of room must.
        let rejected = stats.rejected.clamp(refused_full, refused);
        let moved = stats.shards.iter().map(|shard| shard.rescheduled).sum();
        let ended = fired + cancelled + returned;
        let mut findings = lock(&self.findings);
        for (what, theirs, ours) in [
            ("ends of timers", ended, accepted),
            ("the engine's scheduled timers", stats.scheduled, accepted),
            ("the engine's fired timers", stats.fired, fired),
            ("the engine's cancelled timers", stats.cancelled, cancelled),
            ("the engine's returned timers", stats.returned, returned),
            ("the engine's rescheduled timers", moved, rescheduled),
            ("the engine's rejected timers", stats.rejected, rejected),
            ("the engine's handler panics", stats.panics, 0),
            ("the engine's timers pending after stop", stats.pending, 0),
        ] {
            findings.compare(what, theirs, ours);
        }
        let equals = if ended == accepted { "=" } else { "≠" };
        let [a, f, c, r] = [accepted, fired, cancelled, returned].map(count);
        Verdict {
            began: accepted,
            balance: format!("accepted {a} {equals} fired {f} + cancelled {c} + returned {r}"),
            counts: vec![
                ("accepted", accepted),
                ("fired", fired),
                ("cancelled", cancelled),
                ("returned", returned),
                ("rescheduled", rescheduled),
                ("refused", refused),
            ],
            breaches: findings.counts(&[Early, Twice, Lost, Mismatch]),
            findings: findings.lines(),
        }
    }

    fn audit_returned(&self, ticket: Ticket) {
        let Some(slot) = self.slots.get(ticket.slot as usize) else {
            self.breach(Mismatch, ticket, "returned, but never scheduled");
            return;
        };
        let (life, phase) = slot.life();
        if life != ticket.life {
            let what = format!("returned after it had ended (its slot is at life {life})");
            self.breach(Twice, ticket, &what);
        } else if phase != Phase::Pending {
            self.breach(
                Twice,
                ticket,
                &format!("returned by stop after it was {phase:?}"),
            );
        } else if slot.fired() == life {
            slot.set_phase(life, Phase::Judged);
            self.breach(
                Twice,
                ticket,
                "returned by stop although its handler had run",
            );
        } else {
            slot.set_phase(life, Phase::Returned);
        }
    }
}

/// Forged runs: whatever an engine could do wrong, the ledger must show it.
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tickwheel::{ManualClock, Time};

    use super::super::{LedgerClock, Writer};
    use super::*;

    /// What happens to the first timer of a run, which is due at 100 ns, or to the whole run.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Fire,
        Cancel,
        /// The engine had refused it.
        Refuse,
        /// The producer frees the slot.
        Reap,
        /// Another timer, which `stop` returns.
        Another,
        /// `stop` returns the timer.
        Return,
        /// The mark of a racing handler becomes visible after all else.
        Mark,
        /// A reschedule to this deadline begins, or succeeds.
        Moving(u64),
        Moved(u64),
        At(u64),
    }
    use Step::{Another, At, Cancel, Fire, Mark, Moved, Moving, Reap, Refuse, Return};

    struct Run {
        ledger: Arc<Ledger>,
        writer: Writer,
        clock: ManualClock,
        totals: Totals,
        returned: Vec<Ticket>,
    }

    impl Run {
        fn new() -> Self {
            let clock = ManualClock::new();
            clock.set(Time::from_nanos(100));
            let ledger_clock = LedgerClock::Manual(clock.clone());
            let (ledger, mut writers) = Ledger::open(ledger_clock, 1, 4, 1).unwrap();
            let (writer, totals) = (writers.remove(0), Totals::default());
            Self {
                ledger,
                writer,
                clock,
                totals,
                returned: Vec::new(),
            }
        }

        fn schedule(&mut self) -> Ticket {
            self.totals.accepted += 1;
            self.writer.open(100).unwrap()
        }

        fn step(&mut self, ticket: Ticket, step: Step) {
            match step {
                Fire => self.ledger.record_fired(ticket),
                Cancel => {
                    self.totals.cancelled += 1;
                    self.writer.close(ticket, Phase::Cancelled);
                }
                Refuse => {
                    self.totals.accepted -= 1;
                    self.writer.close(ticket, Phase::Refused);
                }
                Reap => self.writer.reap(ticket),
                Another => {
                    let another = self.schedule();
                    self.returned.push(another);
                }
                Return => self.returned.push(ticket),
                Mark => _ = self.ledger.slots[ticket.slot as usize].fire(ticket.life),
                Moving(deadline) => self.writer.moving(ticket, deadline),
                Moved(deadline) => self.writer.moved(ticket, deadline),
                At(now) => _ = self.clock.set(Time::from_nanos(now)),
            }
        }

        /// Judges the run by the statistics of an engine that agrees, after `forge` has changed them.
        fn judge(&self, forge: fn(&mut Stats)) -> Verdict {
            let mut stats = Stats::default();
            stats.scheduled = self.totals.accepted;
            stats.fired = self.ledger.fired();
            stats.cancelled = self.totals.cancelled;
            stats.returned = self.returned.len() as u64;
            forge(&mut stats);
            self.ledger.audit(&self.returned, &self.totals, &stats)
        }
    }

    /// Judges a run in which one timer goes through these steps.
    fn judged(steps: &[Step]) -> Verdict {
        let mut run = Run::new();
        let ticket = run.schedule();
        steps.iter().for_each(|step| run.step(ticket, *step));
        run.judge(|_| ())
    }

    /// How many were early, twice, lost and mismatches.
    fn found(verdict: &Verdict) -> [u64; 4] {
        let counts: Vec<u64> = verdict.breaches.iter().map(|(_, count)| *count).collect();
        counts.try_into().unwrap()
    }

    #[test]
    fn honest_runs_are_ok() {
        for (steps, balance) in [
            (
                &[Fire, Reap, Another][..],
                "accepted 2 = fired 1 + cancelled 0 + returned 1",
            ),
            (
                &[Cancel, Another, Another],
                "accepted 3 = fired 0 + cancelled 1 + returned 2",
            ),
            (&[Refuse], "accepted 0 = fired 0 + cancelled 0 + returned 0"),
            (
                &[Moving(500), Fire],
                "accepted 1 = fired 1 + cancelled 0 + returned 0",
            ),
            (
                &[Moved(500), At(500), Fire],
                "accepted 1 = fired 1 + cancelled 0 + returned 0",
            ),
        ] {
            let verdict = judged(steps);
            assert!(verdict.is_ok(), "{steps:?}: {verdict:?}");
            assert_eq!(verdict.balance, balance, "{steps:?}");
        }
    }

    #[test]
    fn early_and_lost_timers_are_named() {
        for (steps, breaches, finding) in [
            (
                &[Moved(101), Fire][..],
                [1, 0, 0, 0],
                "early: timer 0:0#1 (producer 0, slot 0)",
            ),
            (
                &[Moved(101), Fire],
                [1, 0, 0, 0],
                "fired 1 ns before its deadline",
            ),
            // The sums differ as well.
            (&[], [0, 0, 1, 1], "lost: timer 0:0#1 (producer 0, slot 0)"),
        ] {
            let verdict = judged(steps);
            assert_eq!(found(&verdict), breaches, "{steps:?}");
            assert!(
                verdict.findings[0].contains(finding),
                "{:?}",
                verdict.findings
            );
        }
    }

    #[test]
    fn twice_is_seen_however_it_happens() {
        for steps in [
            &[Fire, Fire][..],
            &[Cancel, Fire],
            &[Refuse, Fire],
            &[Fire, Cancel],
            &[Fire, Reap, Another, Fire],
            &[Cancel, Another, Fire],
            &[Fire, Return],
            &[Cancel, Return],
            &[Return, Return],
            &[Cancel, Mark],
            &[Cancel, Mark, Another],
        ] {
            let verdict = judged(steps);
            assert_eq!(found(&verdict)[..3], [0, 1, 0], "{steps:?}: {verdict:?}");
        }
    }

    #[test]
    fn wrong_engine_statistics_are_a_breach() {
        let forgeries: [fn(&mut Stats); 8] = [
            |_| (),
            |stats| stats.scheduled = 0,
            |stats| stats.fired = 1,
            |stats| stats.cancelled = 0,
            |stats| stats.returned = 1,
            |stats| stats.panics = 1,
            |stats| stats.pending = 1,
            |stats| stats.rejected = 1,
        ];
        for (number, forge) in forgeries.into_iter().enumerate() {
            let mut run = Run::new();
            let ticket = run.schedule();
            run.step(ticket, Cancel);
            let wrong = u64::from(number > 0);
            assert_eq!(found(&run.judge(forge)), [0, 0, 0, wrong], "{number}");
        }
    }

    #[test]
    fn more_slots_than_tickets_can_number_are_refused() {
        let clock = LedgerClock::Manual(ManualClock::new());
        let error = Ledger::open(clock, 1 << 20, 1 << 20, 1)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("no memory for a ledger of 1099511627776 timers; lower --in-flight"),
            "{error}"
        );
    }
}
