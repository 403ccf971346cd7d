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

/// Implements methods by those of whichever wheel there is.
macro_rules! either {
    ($($(#[$hint:meta])? $name:ident(self: $this:ty $(, $argument:ident: $type:ty)*) -> $answer:ty;)+) => {$(
        $(#[$hint])?
        fn $name(self: $this $(, $argument: $type)*) -> $answer {
            match self {
                AnyWheel::Hierarchical(wheel) => wheel.$name($($argument),*),
                AnyWheel::Hashed(wheel) => wheel.$name($($argument),*),
            }
        }
    )+};
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
}

// Inlined all the way: a caller that passes an entry through memory writes it in parts and reads it back as a whole,
// and that stall doubles the cost of an insert.
impl Wheel for AnyWheel {
    either! {
        #[inline(always)]
        try_insert(self: &mut Self, entry: Entry) -> bool;
        #[inline]
        next_deadline(self: &Self) -> Option<u64>;
        #[inline]
        advance(self: &mut Self, to: u64, budget: usize, due: &mut Vec<Entry>) -> bool;
        take_backlog(self: &mut Self, limit: usize, due: &mut Vec<Entry>) -> ();
        #[inline]
        has_backlog(self: &Self) -> bool;
        sweep_batches(self: &mut Self, budget: usize, is_dead: DeadMask<'_>) -> Sweep;
        drain_all(self: &mut Self, f: &mut dyn FnMut(Entry)) -> ();
        #[inline]
        len(self: &Self) -> usize;
        #[inline]
        hand(self: &Self) -> u64;
        held_bytes(self: &Self) -> usize;
    }
}
