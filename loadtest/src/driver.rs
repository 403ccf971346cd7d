//! Calls the engine and enters every answer into the ledger, whatever a timer carries and a thread keeps of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel::{
    BuildError, Builder, Cancel, Expired, Key, RawKey, Reschedule, ScheduleError,
    ScheduleErrorKind, Timer, TimerHandle, TimerTask, Unfired,
};

use crate::findings::Breach;
use crate::ledger::{Ledger, Phase, Ticket, Writer};
use crate::measure::nanos;
use crate::outcome::Counted;

/// One thread's way to the ledger, for payloads that have to carry it. Each thread has its own, on a
/// cache line of its own, so that counting references does not set threads against each other.
#[repr(align(128))]
pub(crate) struct Link(Arc<Ledger>);

/// What a timer carries.
pub(crate) trait Payload: Send + Sized + 'static {
    /// An engine whose handlers write into `ledger`.
    fn build(builder: Builder, ledger: &Arc<Ledger>) -> Result<Timer<Self>, BuildError>;

    /// The payload of timer `ticket`.
    fn new(link: &Arc<Link>, ticket: Ticket) -> Self;

    /// The timer that the payload belongs to, where that can be seen from outside.
    fn ticket(&self) -> Option<Ticket>;
}

/// `--payload typed`: eight bytes.
impl Payload for Ticket {
    fn build(builder: Builder, ledger: &Arc<Ledger>) -> Result<Timer<Self>, BuildError> {
        builder.build_per_shard(|_| {
            let ledger = Arc::clone(ledger);
            move |_: &Timer<Self>, expired: Expired<Self>| ledger.record_fired(expired.payload)
        })
    }

    fn new(_link: &Arc<Link>, ticket: Ticket) -> Self {
        ticket
    }

    fn ticket(&self) -> Option<Ticket> {
        Some(*self)
    }
}

/// `--payload closure`: a closure per timer.
impl Payload for TimerTask {
    fn build(builder: Builder, _ledger: &Arc<Ledger>) -> Result<Timer<Self>, BuildError> {
        builder.build()
    }

    fn new(link: &Arc<Link>, ticket: Ticket) -> Self {
        let link = Arc::clone(link);
        Self::new(move || link.0.record_fired(ticket))
    }

    fn ticket(&self) -> Option<Ticket> {
        None
    }
}

/// What a thread holds of a timer: a key, or an owned handle.
pub(crate) trait Grip<P: Payload>: Sized + Send + 'static {
    fn schedule(timer: &Timer<P>, delay: Duration, payload: P) -> Result<Self, ScheduleError<P>>;
    fn key(&self) -> Key<P>;
    fn handle(&self) -> Option<&TimerHandle<P>>;
}

impl<P: Payload> Grip<P> for Key<P> {
    fn schedule(timer: &Timer<P>, delay: Duration, payload: P) -> Result<Self, ScheduleError<P>> {
        timer.schedule(delay, payload)
    }

    fn key(&self) -> Key<P> {
        *self
    }

    fn handle(&self) -> Option<&TimerHandle<P>> {
        None
    }
}

impl<P: Payload> Grip<P> for TimerHandle<P> {
    fn schedule(timer: &Timer<P>, delay: Duration, payload: P) -> Result<Self, ScheduleError<P>> {
        timer.schedule_handle(delay, payload)
    }

    fn key(&self) -> Key<P> {
        Self::key(self)
    }

    fn handle(&self) -> Option<&TimerHandle<P>> {
        Some(self)
    }
}

/// An accepted timer.
pub(crate) struct Flight<G> {
    pub(crate) grip: G,
    pub(crate) ticket: Ticket,
}

/// One thread's timers.
pub(crate) struct Driver<P: Payload> {
    timer: Timer<P>,
    pub(crate) writer: Writer,
    link: Arc<Link>,
    pub(crate) counted: Counted,
}

impl<P: Payload> Driver<P> {
    pub(crate) fn new(timer: Timer<P>, writer: Writer) -> Self {
        let link = Arc::new(Link(Arc::clone(&writer.ledger)));
        Self {
            timer,
            writer,
            link,
            counted: Counted::default(),
        }
    }

    /// Schedules a timer, due `delay` after `now_ns`; takes the time of the call if `timed`. Without a reason the
    /// ledger has no room: too many timers are waiting for their handlers.
    #[inline]
    pub(crate) fn schedule<G: Grip<P>>(
        &mut self,
        now_ns: u64,
        delay: Duration,
        timed: bool,
    ) -> Result<Flight<G>, Option<ScheduleErrorKind>> {
        let deadline = now_ns.saturating_add(nanos(delay));
        let ticket = self.writer.open(deadline).ok_or(None)?;
        let payload = P::new(&self.link, ticket);
        let started = timed.then(Instant::now);
        let scheduled = G::schedule(&self.timer, delay, payload);
        if let Some(started) = started {
            self.counted
                .schedule
                .saturating_record(nanos(started.elapsed()));
        }
        let grip = scheduled.map_err(|error| Some(self.refused(ticket, error)))?;
        self.counted.totals.accepted += 1;
        Ok(Flight { grip, ticket })
    }

    #[cold]
    fn refused(&mut self, ticket: Ticket, error: ScheduleError<P>) -> ScheduleErrorKind {
        let kind = error.kind().clone();
        self.writer.close(ticket, Phase::Refused);
        self.compare(ticket, &error.into_payload(), "was refused");
        match kind {
            ScheduleErrorKind::Stopped => self.counted.totals.refused_stopped += 1,
            ScheduleErrorKind::Start(_) => {}
            _ => self.counted.totals.refused_full += 1,
        }
        kind
    }

    /// Cancels a timer; whether the cancel was won. If not, it has fired, is about to, or `stop` has taken it.
    #[inline]
    pub(crate) fn cancel<G: Grip<P>>(&mut self, flight: &Flight<G>, timed: bool) -> bool {
        let started = timed.then(Instant::now);
        let cancel = match flight.grip.handle() {
            Some(handle) => handle.cancel(),
            None => self.timer.cancel(flight.grip.key()),
        };
        if let Some(started) = started {
            self.counted
                .cancel
                .saturating_record(nanos(started.elapsed()));
        }
        let Cancel::Won(payload) = cancel else {
            return false;
        };
        self.compare(flight.ticket, &payload, "was cancelled");
        self.writer.close(flight.ticket, Phase::Cancelled);
        self.counted.totals.cancelled += 1;
        true
    }

    /// Moves a timer to `delay` after `now_ns`; whether it was pending.
    pub(crate) fn reschedule<G: Grip<P>>(
        &mut self,
        flight: &Flight<G>,
        now_ns: u64,
        delay: Duration,
    ) -> bool {
        let deadline = now_ns.saturating_add(nanos(delay));
        self.writer.moving(flight.ticket, deadline);
        let moved = match flight.grip.handle() {
            Some(handle) => handle.reschedule(delay),
            None => self.timer.reschedule(flight.grip.key(), delay),
        } == Reschedule::Moved;
        if moved {
            self.counted.totals.rescheduled += 1;
            self.writer.moved(flight.ticket, deadline);
        }
        moved
    }

    /// Frees the slot of a timer that has fired; whether it has.
    pub(crate) fn reap<G: Grip<P>>(&mut self, flight: &Flight<G>) -> bool {
        if !self.writer.has_fired(flight.ticket) {
            return false;
        }
        let admitted = match flight.grip.handle() {
            Some(handle) => handle.is_fired() && !handle.is_pending(),
            None => !self.timer.is_pending(flight.grip.key()),
        };
        if !admitted {
            let what = "has fired, but the engine calls it pending";
            self.writer
                .ledger
                .breach(Breach::Mismatch, flight.ticket, what);
        }
        self.writer.reap(flight.ticket);
        true
    }

    #[inline]
    fn compare(&self, ticket: Ticket, payload: &P, what: &str) {
        if payload.ticket().is_some_and(|back| back != ticket) {
            let what = format!("{what}, and another timer's payload came back");
            self.writer.ledger.breach(Breach::Mismatch, ticket, &what);
        }
    }
}

/// Which timers `stop` returned: read from the payload, or found by key where the payload is opaque.
pub(crate) fn returned_tickets<P: Payload>(
    ledger: &Ledger,
    unfired: Vec<Unfired<P>>,
    open: &HashMap<RawKey, Ticket>,
) -> Vec<Ticket> {
    let ticket = |unfired: Unfired<P>| {
        let by_key = open.get(&unfired.key.to_raw()).copied();
        let carried = unfired.payload.ticket();
        if by_key.is_none() || carried.is_some_and(|carried| Some(carried) != by_key) {
            let key = unfired.key;
            let text = format!("stop returned {key:?} with {carried:?}, scheduled as {by_key:?}");
            ledger.breach_text(Breach::Mismatch, text);
        }
        carried.or(by_key)
    };
    unfired.into_iter().filter_map(ticket).collect()
}
