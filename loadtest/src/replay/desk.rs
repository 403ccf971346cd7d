//! Does one operation on the engine and writes it into the books.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tickwheel::{Cancel, Key, Reschedule, Timer, Unfired};

use super::histogram;
use crate::book::{Book, Kind, Lane, Tally, Ticket, nanos};
use crate::cli::EngineSettings;
use crate::failure::Failure;
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
    pub(super) tally: Tally,
    pub(super) schedule: Histogram<u64>,
    pub(super) cancel: Histogram<u64>,
}

/// Engine, books, and which id of the file is which timer.
pub(super) struct Desk {
    pub(super) timer: Timer<Ticket>,
    pub(super) book: Arc<Book>,
    pub(super) counts: Counts,
    lane: Lane,
    /// `None` for an id that the engine refused.
    timers: HashMap<u64, Option<(Key<Ticket>, Ticket)>>,
}

impl Desk {
    pub(super) fn new(timer: Timer<Ticket>, book: &Arc<Book>, lane: Lane) -> Self {
        let counts = Counts { tally: Tally::default(), schedule: histogram(), cancel: histogram() };
        Self { timer, book: Arc::clone(book), counts, lane, timers: HashMap::new() }
    }

    /// The engine for a replay; its handlers write into `book`.
    pub(super) fn engine(
        settings: &EngineSettings,
        clock: Option<tickwheel::ManualClock>,
        book: &Arc<Book>,
    ) -> Result<Timer<Ticket>, Failure> {
        let mut builder = settings.builder();
        if let Some(clock) = clock {
            builder = builder.clock(clock);
        }
        let engine = builder.build_per_shard(|shard| {
            let book = Arc::clone(book);
            move |expired: tickwheel::Expired<Ticket>| book.record_fired(shard, expired.payload)
        });
        engine.map_err(|error| Failure::Options(error.to_string()))
    }

    /// Does what one line says.
    pub(super) fn apply(&mut self, op: &Op) -> Result<Answer, Failure> {
        match op.action {
            Action::Schedule { delay_us } => self.schedule(op.id, delay_us),
            Action::Reschedule { delay_us } => Ok(self.reschedule(op.id, delay_us)),
            Action::Cancel => Ok(self.cancel(op.id)),
        }
    }

    /// Whether the books have seen the timer's handler.
    pub(super) fn has_fired(&self, id: u64) -> bool {
        let known = self.timers.get(&id).copied().flatten();
        known.is_some_and(|(_, ticket)| self.lane.has_fired(ticket))
    }

    /// Stops the engine; which timers came back.
    pub(super) fn stop(&self) -> Result<Vec<Ticket>, Failure> {
        let unfired = self.timer.stop().map_err(|error| Failure::System(error.to_string()))?;
        let known: HashMap<Key<Ticket>, Ticket> = self.timers.values().copied().flatten().collect();
        for Unfired { key, payload, .. } in &unfired {
            if known.get(key) != Some(payload) {
                self.book.breach(Kind::Mismatch, *payload, &format!("returned as {key:?}"));
            }
        }
        Ok(unfired.into_iter().map(|unfired| unfired.payload).collect())
    }

    fn schedule(&mut self, id: u64, delay_us: u64) -> Result<Answer, Failure> {
        let delay = Duration::from_micros(delay_us);
        let deadline = self.book.now_ns().saturating_add(nanos(delay));
        let ticket = self.lane.open(deadline).expect("there is a slot for every timer of the file");
        let started = Instant::now();
        let scheduled = self.timer.schedule_key(delay, ticket);
        self.counts.schedule.saturating_record(nanos(started.elapsed()));
        match scheduled {
            Ok(key) => {
                self.counts.tally.accept(key.shard());
                self.timers.insert(id, Some((key, ticket)));
                Ok(Answer::Accepted)
            }
            Err(error) => {
                self.lane.refused(ticket);
                self.timers.insert(id, None);
                match error.kind() {
                    tickwheel::ScheduleErrorKind::TooManyPending { .. } => {
                        self.counts.tally.refused_full += 1;
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
                    self.book.breach(Kind::Mismatch, ticket, &what);
                }
                self.lane.cancelled(ticket);
                self.counts.tally.cancelled += 1;
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
        let deadline = self.book.now_ns().saturating_add(nanos(delay));
        self.lane.moving(ticket, deadline);
        match self.timer.reschedule(key, delay) {
            Reschedule::Moved => {
                self.lane.moved(ticket, deadline);
                self.counts.tally.rescheduled += 1;
                Answer::Done
            }
            Reschedule::Gone => Answer::Gone,
        }
    }
}
