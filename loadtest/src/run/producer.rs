//! The hot loop: one thread that schedules timers and cancels most of them while they are young.
//!
//! Each step ends the oldest timer in flight and schedules a new one. A share of the new ones is left
//! to fire; those wait in a second queue until the ledger shows that their handler has run.

use std::collections::{TryReserveError, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tickwheel::{Cancel, RawKey, Reschedule, ScheduleErrorKind, Timer};

use super::pacer::Pacer;
use super::payload::{Grip, Link, Load};
use super::recording::{Logged, LoggedAction};
use super::session::Session;
use crate::findings::Breach;
use crate::interrupt::Interrupt;
use crate::ledger::table::Ticket;
use crate::ledger::totals::Totals;
use crate::ledger::writer::Writer;
use crate::measure::{LiveCount, histogram, nanos};
use crate::settings::delays::DelayTable;

/// One call in so many is timed, so that reading the clock does not become the load.
const SAMPLE_EVERY: u64 = 64;
/// Steps that share one reading of the clock. A reading that is a microsecond old makes a timer's
/// bound in the ledger a microsecond earlier than the call, never later. Timers that are left to fire
/// always get a fresh reading.
const CLOCK_EVERY: u64 = 16;
/// Timers left to fire that are looked after for each one added: two or more, so that their queue
/// gets shorter whenever handlers keep up.
const LOOKED_AFTER: usize = 4;

/// What a producer publishes for the progress line.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) scheduled: LiveCount,
    pub(crate) cancelled: LiveCount,
}

/// What a producer leaves behind.
pub(crate) struct ProducerEnd {
    pub(crate) totals: Totals,
    pub(crate) schedule: Histogram<u64>,
    pub(crate) cancel: Histogram<u64>,
    /// Timers without a known end: fired, returned by `stop`, or lost.
    pub(crate) open: Vec<(RawKey, Ticket)>,
    pub(crate) log: Vec<Logged>,
    /// Why it ended before its time.
    pub(crate) trouble: Option<String>,
}

struct Flight<G> {
    grip: G,
    ticket: Ticket,
}

/// Whether to go on.
#[derive(PartialEq)]
enum Step {
    On,
    End,
}

pub(crate) struct Producer<L: Load, G> {
    timer: Timer<L::Payload>,
    writer: Writer,
    link: Arc<Link>,
    live: Arc<Live>,
    young: VecDeque<Flight<G>>,
    left: VecDeque<Flight<G>>,
    in_flight: usize,
    max_left: usize,
    /// Below this, 32 random bits mean "leave it to fire".
    leave_below: u64,
    /// Below this, 20 random bits mean "move one as well".
    move_below: u64,
    delays: DelayTable,
    rng: fastrand::Rng,
    pacer: Option<Pacer>,
    steps: u64,
    now_ns: u64,
    totals: Totals,
    schedule: Histogram<u64>,
    cancel: Histogram<u64>,
    log: Option<Vec<Logged>>,
    trouble: Option<String>,
}

impl<L: Load, G: Grip<L::Payload>> Producer<L, G> {
    /// Fails if there is no memory for the timers in flight.
    pub(crate) fn new(
        timer: Timer<L::Payload>,
        writer: Writer,
        link: Arc<Link>,
        live: Arc<Live>,
        session: &Session<'_>,
        number: usize,
    ) -> Result<Self, TryReserveError> {
        let load = session.load;
        let mut young = VecDeque::new();
        young.try_reserve_exact(load.in_flight.saturating_add(1))?;
        let mut rng = fastrand::Rng::with_seed(load.seed.wrapping_add(number as u64));
        let delays = DelayTable::new(&load.delay, &mut rng);
        Ok(Self {
            timer,
            writer,
            link,
            live,
            young,
            left: VecDeque::new(),
            in_flight: load.in_flight,
            max_left: load.max_left(session.engine),
            leave_below: ((1.0 - load.cancel_share) * 2f64.powi(32)) as u64,
            move_below: (load.reschedule_share * 2f64.powi(20)) as u64,
            delays,
            rng,
            pacer: session.phase.rate.map(|rate| Pacer::new(rate / load.producers as f64)),
            steps: 0,
            now_ns: 0,
            totals: Totals::default(),
            schedule: histogram(),
            cancel: histogram(),
            log: load.record.is_some().then(Vec::new),
            trouble: None,
        })
    }

    /// Produces until the engine is stopped or `halt` is raised.
    pub(crate) fn run(mut self, halt: &Interrupt) -> ProducerEnd {
        loop {
            if let Some(pacer) = &mut self.pacer {
                self.now_ns = self.writer.ledger().now_ns();
                if let Some(nap) = pacer.nap(self.now_ns) {
                    self.publish();
                    if halt.is_raised() {
                        break;
                    }
                    std::thread::sleep(nap);
                    continue;
                }
            }
            self.steps += 1;
            if self.steps % SAMPLE_EVERY == 0 {
                self.publish();
                self.look_after_left(LOOKED_AFTER);
                if halt.is_raised() {
                    break;
                }
            }
            if self.step() == Step::End {
                break;
            }
        }
        self.publish();
        self.end()
    }

    fn end(self) -> ProducerEnd {
        let flights = self.young.into_iter().chain(self.left);
        let open = flights.map(|flight| (flight.grip.key().to_raw(), flight.ticket)).collect();
        ProducerEnd {
            totals: self.totals,
            schedule: self.schedule,
            cancel: self.cancel,
            open,
            log: self.log.unwrap_or_default(),
            trouble: self.trouble,
        }
    }

    fn publish(&self) {
        self.live.scheduled.set(self.totals.accepted());
        self.live.cancelled.set(self.totals.cancelled);
    }

    #[inline]
    fn step(&mut self) -> Step {
        let sampled = self.steps % SAMPLE_EVERY == 0;
        let random = self.rng.u64(..);
        if self.young.len() >= self.in_flight {
            self.end_oldest(sampled);
        }
        if (random >> 32 & 0xF_FFFF) < self.move_below {
            self.move_one();
        }
        let leave = (random & 0xFFFF_FFFF) < self.leave_below && self.left.len() < self.max_left;
        if leave || self.log.is_some() || self.steps % CLOCK_EVERY == 0 {
            self.now_ns = self.writer.ledger().now_ns();
        }
        let delay = self.delay(random);
        let deadline = self.now_ns.saturating_add(nanos(delay));
        let Some(ticket) = self.writer.open(deadline) else {
            return self.wait_for_slots();
        };
        let payload = L::payload(&self.link, ticket);
        let started = sampled.then(Instant::now);
        let scheduled = G::schedule(&self.timer, delay, payload);
        if let Some(started) = started {
            self.schedule.saturating_record(nanos(started.elapsed()));
        }
        match scheduled {
            Ok(grip) => {
                self.accepted(grip, ticket, delay, leave);
                Step::On
            }
            Err(error) => {
                let kind = error.kind().clone();
                self.refused(ticket, kind, &error.into_payload())
            }
        }
    }

    #[inline]
    fn delay(&self, random: u64) -> Duration {
        let delay = self.delays.pick(random);
        if self.log.is_none() {
            return delay;
        }
        // A workload file counts microseconds; run what will stand in it.
        Duration::from_micros(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX))
    }

    #[inline]
    fn accepted(&mut self, grip: G, ticket: Ticket, delay: Duration, leave: bool) {
        self.totals.accept(grip.key().shard());
        self.note(ticket, LoggedAction::Schedule(delay));
        let flight = Flight { grip, ticket };
        if leave {
            self.left.push_back(flight);
            self.look_after_left(LOOKED_AFTER);
        } else {
            self.young.push_back(flight);
        }
    }

    #[cold]
    fn refused(&mut self, ticket: Ticket, kind: ScheduleErrorKind, payload: &L::Payload) -> Step {
        self.writer.refused(ticket);
        if L::ticket(payload).is_some_and(|back| back != ticket) {
            self.breach(ticket, "was refused, and another timer's payload came back");
        }
        match kind {
            ScheduleErrorKind::Stopped => {
                self.totals.refused_stopped += 1;
                Step::End
            }
            ScheduleErrorKind::Start(error) => {
                self.trouble = Some(error.to_string());
                Step::End
            }
            _ => {
                self.totals.refused_full += 1;
                if self.young.is_empty() {
                    return self.wait_for_slots();
                }
                self.end_oldest(false);
                Step::On
            }
        }
    }

    /// All room is taken by timers that will fire by themselves: let the workers have the core.
    #[cold]
    fn wait_for_slots(&mut self) -> Step {
        self.look_after_left(self.left.len());
        if self.writer.free() == 0 && self.young.len() > 1 {
            self.end_oldest(false);
        }
        std::thread::yield_now();
        Step::On
    }

    #[inline]
    fn end_oldest(&mut self, sampled: bool) {
        let Some(flight) = self.young.pop_front() else {
            return;
        };
        self.note_now(flight.ticket, LoggedAction::Cancel);
        let started = sampled.then(Instant::now);
        let cancel = flight.grip.cancel(&self.timer);
        if let Some(started) = started {
            self.cancel.saturating_record(nanos(started.elapsed()));
        }
        match cancel {
            Cancel::Won(payload) => {
                if L::ticket(&payload).is_some_and(|back| back != flight.ticket) {
                    self.breach(flight.ticket, "was cancelled, and another payload came back");
                }
                self.writer.cancelled(flight.ticket);
                self.totals.cancelled += 1;
            }
            // It has fired, is about to, or `stop` has taken it: the ledger will tell.
            Cancel::Lost => self.look_after(flight),
        }
    }

    /// Moves the timer in the middle of the queue to a new deadline.
    #[cold]
    fn move_one(&mut self) {
        let Some(index) = self.young.len().checked_sub(1).map(|last| last / 2) else {
            return;
        };
        let random = self.rng.u64(..);
        let delay = self.delay(random);
        self.now_ns = self.writer.ledger().now_ns();
        let deadline = self.now_ns.saturating_add(nanos(delay));
        let ticket = self.young[index].ticket;
        self.note(ticket, LoggedAction::Reschedule(delay));
        self.writer.moving(ticket, deadline);
        match self.young[index].grip.reschedule(&self.timer, delay) {
            Reschedule::Moved => {
                self.totals.rescheduled += 1;
                self.writer.moved(ticket, deadline);
            }
            Reschedule::Gone => {}
        }
    }

    /// Looks at up to `count` timers that were left to fire, the longest unlooked-at first.
    fn look_after_left(&mut self, count: usize) {
        for _ in 0..count.min(self.left.len()) {
            if let Some(flight) = self.left.pop_front() {
                self.look_after(flight);
            }
        }
    }

    fn look_after(&mut self, flight: Flight<G>) {
        if !self.writer.has_fired(flight.ticket) {
            self.left.push_back(flight);
            return;
        }
        if !flight.grip.admits_firing(&self.timer) {
            self.breach(flight.ticket, "has fired, but the engine calls it pending");
        }
        self.writer.reap(flight.ticket);
    }

    fn breach(&self, ticket: Ticket, what: &str) {
        self.writer.ledger().breach(Breach::Mismatch, ticket, what);
    }

    /// Notes an action that happens at the time last read.
    #[inline]
    fn note(&mut self, ticket: Ticket, action: LoggedAction) {
        if let Some(log) = &mut self.log {
            log.push(Logged { time_ns: self.now_ns, ticket, action });
        }
    }

    #[inline]
    fn note_now(&mut self, ticket: Ticket, action: LoggedAction) {
        if self.log.is_some() {
            self.now_ns = self.writer.ledger().now_ns();
            self.note(ticket, action);
        }
    }
}
