//! The program's own ledger: what became of every timer, kept without asking the engine.
//!
//! Each producer owns a *writer* with slots; a slot describes one timer at a time, a *ticket* names one
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
//! * `slot` - the two words; `audit` - the last look at every slot, and the verdict

mod audit;
mod slot;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hdrhistogram::Histogram;
use tickwheel::ManualClock;

pub(crate) use self::slot::Phase;
use self::slot::Slot;
use crate::failure::Failure;
use crate::findings::{Breach, Findings};
use crate::measure::{LiveCount, histogram, nanos};

/// Names one timer for ever: its slot, and which of the slot's lives it is.
///
/// Eight bytes, so that it makes a fair payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    slot: u32,
    /// Counted from 1; a slot would need weeks of uninterrupted reuse to wrap.
    life: u32,
}

/// Where the ledger takes its time from.
#[derive(Clone)]
pub(crate) enum LedgerClock {
    /// The standard library's clock, so that the engine's own clock is judged as well.
    Real(Instant),
    /// Time that is turned by hand.
    Manual(ManualClock),
}

/// What the producers counted, all writers together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Timers the engine accepted.
    pub(crate) accepted: u64,
    /// Cancels won.
    pub(crate) cancelled: u64,
    /// Timers refused because too many were pending.
    pub(crate) refused_full: u64,
    /// Timers refused because the engine had stopped.
    pub(crate) refused_stopped: u64,
    /// Reschedules that moved their timer.
    pub(crate) rescheduled: u64,
}

impl Totals {
    /// Adds another producer's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.cancelled += other.cancelled;
        self.refused_full += other.refused_full;
        self.refused_stopped += other.refused_stopped;
        self.rescheduled += other.rescheduled;
    }
}

/// The ledger of one run. Shared by producers (through their [`Writer`]) and handlers.
pub(crate) struct Ledger {
    clock: LedgerClock,
    slots: Box<[Slot]>,
    slots_per_writer: u32,
    lanes: Box<[Lane]>,
    findings: Mutex<Findings>,
}

/// What one thread has fired. The lock is never contended and costs the handler about 10 ns.
struct Lane {
    fired: LiveCount,
    lateness: Mutex<Histogram<u64>>,
}

impl Ledger {
    /// Opens a ledger for `writers` producers of at most `slots_per_writer` timers each and `threads` that fire.
    ///
    /// # Errors
    ///
    /// A ticket could not number that many slots, or there is no memory for them.
    pub(crate) fn open(
        clock: LedgerClock,
        writers: usize,
        slots_per_writer: usize,
        threads: usize,
    ) -> Result<(Arc<Self>, Vec<Writer>), Failure> {
        let all = writers.saturating_mul(slots_per_writer);
        let no_room = || {
            let cure = "lower --in-flight or --producers, or use a shorter workload file";
            Failure::System(format!(
                "there is no memory for a ledger of {all} timers; {cure}"
            ))
        };
        let number = u32::try_from(all).map_err(|_| no_room())?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(all).map_err(|_| no_room())?;
        slots.resize_with(all, Slot::default);
        let lane = |_| Lane {
            fired: LiveCount::default(),
            lateness: Mutex::new(histogram()),
        };
        let ledger = Arc::new(Self {
            clock,
            slots: slots.into_boxed_slice(),
            slots_per_writer: number / writers.max(1) as u32,
            lanes: (0..threads.max(1)).map(lane).collect(),
            findings: Mutex::default(),
        });
        let writer = |number| {
            let (mut free, first) = (Vec::new(), number * slots_per_writer);
            free.try_reserve_exact(slots_per_writer)
                .map_err(|_| no_room())?;
            free.extend(
                (first..first + slots_per_writer)
                    .rev()
                    .map(|slot| slot as u32),
            );
            Ok(Writer {
                ledger: Arc::clone(&ledger),
                free,
            })
        };
        let writers = (0..writers).map(writer).collect::<Result<_, Failure>>()?;
        Ok((Arc::clone(&ledger), writers))
    }

    /// Nanoseconds since the ledger was opened (manual: since the clock's origin).
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match &self.clock {
            LedgerClock::Real(origin) => nanos(origin.elapsed()),
            LedgerClock::Manual(clock) => clock.now().as_nanos(),
        }
    }

    /// Writes a breach of one timer down, so that a person finds the timer again.
    pub(crate) fn breach(&self, kind: Breach, ticket: Ticket, what: &str) {
        let writer = ticket.slot / self.slots_per_writer.max(1);
        let slot = ticket.slot % self.slots_per_writer.max(1);
        let life = ticket.life;
        let name = format!("timer {writer}:{slot}#{life} (producer {writer}, slot {slot})");
        self.breach_text(kind, format!("{name}: {what}"));
    }

    /// Writes a breach down that concerns no single slot.
    pub(crate) fn breach_text(&self, kind: Breach, text: String) {
        lock(&self.findings).add(kind, text);
    }

    /// Writes a mismatch down if the two numbers differ.
    pub(crate) fn compare(&self, what: &str, theirs: u64, ours: u64) {
        lock(&self.findings).compare(what, theirs, ours);
    }

    /// Memory of the slot table, so that a report can tell it from the engine's.
    pub(crate) fn held_bytes(&self) -> u64 {
        size_of_val(&*self.slots) as u64
    }

    /// Timers fired so far. Exact once all threads have ended.
    pub(crate) fn fired(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.fired.get()).sum()
    }

    /// How late timers fired, in nanoseconds, all threads together.
    pub(crate) fn lateness(&self) -> Histogram<u64> {
        let mut all = histogram();
        for lane in &self.lanes {
            all.add(&*lock(&lane.lateness))
                .expect("all histograms have the same bounds");
        }
        all
    }

    /// Records that `ticket` fired on this thread, and judges it.
    pub(crate) fn record_fired(&self, ticket: Ticket) {
        let now = self.now_ns();
        let Some(slot) = self.slots.get(ticket.slot as usize) else {
            self.breach(
                Breach::Mismatch,
                ticket,
                "fired, but no such timer was ever scheduled",
            );
            return;
        };
        let lane = &self.lanes[lane() % self.lanes.len()];
        lane.fired.add(1);
        let (life, phase) = slot.life();
        if life != ticket.life {
            let what = format!("fired after it had ended (its slot is at life {life})");
            self.breach(Breach::Twice, ticket, &what);
            return;
        }
        if phase != Phase::Pending {
            self.breach(
                Breach::Twice,
                ticket,
                &format!("fired after it was {phase:?}"),
            );
            return;
        }
        // Read before the mark: with the mark set, the producer may give the slot to another.
        let deadline = slot.deadline();
        if slot.fire(ticket.life) == ticket.life {
            self.breach(Breach::Twice, ticket, "fired twice");
        } else if now < deadline {
            let what = format!("fired {} ns before its deadline", deadline - now);
            self.breach(Breach::Early, ticket, &what);
        }
        lock(&lane.lateness).saturating_record(now.saturating_sub(deadline));
    }
}

/// Numbers the threads that fire, so that two that fire at the same time share no lock.
fn lane() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // ORDERING: Relaxed; only the numbers have to differ.
    thread_local!(static LANE: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    LANE.with(|lane| *lane)
}

/// Locks; a panic elsewhere must not hide the ledger, so poison is ignored.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One producer's slots. Not shared; a slot is free again once its timer has ended.
pub(crate) struct Writer {
    pub(crate) ledger: Arc<Ledger>,
    /// Slots without a timer. Last in, first out, so that a small working set stays in the cache.
    pub(crate) free: Vec<u32>,
}

impl Writer {
    /// Opens an account for a timer that is about to be scheduled; `None` if no slot is free.
    #[inline]
    pub(crate) fn open(&mut self, deadline_ns: u64) -> Option<Ticket> {
        let index = self.free.pop()?;
        let slot = &self.ledger.slots[index as usize];
        let (life, phase) = slot.life();
        if matches!(phase, Phase::Cancelled | Phase::Refused) && slot.fired() == life {
            let old = Ticket { slot: index, life };
            self.ledger
                .breach(Breach::Twice, old, &format!("{phase:?}, and fired as well"));
        }
        let life = life.wrapping_add(1).max(1);
        slot.begin(life, deadline_ns);
        Some(Ticket { slot: index, life })
    }

    /// The engine refused the timer, or a cancel was won.
    #[inline]
    pub(crate) fn close(&mut self, ticket: Ticket, phase: Phase) {
        let slot = &self.ledger.slots[ticket.slot as usize];
        if slot.fired() == ticket.life {
            slot.set_phase(ticket.life, Phase::Judged);
            let what = format!("{phase:?} although its handler had run");
            self.ledger.breach(Breach::Twice, ticket, &what);
        } else {
            slot.set_phase(ticket.life, phase);
        }
        self.free.push(ticket.slot);
    }

    /// Whether the timer's handler has run.
    #[inline]
    pub(crate) fn has_fired(&self, ticket: Ticket) -> bool {
        self.ledger.slots[ticket.slot as usize].fired() == ticket.life
    }

    /// Frees the slot of a timer whose handler has run.
    #[inline]
    pub(crate) fn reap(&mut self, ticket: Ticket) {
        self.free.push(ticket.slot);
    }

    /// Before a reschedule: from now on the timer may fire at its old or at its new deadline.
    #[inline]
    pub(crate) fn moving(&mut self, ticket: Ticket, deadline_ns: u64) {
        let slot = &self.ledger.slots[ticket.slot as usize];
        slot.set_deadline(slot.deadline().min(deadline_ns));
    }

    /// After a reschedule that succeeded: only the new deadline counts.
    #[inline]
    pub(crate) fn moved(&mut self, ticket: Ticket, deadline_ns: u64) {
        self.ledger.slots[ticket.slot as usize].set_deadline(deadline_ns);
    }
}
