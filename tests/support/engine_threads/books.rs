//! What the test knows about each timer, apart from the engine; and the handler of every shard.

use super::{AnyClock, WANTED};
use crate::support::ledger::{Ledger, Payload};
use crate::support::random::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tickwheel::{
    Cancel, Expired, Key, ScheduleError, ScheduleErrorKind, StopError, Time, Timer, Unfired,
};

pub(super) const PERIODICS: u64 = 16;

pub(super) type Engine = Timer<Payload>;

/// What the books know of one timer besides its line in the ledger.
#[derive(Default)]
struct Record {
    key: OnceLock<Key<Payload>>,
    /// The time before which it must not fire, in nanoseconds.
    not_before: AtomicU64,
    /// The latest time that it was ever meant to fire at, in nanoseconds.
    not_after: AtomicU64,
}

/// What the books know of one periodic timer.
#[derive(Default)]
pub(super) struct Repeated {
    pub(super) key: OnceLock<Key<Payload>>,
    pub(super) fired: AtomicU64,
    /// One plus the number of handler calls that had begun when its cancel returned; 0 if never cancelled.
    pub(super) cancelled_at: AtomicU64,
    pub(super) returned: AtomicU64,
}

/// See the module.
pub(super) struct Books {
    pub(super) ledger: Arc<Ledger>,
    pub(super) clock: AnyClock,
    /// First the producers' timers, then one possible child of each.
    records: Box<[Record]>,
    pub(super) repeated: Box<[Repeated]>,
    /// Whether handlers may panic.
    panics_wanted: bool,
    pub(super) panics: AtomicU64,
    pub(super) refusals: AtomicU64,
    pub(super) early: AtomicU64,
}

impl Books {
    pub(super) fn new(timers: u64, clock: AnyClock, panics_wanted: bool) -> Self {
        Self {
            ledger: Ledger::new(2 * timers),
            clock,
            records: (0..2 * timers).map(|_| Record::default()).collect(),
            repeated: (0..PERIODICS).map(|_| Repeated::default()).collect(),
            panics_wanted,
            panics: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            early: AtomicU64::new(0),
        }
    }

    /// The producers' timers.
    pub(super) fn timers(&self) -> u64 {
        self.records.len() as u64 / 2
    }

    fn record(&self, id: u64) -> &Record {
        &self.records[id as usize]
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = (u64, Key<Payload>)> {
        (0..)
            .zip(&self.records)
            .filter_map(|(id, record)| Some((id, *record.key.get()?)))
    }

    fn in_ns(&self, delay: Duration) -> u64 {
        (self.clock.now() + delay).as_nanos()
    }

    /// Enters a timer that is about to be scheduled.
    pub(super) fn begin(&self, id: u64, delay: Duration) -> Payload {
        let (record, at) = (self.record(id), self.in_ns(delay));
        record.not_before.store(at, Ordering::SeqCst);
        record.not_after.store(at, Ordering::SeqCst);
        self.ledger.begin(id)
    }

    pub(super) fn begun(&self, id: u64, key: Result<Key<Payload>, ScheduleError<Payload>>) {
        match key {
            Ok(key) => assert!(self.record(id).key.set(key).is_ok()),
            Err(error) => {
                self.refused(id, error);
                self.ledger.refused(id);
            }
        }
    }

    pub(super) fn refused(&self, id: u64, error: ScheduleError<Payload>) {
        self.refused_for(id, error.kind());
        assert_eq!(error.into_payload().id(), id, "the payload comes back");
    }

    fn refused_for(&self, id: u64, kind: &ScheduleErrorKind) {
        use ScheduleErrorKind::{Stopped, TooManyPending};
        assert!(
            matches!(kind, Stopped | TooManyPending { .. }),
            "timer {id} was refused: {kind}"
        );
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn cancelled(&self, id: u64, answer: Cancel<Payload>) {
        if let Some(payload) = answer.into_payload() {
            assert_eq!(payload.id(), id, "another timer's payload");
            self.ledger.cancelled(id);
        }
    }

    pub(super) fn cancel(&self, engine: &Engine, id: u64) {
        if let Some(key) = self.record(id).key.get() {
            self.cancelled(id, engine.cancel(*key));
        }
    }

    /// Cancels what may not fire within a second.
    pub(super) fn cancel_far(&self, engine: &Engine) {
        let far = self.in_ns(Duration::from_secs(1));
        for (id, _) in self.keys() {
            if self.record(id).not_after.load(Ordering::SeqCst) > far {
                self.cancel(engine, id);
            }
        }
    }

    /// Moves a timer by key, as [`moving`](Self::moving).
    pub(super) fn move_timer(&self, engine: &Engine, id: u64, delay: Duration, own: bool) {
        if let Some(key) = self.record(id).key.get() {
            self.moving(id, delay, own, || engine.reschedule(*key, delay).is_moved());
        }
    }

    /// Moves a timer. Those with odd numbers may be moved by anybody, so the books know a lower bound only;
    /// the others by their producer alone (`own`), so the books know their deadline.
    pub(super) fn moving(&self, id: u64, delay: Duration, own: bool, moved: impl Fn() -> bool) {
        if !own && id % 2 == 0 {
            return;
        }
        let (record, bound) = (self.record(id), self.in_ns(delay));
        // Until the answer is there, either deadline may be the one that counts.
        record.not_before.fetch_min(bound, Ordering::SeqCst);
        record.not_after.fetch_max(bound, Ordering::SeqCst);
        if moved() && id % 2 == 0 {
            record.not_before.store(bound, Ordering::SeqCst);
        }
    }

    pub(super) fn end_periodic(&self, engine: &Engine, n: u64) {
        let repeated = &self.repeated[n as usize];
        let Some(key) = repeated.key.get() else {
            return;
        };
        // One that meets a call which is about to begin makes it the last one.
        if matches!(engine.cancel(*key), Cancel::Won(_) | Cancel::AfterCall) {
            let fired = repeated.fired.load(Ordering::SeqCst);
            assert_eq!(repeated.cancelled_at.swap(fired + 1, Ordering::SeqCst), 0);
        }
    }

    /// What `stop` handed back; how many there were.
    pub(super) fn returned(&self, unfired: Vec<Unfired<Payload>>) -> u64 {
        for one in &unfired {
            let id = one.payload.id();
            match id.checked_sub(2 * self.timers()) {
                Some(n) => drop(
                    self.repeated[n as usize]
                        .returned
                        .fetch_add(1, Ordering::Relaxed),
                ),
                None => self.ledger.returned(id),
            }
        }
        unfired.len() as u64
    }

    /// The handler of every shard; it may use the engine, if there is one.
    pub(super) fn fire(&self, engine: Option<&Engine>, expired: &Expired<Payload>) {
        let (now, id) = (self.clock.now(), expired.payload.id());
        self.early
            .fetch_add(u64::from(now < expired.deadline), Ordering::Relaxed);
        if let Some(n) = id.checked_sub(2 * self.timers()) {
            let before = self.repeated[n as usize]
                .fired
                .fetch_add(1, Ordering::SeqCst);
            self.panic_if(before % 5 == 3);
            return;
        }
        self.ledger.fired(id);
        let not_before = Time::from_nanos(self.record(id).not_before.load(Ordering::SeqCst));
        self.early
            .fetch_add(u64::from(now < not_before), Ordering::Relaxed);
        if let Some(engine) = engine {
            self.react(engine, id);
        }
    }

    fn react(&self, engine: &Engine, id: u64) {
        let mut random = Random::new(id);
        let other = random.below(self.timers());
        match random.below(12) {
            0..3 if id < self.timers() => {
                let (child, delay) = (id + self.timers(), super::any_delay(&mut random));
                self.begun(child, engine.schedule(delay, self.begin(child, delay)));
            }
            3 => self.cancel(engine, other),
            4 => self.move_timer(engine, other, super::any_delay(&mut random), false),
            5 => std::thread::sleep(Duration::from_micros(random.below(50))),
            6 => assert_eq!(engine.stop().map(drop), Err(StopError::InsideHandler)),
            7 => self.end_periodic(engine, other % PERIODICS),
            8 => self.panic_if(true),
            _ => {}
        }
    }

    fn panic_if(&self, now: bool) {
        if now && self.panics_wanted {
            self.panics.fetch_add(1, Ordering::Relaxed);
            std::panic::panic_any(WANTED);
        }
    }
}
