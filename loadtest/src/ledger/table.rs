//! The table of slots with its clock; tickets, which name the timers in it.

use std::sync::Mutex;
use std::time::Instant;

use hdrhistogram::Histogram;
use tickwheel::ManualClock;

use super::slot::Slot;
use crate::failure::Failure;
use crate::findings::{Breach, Findings};
use crate::measure::{LiveCount, histogram, nanos};

/// Names one timer for ever: its slot, and which of the slot's lives it is.
///
/// Eight bytes, so that it makes a fair payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    pub(super) slot: u32,
    /// Counted from 1; a slot would need weeks of uninterrupted reuse to wrap.
    pub(super) life: u32,
}

/// Where the ledger takes its time from.
#[derive(Clone)]
pub(crate) enum LedgerClock {
    /// The standard library's clock, so that the engine's own clock is judged as well.
    Real(Instant),
    /// Time that is turned by hand.
    Manual(ManualClock),
}

impl LedgerClock {
    /// Nanoseconds since the ledger was opened (manual: since the clock's origin).
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Self::Real(origin) => nanos(origin.elapsed()),
            Self::Manual(clock) => clock.now().as_nanos(),
        }
    }
}

/// The ledger of one run. Shared by producers (through their [`Writer`]) and handlers.
pub(crate) struct Ledger {
    clock: LedgerClock,
    pub(super) slots: Box<[Slot]>,
    pub(super) slots_per_writer: u32,
    pub(super) shards: Box<[Mutex<ShardRecord>]>,
    pub(super) fired_live: Box<[LiveCount]>,
    pub(super) findings: Mutex<Findings>,
}

impl Ledger {
    /// Opens a ledger for `writers` producers of at most `slots_per_writer` timers each. `cure` says what to change
    /// if these are too many.
    ///
    /// # Errors
    ///
    /// A ticket could not number that many slots, or there is no memory for them.
    pub(crate) fn open(
        clock: LedgerClock,
        writers: usize,
        slots_per_writer: usize,
        shards: usize,
        cure: &'static str,
    ) -> Result<Self, Failure> {
        let all = writers.checked_mul(slots_per_writer).and_then(|all| u32::try_from(all).ok());
        let (Some(all), Ok(slots_per_writer)) = (all, u32::try_from(slots_per_writer)) else {
            return Err(Failure::Options(format!(
                "{writers} producers with {slots_per_writer} timers each exceed the {} timers that the \
                 ledger can follow; {cure}",
                u32::MAX
            )));
        };
        let mut slots = Vec::new();
        let room = slots.try_reserve_exact(all as usize);
        room.map_err(Failure::memory(format_args!("a ledger of {all} timers"), cure))?;
        slots.resize_with(all as usize, Slot::default);
        Ok(Self {
            clock,
            slots: slots.into_boxed_slice(),
            slots_per_writer,
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            fired_live: (0..shards).map(|_| Default::default()).collect(),
            findings: Mutex::default(),
        })
    }

    /// Nanoseconds on the ledger's clock.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// How a person finds the timer again.
    fn describe(&self, ticket: Ticket) -> String {
        let writer = ticket.slot / self.slots_per_writer.max(1);
        let slot = ticket.slot % self.slots_per_writer.max(1);
        format!("timer {writer}:{slot}#{} (producer {writer}, slot {slot})", ticket.life)
    }

    /// Writes a breach down.
    pub(crate) fn breach(&self, kind: Breach, ticket: Ticket, what: &str) {
        self.breach_text(kind, format!("{}: {what}", self.describe(ticket)));
    }

    /// Writes a breach down that concerns no single slot.
    pub(crate) fn breach_text(&self, kind: Breach, text: String) {
        lock(&self.findings).add(kind, text);
    }

    /// Memory of the slot table, so that a report can tell it from the engine's.
    pub(crate) fn held_bytes(&self) -> u64 {
        size_of_val(&*self.slots) as u64
    }

    /// Timers fired so far, for the progress line.
    pub(crate) fn fired_so_far(&self) -> u64 {
        self.fired_live.iter().map(LiveCount::get).sum()
    }
}

/// What one shard has fired. Locked by that shard's thread alone until the run is over, so the lock
/// is never contended and costs the handler about 10 ns.
pub(crate) struct ShardRecord {
    pub(super) fired: u64,
    pub(super) lateness: Histogram<u64>,
}

impl Default for ShardRecord {
    fn default() -> Self {
        Self { fired: 0, lateness: histogram() }
    }
}

/// Locks; a panic elsewhere must not hide the ledger, so poison is ignored.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
