//! The state word of a single-threaded timer's node.
//!
//! ```text
//!   63                          16 15        8 7      2     1        0
//!  +------------------------------+-----------+--------+--------+---------+
//!  |        generation (48)       |  hint (8) |   -    |PERIODIC| PENDING |
//!  +------------------------------+-----------+--------+--------+---------+
//!                      |<-- mark (32): what an entry remembers
//! ```
//!
//! The layout follows the engine's state word (`crate::node::state`), less what only threads need.
//! *generation* grows by one with each arming, so a stale key never matches again. *hint* says which of a
//! timer's entries is the current one: a deadline that is pulled in files a second entry and grows it.

use crate::types::{GENERATION_BITS, Key};

const PENDING: u64 = 1;
pub(super) const PERIODIC: u64 = 1 << 1;
const HINT_SHIFT: u32 = 8;
const HINT_BITS: u32 = 8;
const HINT_ONE: u64 = 1 << HINT_SHIFT;
const HINT_MASK: u64 = ((1 << HINT_BITS) - 1) << HINT_SHIFT;
const GENERATION_SHIFT: u32 = HINT_SHIFT + HINT_BITS;
const GENERATION_ONE: u64 = 1 << GENERATION_SHIFT;
const _: () = assert!(PERIODIC < HINT_ONE);
const _: () = assert!(GENERATION_SHIFT + GENERATION_BITS == u64::BITS);

/// A node's state.
#[derive(Clone, Copy, Default)]
pub(super) struct Word(u64);

impl Word {
    #[cfg(test)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) const fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    #[inline]
    pub(super) const fn mark(self) -> u32 {
        (self.0 >> HINT_SHIFT) as u32
    }

    #[inline]
    pub(super) const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    #[inline]
    pub(super) const fn is_periodic(self) -> bool {
        self.0 & PERIODIC != 0
    }

    /// Whether an entry with this mark stands for a pending timer.
    #[inline]
    pub(super) const fn is_current(self, mark: u32) -> bool {
        self.is_pending() & (self.mark() == mark)
    }

    #[inline]
    pub(super) const fn is_named_by(self, key: Key) -> bool {
        self.is_pending() & (self.generation() == key.generation())
    }

    /// Pending, in the next generation.
    #[inline]
    pub(super) const fn armed(self, flags: u64) -> Self {
        let generation = self.0 & !(GENERATION_ONE - 1);
        Self(generation.wrapping_add(GENERATION_ONE) | PENDING | flags)
    }

    #[inline]
    pub(super) const fn ended(self) -> Self {
        Self(self.0 & !PENDING)
    }

    #[inline]
    pub(super) const fn superseding_entry(self) -> Self {
        Self(self.0 & !HINT_MASK | self.0.wrapping_add(HINT_ONE) & HINT_MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_generation_of_a_pending_node() {
        let first = Word::default().armed(0);
        let key = Key::new(0, 7, first.generation());
        assert!(first.is_named_by(key) && !first.ended().is_named_by(key));
        let second = first.ended().armed(PERIODIC);
        assert_eq!((first.generation(), second.generation()), (1, 2));
        assert!(!second.is_named_by(key) && second.is_periodic() && !first.is_periodic());
        assert!(!second.ended().armed(0).is_periodic());
    }

    #[test]
    fn the_generation_comes_round_without_touching_the_rest() {
        let last = Word(u64::MAX << GENERATION_SHIFT).armed(PERIODIC);
        assert_eq!((last.generation(), last.bits()), (0, PENDING | PERIODIC));
    }

    #[test]
    fn an_entry_is_current_until_its_timer_ends_or_is_pulled_in() {
        let word = Word::default().armed(0);
        assert!(word.is_current(word.mark()) && !word.ended().is_current(word.mark()));
        let mut pulled_in = word;
        for _ in 1..1 << HINT_BITS {
            pulled_in = pulled_in.superseding_entry();
            assert!(pulled_in.is_current(pulled_in.mark()) && !pulled_in.is_current(word.mark()));
            assert_eq!(pulled_in.generation(), word.generation());
        }
        // Round once: an old entry looks current again, which `table` says is harmless.
        assert_eq!(pulled_in.superseding_entry().bits(), word.bits());
        assert!(!word.ended().armed(0).is_current(word.mark()), "the next timer's mark differs");
    }
}
