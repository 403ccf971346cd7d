//! What the test knows about each timer, apart from the engine.

use crate::common::{HOUR, Random, ms, us};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tickwheel::{Cancel, Expired, Key, ScheduleError, StopError, Timer, Unfired};

pub(crate) const PERIODICS: u64 = 16;
pub(crate) const FIRED: u32 = 1;
pub(crate) const CANCELLED: u32 = 1 << 8;
pub(crate) const RETURNED: u32 = 1 << 16;
pub(crate) const REFUSED: u32 = 1 << 24;
/// The message of the panics that belong to the test.
pub(crate) const WANTED: &str = "a panic that the test wants";

/// A payload that counts how many of it exist.
pub(crate) struct Load {
    pub(crate) id: u64,
    pub(crate) alive: Arc<AtomicI64>,
}

impl Load {
    pub(crate) fn new(id: u64, alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { id, alive: Arc::clone(alive) }
    }
}

impl Clone for Load {
    fn clone(&self) -> Self {
        Self::new(self.id, &self.alive)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the books know of one timer.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) begun: AtomicU32,
    /// One of the four ends, added once for each time it happened.
    pub(crate) ends: AtomicU32,
    /// Nanoseconds since the round's origin before which it must not fire.
    pub(crate) not_before: AtomicU64,
    pub(crate) key: OnceLock<Key<Load>>,
}

/// What the books know of one periodic timer.
#[derive(Default)]
pub(crate) struct Repeated {
    pub(crate) key: OnceLock<Key<Load>>,
    pub(crate) fired: AtomicU64,
    /// One plus the number of handler calls that had begun when its cancel returned; 0 if never cancelled.
    pub(crate) cancelled_at: AtomicU64,
    pub(crate) returned: AtomicU64,
}

pub(crate) struct Books {
    pub(crate) origin: Instant,
    /// First the producers' timers, then one possible child of each.
    pub(crate) records: Box<[Record]>,
    pub(crate) repeated: Box<[Repeated]>,
    pub(crate) alive: Arc<AtomicI64>,
    pub(crate) panics: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) early: AtomicU64,
}

pub(crate) type Engine = Timer<Load>;

impl Books {
    pub(crate) fn new(timers: u64) -> Self {
        Self {
            origin: Instant::now(),
            records: (0..2 * timers).map(|_| Record::default()).collect(),
            repeated: (0..PERIODICS).map(|_| Repeated::default()).collect(),
            alive: Arc::default(),
            panics: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            early: AtomicU64::new(0),
        }
    }

    pub(crate) fn timers(&self) -> u64 {
        self.records.len() as u64 / 2
    }

    pub(crate) fn record(&self, id: u64) -> &Record {
        &self.records[id as usize]
    }

    pub(crate) fn in_ns(&self, delay: Duration) -> u64 {
        (self.origin.elapsed() + delay).as_nanos() as u64
    }

    pub(crate) fn end(&self, id: u64, end: u32) {
        self.record(id).ends.fetch_add(end, Ordering::Relaxed);
    }

    /// Enters a timer that is about to be scheduled.
    pub(crate) fn begin(&self, id: u64, delay: Duration) -> Load {
        let record = self.record(id);
        record.begun.fetch_add(1, Ordering::Relaxed);
        record.not_before.store(self.in_ns(delay), Ordering::SeqCst);
        Load::new(id, &self.alive)
    }

    pub(crate) fn begun(&self, id: u64, key: Result<Key<Load>, ScheduleError<Load>>) {
        match key {
            Ok(key) => assert!(self.record(id).key.set(key).is_ok()),
            Err(error) => {
                assert_eq!(error.into_payload().id, id);
                self.refusals.fetch_add(1, Ordering::Relaxed);
                self.end(id, REFUSED);
            }
        }
    }

    pub(crate) fn cancelled(&self, id: u64, answer: Cancel<Load>) {
        if let Some(load) = answer.payload() {
            assert_eq!(load.id, id, "another timer's payload");
            self.end(id, CANCELLED);
        }
    }

    pub(crate) fn cancel(&self, engine: &Engine, id: u64) {
        if let Some(key) = self.record(id).key.get() {
            self.cancelled(id, engine.cancel(*key));
        }
    }

    /// Moves a timer. Those with odd numbers may be moved by anybody, so the books know a lower bound only;
    /// the others by their producer alone (`own`), so the books know their deadline.
    pub(crate) fn move_timer(&self, engine: &Engine, id: u64, delay: Duration, own: bool) {
        let record = self.record(id);
        let Some(key) = record.key.get().filter(|_| own || id % 2 == 1) else { return };
        let bound = self.in_ns(delay);
        record.not_before.fetch_min(bound, Ordering::SeqCst);
        if engine.reschedule(*key, delay).moved() && id % 2 == 0 {
            record.not_before.store(bound, Ordering::SeqCst);
        }
    }

    pub(crate) fn end_periodic(&self, engine: &Engine, n: u64) {
        let repeated = &self.repeated[n as usize];
        let Some(key) = repeated.key.get() else { return };
        if engine.cancel(*key).won() {
            let fired = repeated.fired.load(Ordering::SeqCst);
            assert_eq!(repeated.cancelled_at.swap(fired + 1, Ordering::SeqCst), 0);
        }
    }

    pub(crate) fn returned(&self, unfired: Vec<Unfired<Load>>) -> u64 {
        let count = unfired.len() as u64;
        for one in unfired {
            match one.payload.id.checked_sub(2 * self.timers()) {
                Some(n) => {
                    self.repeated[n as usize].returned.fetch_add(1, Ordering::Relaxed);
                }
                None => self.end(one.payload.id, RETURNED),
            }
        }
        count
    }

    /// The handler of every shard.
    pub(crate) fn fire(&self, engine: &Engine, expired: Expired<Load>) {
        let (now, id) = (self.in_ns(Duration::ZERO), expired.payload.id);
        if let Some(n) = id.checked_sub(2 * self.timers()) {
            let before = self.repeated[n as usize].fired.fetch_add(1, Ordering::SeqCst);
            self.panic_if(before % 5 == 3);
            return;
        }
        self.end(id, FIRED);
        if now < self.record(id).not_before.load(Ordering::SeqCst) {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        let mut random = Random::new(id);
        let other = random.below(self.timers());
        match random.below(12) {
            0..3 if id < self.timers() => {
                let (child, delay) = (id + self.timers(), any_delay(&mut random));
                self.begun(child, engine.schedule_key(delay, self.begin(child, delay)));
            }
            3 => self.cancel(engine, other),
            4 => self.move_timer(engine, other, any_delay(&mut random), false),
            5 => std::thread::sleep(us(random.below(50))),
            6 => assert_eq!(engine.stop().map(drop), Err(StopError::InsideHandler)),
            7 => self.end_periodic(engine, other % PERIODICS),
            8 => self.panic_if(true),
            _ => {}
        }
    }

    pub(crate) fn panic_if(&self, wanted: bool) {
        if wanted {
            self.panics.fetch_add(1, Ordering::Relaxed);
            std::panic::panic_any(WANTED);
        }
    }
}

pub(crate) fn any_delay(random: &mut Random) -> Duration {
    match random.below(10) {
        0 => Duration::ZERO,
        1..5 => us(random.below(100)),
        5..8 => us(random.below(3_000)),
        8 => ms(random.below(100)),
        _ => HOUR,
    }
}
