//! The last look at every slot once all threads have ended, and the verdict.

use tickwheel::Stats;

use super::slot::Phase;
use super::{Ledger, Ticket, Totals, lock};
use crate::findings::Breach;
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
        let Totals { accepted, cancelled, refused_full, refused_stopped, rescheduled } = *totals;
        let (fired, returned) = (self.fired(), returned.len() as u64);
        let refused = refused_full + refused_stopped;
        // Refusals after `stop` may or may not count as rejections; those for lack of room must.
        let rejected = stats.rejected.clamp(refused_full, refused);
        let moved = stats.shards.iter().map(|shard| shard.rescheduled).sum();
        for (what, theirs, ours) in [
            ("scheduled timers", stats.scheduled(), accepted),
            ("fired timers", stats.fired(), fired),
            ("cancelled timers", stats.cancelled(), cancelled),
            ("returned timers", stats.returned(), returned),
            ("rescheduled timers", moved, rescheduled),
            ("rejected timers", stats.rejected, rejected),
            ("handler panics", stats.panics(), 0),
            ("timers pending after stop", stats.pending, 0),
        ] {
            if theirs != ours {
                let text =
                    format!("{what}: the engine's statistics say {theirs}, the ledger {ours}");
                self.breach_text(Breach::Mismatch, text);
            }
        }
        let ended = fired + cancelled + returned;
        if ended != accepted {
            self.breach_text(Breach::Mismatch, format!("accepted {accepted}, but ended {ended}"));
        }
        let equals = if ended == accepted { "=" } else { "≠" };
        let findings = lock(&self.findings);
        Verdict {
            began: accepted,
            balance: format!(
                "accepted {} {equals} fired {} + cancelled {} + returned {}",
                count(accepted),
                count(fired),
                count(cancelled),
                count(returned),
            ),
            counts: vec![
                ("accepted", accepted),
                ("fired", fired),
                ("cancelled", cancelled),
                ("returned", returned),
                ("rescheduled", rescheduled),
                ("refused", refused),
            ],
            breaches: findings.counts(&[
                Breach::Early,
                Breach::Twice,
                Breach::Lost,
                Breach::Mismatch,
            ]),
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
}

/// Forged runs: whatever an engine could do wrong, the ledger must show it.
#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tickwheel::{ManualClock, ShardStats, Time};

    use super::super::{LedgerClock, Writer};
    use super::*;

    /// A ledger on a manual clock with one writer of four slots.
    struct Run {
        ledger: Arc<Ledger>,
        writer: Writer,
        clock: ManualClock,
        totals: Totals,
    }

    impl Run {
        fn new() -> Self {
            let clock = ManualClock::new();
            let (ledger, writers) =
                Ledger::open(LedgerClock::Manual(clock.clone()), 1, 4, 1).unwrap();
            let writer = writers.into_iter().next().unwrap();
            Self { ledger, writer, clock, totals: Totals::default() }
        }

        fn schedule(&mut self, deadline_ns: u64) -> Ticket {
            self.totals.accepted += 1;
            self.writer.open(deadline_ns).unwrap()
        }

        fn cancel(&mut self, ticket: Ticket) {
            self.totals.cancelled += 1;
            self.writer.cancelled(ticket);
        }

        fn fire(&mut self, ticket: Ticket) {
            self.ledger.record_fired(ticket);
        }

        /// Judges the run by the statistics of an engine that agrees, after `forge` has changed them.
        fn judge_forged(&self, returned: &[Ticket], forge: fn(&mut Stats)) -> Verdict {
            let (mut stats, mut shard) = (Stats::default(), ShardStats::default());
            shard.scheduled = self.totals.accepted;
            shard.fired = self.ledger.fired();
            shard.cancelled = self.totals.cancelled;
            shard.returned = returned.len() as u64;
            stats.shards = vec![shard];
            forge(&mut stats);
            self.ledger.audit(returned, &self.totals, &stats)
        }

        fn judge(&self, returned: &[Ticket]) -> Verdict {
            self.judge_forged(returned, |_| ())
        }
    }

    /// How many were early, twice, lost and mismatches.
    fn found(verdict: &Verdict) -> [u64; 4] {
        let counts: Vec<u64> = verdict.breaches.iter().map(|(_, count)| *count).collect();
        counts.try_into().unwrap()
    }

    #[test]
    fn an_honest_run_is_ok() {
        let mut run = Run::new();
        for _ in 0..10 {
            let cancelled = run.schedule(100);
            run.cancel(cancelled);
            let fired = run.schedule(run.clock.now().as_nanos());
            run.clock.advance(Duration::from_nanos(5));
            run.fire(fired);
            assert!(run.writer.has_fired(fired));
            run.writer.reap(fired);
        }
        let returned = run.schedule(1_000);
        let refused = run.writer.open(0).unwrap();
        run.writer.refused(refused);
        run.totals.refused_stopped += 1;
        let verdict = run.judge(&[returned]);
        assert!(verdict.is_ok(), "{verdict:?}");
        assert_eq!(verdict.balance, "accepted 21 = fired 10 + cancelled 10 + returned 1");
        assert_eq!(run.ledger.lateness().len(), 10);
    }

    #[test]
    fn early_is_seen_to_the_nanosecond_and_named() {
        let mut run = Run::new();
        let ticket = run.schedule(1_000);
        run.clock.set(Time::from_nanos(999));
        run.fire(ticket);
        let verdict = run.judge(&[]);
        assert_eq!(found(&verdict), [1, 0, 0, 0]);
        assert!(verdict.findings[0].contains("timer 0:0#1"), "{:?}", verdict.findings);
        assert!(verdict.findings[0].contains("1 ns before"), "{:?}", verdict.findings);
    }

    #[test]
    fn a_moved_timer_is_early_only_before_the_bound_that_holds() {
        let mut run = Run::new();
        let (bound, moved) = (run.schedule(100), run.schedule(100));
        // Not told yet whether the move succeeded: either deadline is right.
        run.writer.moving(bound, 500);
        run.writer.moving(moved, 500);
        run.writer.moved(moved, 500);
        run.clock.set(Time::from_nanos(100));
        run.fire(bound);
        run.fire(moved);
        let verdict = run.judge(&[]);
        assert_eq!(found(&verdict), [1, 0, 0, 0], "{verdict:?}");
        assert!(verdict.findings[0].contains("0:1#1"));
    }

    #[test]
    fn lost_is_seen() {
        let mut run = Run::new();
        let ticket = run.schedule(1_000);
        let _lost = run.schedule(1_000);
        let verdict = run.judge(&[ticket]);
        assert_eq!(found(&verdict), [0, 0, 1, 1], "and the sums differ");
        assert!(verdict.findings[0].contains("0:1#1"), "{:?}", verdict.findings);
    }

    /// Each is a way to end twice, up to the timers that `stop` returns.
    #[test]
    fn twice_is_seen_however_it_happens() {
        type Forgery = fn(&mut Run, Ticket) -> Vec<Ticket>;
        let forgeries: [(&str, Forgery); 10] = [
            ("fired twice", |run, ticket| {
                run.fire(ticket);
                run.fire(ticket);
                vec![]
            }),
            ("cancelled, then fired", |run, ticket| {
                run.cancel(ticket);
                run.fire(ticket);
                vec![]
            }),
            ("fired, then cancelled", |run, ticket| {
                run.fire(ticket);
                run.cancel(ticket);
                vec![]
            }),
            ("fired, slot reused, fired again", |run, ticket| {
                run.fire(ticket);
                run.writer.reap(ticket);
                let next = run.schedule(0);
                run.fire(ticket);
                vec![next]
            }),
            ("cancelled, slot reused, fired", |run, ticket| {
                run.cancel(ticket);
                let next = run.schedule(0);
                run.fire(ticket);
                vec![next]
            }),
            ("fired and returned", |run, ticket| {
                run.fire(ticket);
                vec![ticket]
            }),
            ("cancelled and returned", |run, ticket| {
                run.cancel(ticket);
                vec![ticket]
            }),
            ("returned twice", |_, ticket| vec![ticket, ticket]),
            ("the mark of a racing handler visible only after the cancel", |run, ticket| {
                run.cancel(ticket);
                run.ledger.slots[ticket.slot as usize].fire(ticket.life);
                vec![]
            }),
            ("the same, slot reused", |run, ticket| {
                run.cancel(ticket);
                run.ledger.slots[ticket.slot as usize].fire(ticket.life);
                vec![run.schedule(0)]
            }),
        ];
        for (name, forge) in forgeries {
            let mut run = Run::new();
            let ticket = run.schedule(0);
            let returned = forge(&mut run, ticket);
            let verdict = run.judge(&returned);
            assert_eq!(found(&verdict)[1..3], [1, 0], "{name}: {verdict:?}");
        }
        let mut run = Run::new();
        let refused = run.writer.open(0).unwrap();
        run.writer.refused(refused);
        run.fire(refused);
        assert_eq!(found(&run.judge(&[]))[1], 1, "refused, and fired");
    }

    #[test]
    fn wrong_engine_statistics_are_a_breach() {
        let forgeries: [fn(&mut Stats); 8] = [
            |_| (),
            |stats| stats.shards[0].scheduled = 0,
            |stats| stats.shards[0].fired = 1,
            |stats| stats.shards[0].cancelled = 0,
            |stats| stats.shards[0].returned = 1,
            |stats| stats.shards[0].panics = 1,
            |stats| stats.pending = 1,
            |stats| stats.rejected = 1,
        ];
        for (number, forge) in forgeries.into_iter().enumerate() {
            let mut run = Run::new();
            let ticket = run.schedule(0);
            run.cancel(ticket);
            let wrong = u64::from(number > 0);
            assert_eq!(found(&run.judge_forged(&[], forge)), [0, 0, 0, wrong], "{number}");
        }
    }

    #[test]
    fn more_slots_than_tickets_can_number_are_refused() {
        let clock = LedgerClock::Manual(ManualClock::new());
        let error = Ledger::open(clock, 1 << 20, 1 << 20, 1).err().unwrap().to_string();
        assert!(error.contains("can follow; lower --in-flight"), "{error}");
    }
}
