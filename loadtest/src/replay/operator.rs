//! Does one operation on the engine and writes it into the ledger.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tickwheel::{Cancel, Key, Reschedule, Timer, Unfired};

use crate::failure::Failure;
use crate::findings::Breach;
use crate::ledger::table::{Ledger, Ticket};
use crate::ledger::totals::Totals;
use crate::ledger::writer::Writer;
use crate::machine;
use crate::measure::{histogram, nanos};
use crate::outcome::Sample;
use crate::settings::engine::EngineSettings;
use crate::workload::{Action, Op};

/// What the engine answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The timer was accepted.
    Accepted,
    /// The timer was refused (too many pending).
    Refused,
    /// The cancel was won, or the timer was moved.
    Done,
    /// The timer had ended before.
    Gone,
}

/// The counts of one replay.
pub(super) struct Counts {
    pub(super) totals: Totals,
    pub(super) schedule: Histogram<u64>,
    pub(super) cancel: Histogram<u64>,
}

/// Engine, ledger, and which id of the file is which timer.
pub(super) struct Operator {
    pub(super) timer: Timer<Ticket>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) counts: Counts,
    writer: Writer,
    /// `None` for an id that the engine refused.
    timers: HashMap<u64, Option<(Key<Ticket>, Ticket)>>,
}

impl Operator {
    pub(super) fn new(timer: Timer<Ticket>, ledger: &Arc<Ledger>, writer: Writer) -> Self {
        let counts =
            Counts { totals: Totals::default(), schedule: histogram(), cancel: histogram() };
        Self { timer, ledger: Arc::clone(ledger), counts, writer, timers: HashMap::new() }
    }

    /// The engine for a replay; its handlers write into `ledger`.
    pub(super) fn engine(
        settings: &EngineSettings,
        clock: Option<tickwheel::ManualClock>,
        ledger: &Arc<Ledger>,
    ) -> Result<Timer<Ticket>, Failure> {
        let mut builder = settings.builder();
        if let Some(clock) = clock {
            builder = builder.clock(clock);
        }
        let engine = builder.build_per_shard(|shard| {
            let ledger = Arc::clone(ledger);
            move |_: &Timer<Ticket>, expired: tickwheel::Expired<Ticket>| {
                ledger.record_fired(shard, expired.payload)
            }
        });
        engine.map_err(|error| Failure::Options(settings.explain(&error)))
    }

    /// Does what one line says.
    pub(super) fn apply(&mut self, op: &Op) -> Result<Answer, Failure> {
        match op.action {
            Action::Schedule { delay_us } => self.schedule(op.id, delay_us),
            Action::Reschedule { delay_us } => Ok(self.reschedule(op.id, delay_us)),
            Action::Cancel => Ok(self.cancel(op.id)),
        }
    }

    /// Whether the ledger has seen the timer's handler.
    pub(super) fn has_fired(&self, id: u64) -> bool {
        let known = self.timers.get(&id).copied().flatten();
        known.is_some_and(|(_, ticket)| self.writer.has_fired(ticket))
    }

    /// The totals so far.
    pub(super) fn sample(&self) -> Sample {
        Sample {
            at_s: self.ledger.now_ns() as f64 / 1e9,
            begun: self.counts.totals.accepted(),
            ended: self.counts.totals.cancelled,
            third: self.ledger.fired_so_far(),
            resident_bytes: machine::resident_bytes(),
        }
    }

    /// Stops the engine; which timers came back.
    pub(super) fn stop(&self) -> Result<Vec<Ticket>, Failure> {
        let unfired = self.timer.stop().map_err(|error| Failure::System(error.to_string()))?;
        let known: HashMap<Key<Ticket>, Ticket> = self.timers.values().copied().flatten().collect();
        for Unfired { key, payload, .. } in &unfired {
            if known.get(key) != Some(payload) {
                self.ledger.breach(Breach::Mismatch, *payload, &format!("returned as {key:?}"));
            }
        }
        Ok(unfired.into_iter().map(|unfired| unfired.payload).collect())
    }

    fn schedule(&mut self, id: u64, delay_us: u64) -> Result<Answer, Failure> {
        let delay = Duration::from_micros(delay_us);
        let deadline = self.ledger.now_ns().saturating_add(nanos(delay));
        let ticket =
            self.writer.open(deadline).expect("there is a slot for every timer of the file");
        let started = Instant::now();
        let scheduled = self.timer.schedule_key(delay, ticket);
        self.counts.schedule.saturating_record(nanos(started.elapsed()));
        match scheduled {
            Ok(key) => {
                self.counts.totals.accept(key.shard());
                self.timers.insert(id, Some((key, ticket)));
                Ok(Answer::Accepted)
            }
            Err(error) => {
                self.writer.refused(ticket);
                self.timers.insert(id, None);
                match error.kind() {
                    tickwheel::ScheduleErrorKind::TooManyPending { .. } => {
                        self.counts.totals.refused_full += 1;
                        Ok(Answer::Refused)
                    }
                    _ => Err(Failure::System(error.to_string())),
                }
            }
        }
    }

    fn cancel(&mut self, id: u64) -> Answer {
        let Some(&Some((key, ticket))) = self.timers.get(&id) else {
            return Answer::Gone;
        };
        let started = Instant::now();
        let cancel = self.timer.cancel(key);
        self.counts.cancel.saturating_record(nanos(started.elapsed()));
        match cancel {
            Cancel::Won(payload) => {
                if payload != ticket {
                    let what = format!("was cancelled, and {payload:?} came back");
                    self.ledger.breach(Breach::Mismatch, ticket, &what);
                }
                self.writer.cancelled(ticket);
                self.counts.totals.cancelled += 1;
                Answer::Done
            }
            Cancel::Lost => Answer::Gone,
        }
    }

    fn reschedule(&mut self, id: u64, delay_us: u64) -> Answer {
        let Some(&Some((key, ticket))) = self.timers.get(&id) else {
            return Answer::Gone;
        };
        let delay = Duration::from_micros(delay_us);
        let deadline = self.ledger.now_ns().saturating_add(nanos(delay));
        self.writer.moving(ticket, deadline);
        match self.timer.reschedule(key, delay) {
            Reschedule::Moved => {
                self.writer.moved(ticket, deadline);
                self.counts.totals.rescheduled += 1;
                Answer::Done
            }
            Reschedule::Gone => Answer::Gone,
        }
    }
}
