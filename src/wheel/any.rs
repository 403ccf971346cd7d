//! One of the wheels, chosen when a timer is built.

use super::{DeadMask, Entry, Hashed, Hierarchical, Sweep, Wheel};
use crate::types::{BuildError, MAX_BUCKETS, WheelKind};
use alloc::vec::Vec;

/// One of the two kinds of wheel, chosen when the engine is built.
///
/// The dispatch is a predictable branch, not a call through a table.
pub enum AnyWheel {
    /// Rings of growing span; right for every mix of delays.
    Hierarchical(Hierarchical),
    /// One ring with rounds; right when delays are short and similar.
    Hashed(Hashed),
}

impl AnyWheel {
    /// Returns the wheel of a kind.
    pub(crate) fn new(kind: WheelKind) -> Result<Self, BuildError> {
        match kind {
            WheelKind::Hierarchical => Ok(Self::Hierarchical(Hierarchical::new())),
            WheelKind::Hashed {
                buckets: buckets @ 1..=MAX_BUCKETS,
            } => Ok(Self::Hashed(Hashed::new(buckets))),
            WheelKind::Hashed { buckets } => Err(BuildError::BucketsOutOfRange { buckets }),
        }
    }

    /// Takes the memory of the first hundred entries, whatever their deadlines; false if there is none.
    #[cfg(feature = "threads")]
    pub(crate) fn reserve_first(&mut self) -> bool {
        match self {
            Self::Hierarchical(wheel) => wheel.reserve_first(),
            Self::Hashed(wheel) => wheel.reserve_first(),
        }
    }
}

// Inlined all the way: a caller that passes an entry through memory writes it in parts and reads it back as a whole,
// and that stall doubles the cost of an insert.
impl Wheel for AnyWheel {
    #[inline(always)]
    fn try_insert(&mut self, entry: Entry) -> bool {
        match self {
            Self::Hierarchical(wheel) => wheel.try_insert(entry),
            Self::Hashed(wheel) => wheel.try_insert(entry),
        }
    }

    #[inline]
    fn earliest(&self) -> Option<u64> {
        match self {
            Self::Hierarchical(wheel) => wheel.earliest(),
            Self::Hashed(wheel) => wheel.earliest(),
        }
    }

    #[inline]
    fn advance(&mut self, to: u64, budget: usize, due: &mut Vec<Entry>) -> bool {
        match self {
            Self::Hierarchical(wheel) => wheel.advance(to, budget, due),
            Self::Hashed(wheel) => wheel.advance(to, budget, due),
        }
    }

    fn take_backlog(&mut self, limit: usize, due: &mut Vec<Entry>) {
        match self {
            Self::Hierarchical(wheel) => wheel.take_backlog(limit, due),
            Self::Hashed(wheel) => wheel.take_backlog(limit, due),
        }
    }

    #[inline]
    fn has_backlog(&self) -> bool {
        match self {
            Self::Hierarchical(wheel) => wheel.has_backlog(),
            Self::Hashed(wheel) => wheel.has_backlog(),
        }
    }

    fn sweep_batches(&mut self, budget: usize, is_dead: DeadMask<'_>) -> Sweep {
        match self {
            Self::Hierarchical(wheel) => wheel.sweep_batches(budget, is_dead),
            Self::Hashed(wheel) => wheel.sweep_batches(budget, is_dead),
        }
    }

    fn restart_sweep(&mut self) {
        match self {
            Self::Hierarchical(wheel) => wheel.restart_sweep(),
            Self::Hashed(wheel) => wheel.restart_sweep(),
        }
    }

    fn drain_all(&mut self, f: &mut dyn FnMut(Entry)) {
        match self {
            Self::Hierarchical(wheel) => wheel.drain_all(f),
            Self::Hashed(wheel) => wheel.drain_all(f),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Hierarchical(wheel) => wheel.len(),
            Self::Hashed(wheel) => wheel.len(),
        }
    }

    #[inline]
    fn hand(&self) -> u64 {
        match self {
            Self::Hierarchical(wheel) => wheel.hand(),
            Self::Hashed(wheel) => wheel.hand(),
        }
    }

    fn held_bytes(&self) -> usize {
        match self {
            Self::Hierarchical(wheel) => wheel.held_bytes(),
            Self::Hashed(wheel) => wheel.held_bytes(),
        }
    }
}
