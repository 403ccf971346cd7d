//! The program's own books: what became of every timer, kept without asking the engine.
//!
//! Each producer owns a *lane* of slots; a slot describes one timer at a time, a *ticket* names one
//! timer for ever (slot and life). Two words per slot, each with one kind of writer, tell the story:
//!
//! ```text
//!              life (producer)                       fired (the shard that runs the handler)
//!   schedule   n, Pending                            older life
//!   cancelled  n, Cancelled  checks fired != n       stays older
//!   fired      n, Pending    frees once fired == n   n, after checking that life is "n, Pending"
//!   refused    n, Refused                            stays older
//! ```
//!
//! A timer that ends twice leaves a contradiction that one side sees at once, or the next user of the
//! slot, or the audit after the run; a timer that never ends is still Pending in the audit. So the
//! answer is exact, and yet a schedule + cancel pair costs plain loads and stores only.
//!
//! * `slot` - the two words; `lane` - the producer's side; `recorder` - the firing side
//! * `evidence` - breaches found; `audit` - the last look at every slot, and the verdict

mod audit;
mod evidence;
mod lane;
mod recorder;
mod slot;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tickwheel::ManualClock;

pub(crate) use audit::{EngineCounts, Tally, Verdict};
pub(crate) use evidence::{Evidence, Kind};
pub(crate) use lane::Lane;
pub(crate) use recorder::{LiveCount, record_on_this_thread};

use recorder::ShardRecord;
use slot::Slot;

/// Names one timer for ever: its slot, and which of the slot's lives it is.
///
/// Eight bytes, so that it makes a fair payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    slot: u32,
    /// Counted from 1; a slot would need weeks of uninterrupted reuse to wrap.
    life: u32,
}

/// Where the books take their time from.
#[derive(Clone)]
pub(crate) enum BookClock {
    /// The standard library's clock, so that the engine's own clock is judged as well.
    Real(Instant),
    /// Time that is turned by hand.
    Manual(ManualClock),
}

impl BookClock {
    /// Nanoseconds since the books were opened (manual: since the clock's origin).
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Self::Real(origin) => nanos(origin.elapsed()),
            Self::Manual(clock) => clock.now().as_nanos(),
        }
    }
}

/// The books of one run. Shared by producers (through their [`Lane`]) and handlers.
pub(crate) struct Book {
    clock: BookClock,
    slots: Box<[Slot]>,
    slots_per_lane: u32,
    shards: Box<[Mutex<ShardRecord>]>,
    fired_live: Box<[recorder::LiveCount]>,
    evidence: Mutex<Evidence>,
}

impl Book {
    /// Opens books for `lanes` producers of at most `slots_per_lane` timers each.
    ///
    /// # Errors
    ///
    /// A text with the limit if a ticket could not number that many slots.
    pub(crate) fn open(
        clock: BookClock,
        lanes: usize,
        slots_per_lane: usize,
        shards: usize,
    ) -> Result<Self, String> {
        let slots = lanes.checked_mul(slots_per_lane).and_then(|all| u32::try_from(all).ok());
        let (Some(slots), Ok(slots_per_lane)) = (slots, u32::try_from(slots_per_lane)) else {
            return Err(format!(
                "{lanes} producers with {slots_per_lane} timers each exceed the {} timers that the \
                 books can follow; lower --in-flight or --producers",
                u32::MAX
            ));
        };
        Ok(Self {
            clock,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            slots_per_lane,
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            fired_live: (0..shards).map(|_| Default::default()).collect(),
            evidence: Mutex::default(),
        })
    }

    /// Nanoseconds on the books' clock.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// How a person finds the timer again.
    fn describe(&self, ticket: Ticket) -> String {
        let lane = ticket.slot / self.slots_per_lane.max(1);
        let slot = ticket.slot % self.slots_per_lane.max(1);
        format!("timer {lane}:{slot}#{} (producer {lane}, slot {slot})", ticket.life)
    }

    /// Writes a breach down.
    pub(crate) fn breach(&self, kind: Kind, ticket: Ticket, what: &str) {
        self.breach_text(kind, format!("{}: {what}", self.describe(ticket)));
    }

    /// Writes a breach down that concerns no single slot.
    pub(crate) fn breach_text(&self, kind: Kind, text: String) {
        lock(&self.evidence).add(kind, text);
    }

    /// Memory of the slot table, so that a report can tell it from the engine's.
    pub(crate) fn held_bytes(&self) -> u64 {
        size_of_val(&*self.slots) as u64
    }

    /// Timers fired so far, for the progress line.
    pub(crate) fn fired_so_far(&self) -> u64 {
        self.fired_live.iter().map(recorder::LiveCount::get).sum()
    }
}

/// An empty histogram of nanoseconds up to an hour, within 1 %, about 35 KiB.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("the bounds are valid constants")
}

/// The duration in nanoseconds, saturating.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .checked_mul(1_000_000_000)
        .and_then(|nanos| nanos.checked_add(u64::from(duration.subsec_nanos())))
        .unwrap_or(u64::MAX)
}

/// Locks; a panic elsewhere must not hide the books, so poison is ignored.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
