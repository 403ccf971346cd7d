//! The words of one slot. Every atomic access of the ledger's slots is in this file.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What the producer knows about the timer in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing was ever scheduled here.
    Empty = 0,
    /// Accepted (or just being handed in), no end seen by the producer.
    Pending = 1,
    /// A cancel was won.
    Cancelled = 2,
    /// The engine refused it.
    Refused = 3,
    /// `stop` handed it back.
    Returned = 4,
    /// A contradiction was found and reported; not to be reported again.
    Judged = 5,
}

use Phase::{Cancelled, Empty, Judged, Pending, Refused, Returned};

const PHASES: [Phase; 6] = [Empty, Pending, Cancelled, Refused, Returned, Judged];
const PHASE_BITS: u32 = 3;

/// One timer at a time; see the table in the parent module.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Life and phase. Written by the writer's owner, and by the audit once all threads have ended.
    life: AtomicU64,
    /// Earliest moment, in nanoseconds of the ledger's clock, at which firing is right.
    deadline: AtomicU64,
    /// The last life that fired. Written by handlers only.
    fired: AtomicU32,
}

impl Slot {
    /// Starts life `life`, due at `deadline`.
    #[inline]
    pub(crate) fn begin(&self, life: u32, deadline: u64) {
        // ORDERING: Relaxed; the Release store of `life` right after publishes it.
        self.deadline.store(deadline, Ordering::Relaxed);
        self.set_phase(life, Phase::Pending);
    }

    #[inline]
    pub(crate) fn set_phase(&self, life: u32, phase: Phase) {
        // ORDERING: Release, pairs with the Acquire in `life`: who sees this life sees its deadline.
        self.life.store(
            u64::from(life) << PHASE_BITS | phase as u64,
            Ordering::Release,
        );
    }

    /// The life the producer is at, and its phase.
    #[inline]
    pub(crate) fn life(&self) -> (u32, Phase) {
        // ORDERING: Acquire, pairs with the Release in `set_phase`.
        let word = self.life.load(Ordering::Acquire);
        let phase = PHASES[(word & ((1 << PHASE_BITS) - 1)) as usize];
        ((word >> PHASE_BITS) as u32, phase)
    }

    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        // ORDERING: Relaxed; a reader has seen the life through Acquire, and after a reschedule
        // every value it may find here was a right lower bound when the timer was moved.
        self.deadline.load(Ordering::Relaxed)
    }

    /// Moves the bound of a timer that is being rescheduled.
    #[inline]
    pub(crate) fn set_deadline(&self, deadline: u64) {
        // ORDERING: Relaxed; the engine's own hand-over publishes the lower of both bounds before
        // the timer can fire at its new place, and the higher one may be seen late.
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// The last life that fired.
    #[inline]
    pub(crate) fn fired(&self) -> u32 {
        // ORDERING: Acquire, pairs with the AcqRel swap in `fire`: a slot is reused only after the
        // handler has finished with it.
        self.fired.load(Ordering::Acquire)
    }

    /// Marks life `life` fired and returns the mark found before.
    #[inline]
    pub(crate) fn fire(&self, life: u32) -> u32 {
        // ORDERING: AcqRel; Release pairs with the Acquire in `fired`, Acquire orders two handlers
        // of one slot. An exchange, so that of two firings at the same moment one sees the other.
        self.fired.swap(life, Ordering::AcqRel)
    }
}
