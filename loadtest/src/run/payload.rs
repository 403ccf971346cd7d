//! What a timer carries, and what its producer keeps of it.

use std::sync::Arc;
use std::time::Duration;

use tickwheel::{
    BuildError, Builder, Cancel, Expired, Key, Reschedule, ScheduleError, Timer, TimerHandle,
    TimerTask,
};

use crate::ledger::handlers::record_on_this_thread;
use crate::ledger::table::{Ledger, Ticket};

/// One producer's way to the ledger, for payloads that have to carry it. Each producer has its own, on
/// a line of its own, so that counting references does not set producers against each other.
#[repr(align(128))]
pub(crate) struct Link(Arc<Ledger>);

impl Link {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Self {
        Self(Arc::clone(ledger))
    }
}

/// A kind of payload.
pub(crate) trait Load: Send + 'static {
    type Payload: Send + 'static;

    /// An engine whose handlers write into `ledger`.
    fn build(builder: Builder, ledger: &Arc<Ledger>) -> Result<Timer<Self::Payload>, BuildError>;

    /// The payload of timer `ticket`.
    fn payload(link: &Arc<Link>, ticket: Ticket) -> Self::Payload;

    /// The timer that a payload belongs to, where that can be seen from outside.
    fn ticket(payload: &Self::Payload) -> Option<Ticket>;
}

/// `--payload typed`: the ticket itself, eight bytes.
pub(crate) struct Typed;

impl Load for Typed {
    type Payload = Ticket;

    fn build(builder: Builder, ledger: &Arc<Ledger>) -> Result<Timer<Ticket>, BuildError> {
        builder.build_per_shard(|shard| {
            let ledger = Arc::clone(ledger);
            move |_: &Timer<Ticket>, expired: Expired<Ticket>| {
                ledger.record_fired(shard, expired.payload)
            }
        })
    }

    #[inline]
    fn payload(_link: &Arc<Link>, ticket: Ticket) -> Ticket {
        ticket
    }

    #[inline]
    fn ticket(payload: &Ticket) -> Option<Ticket> {
        Some(*payload)
    }
}

/// `--payload closure`: a closure per timer.
pub(crate) struct Closure;

impl Load for Closure {
    type Payload = TimerTask;

    fn build(builder: Builder, _book: &Arc<Ledger>) -> Result<Timer<TimerTask>, BuildError> {
        builder.build()
    }

    #[inline]
    fn payload(link: &Arc<Link>, ticket: Ticket) -> TimerTask {
        let link = Arc::clone(link);
        TimerTask::new(move || record_on_this_thread(&link.0, ticket))
    }

    #[inline]
    fn ticket(_payload: &TimerTask) -> Option<Ticket> {
        None
    }
}

/// What the producer holds of a timer: a key, or an owned handle.
pub(crate) trait Grip<P: Send + 'static>: Sized + Send + 'static {
    fn schedule(timer: &Timer<P>, delay: Duration, payload: P) -> Result<Self, ScheduleError<P>>;
    fn cancel(&self, timer: &Timer<P>) -> Cancel<P>;
    fn reschedule(&self, timer: &Timer<P>, delay: Duration) -> Reschedule;
    /// Whether the engine admits that the timer fired.
    fn admits_firing(&self, timer: &Timer<P>) -> bool;
    fn key(&self) -> Key<P>;
}

impl<P: Send + 'static> Grip<P> for Key<P> {
    #[inline]
    fn schedule(timer: &Timer<P>, delay: Duration, payload: P) -> Result<Self, ScheduleError<P>> {
        timer.schedule_key(delay, payload)
    }

    #[inline]
    fn cancel(&self, timer: &Timer<P>) -> Cancel<P> {
        timer.cancel(*self)
    }

    #[inline]
    fn reschedule(&self, timer: &Timer<P>, delay: Duration) -> Reschedule {
        timer.reschedule(*self, delay)
    }

    fn admits_firing(&self, timer: &Timer<P>) -> bool {
        !timer.is_pending(*self)
    }

    #[inline]
    fn key(&self) -> Key<P> {
        *self
    }
}

impl<P: Send + 'static> Grip<P> for TimerHandle<P> {
    #[inline]
    fn schedule(timer: &Timer<P>, delay: Duration, payload: P) -> Result<Self, ScheduleError<P>> {
        timer.schedule(delay, payload)
    }

    #[inline]
    fn cancel(&self, _timer: &Timer<P>) -> Cancel<P> {
        Self::cancel(self)
    }

    #[inline]
    fn reschedule(&self, _timer: &Timer<P>, delay: Duration) -> Reschedule {
        Self::reschedule(self, delay)
    }

    fn admits_firing(&self, _timer: &Timer<P>) -> bool {
        self.is_expired() && !self.is_pending()
    }

    #[inline]
    fn key(&self) -> Key<P> {
        Self::key(self)
    }
}
