//! Bit arithmetic of the wheels: which ring and which bucket a deadline belongs to.
//!
//! Pure functions over `u64` ticks, no state. A tick is read as a number in base 64: digit `n`, six
//! bits wide, is the bucket of ring `n`. Every shift is derived from `RING_BITS`, and no function
//! overflows for any tick from 0 to `u64::MAX`.

use alloc::vec::Vec;
/// Bits of a deadline that one ring resolves.
pub(super) const RING_BITS: u32 = 6;

/// Buckets of one ring: as many as one occupancy word has bits.
pub(super) const RING_BUCKETS: usize = 1 << RING_BITS;

/// Rings that cover every `u64` deadline: 11 rings of 6 bits reach past the 64 bits there are.
pub(super) const LEVELS: usize = u64::BITS.div_ceil(RING_BITS) as usize;

const _: () = assert!(RING_BUCKETS == u64::BITS as usize);

/// The ring in which `deadline` is filed when the rings are anchored at `base`: the highest digit
/// in which the two differ. Equal ticks belong to the lowest ring.
#[inline]
pub(super) fn level_of(base: u64, deadline: u64) -> usize {
    // The lowest bit never changes the answer unless the ticks are equal, whose digit is the lowest.
    let differing = (base ^ deadline) | 1;
    (differing.ilog2() / RING_BITS) as usize
}

/// The bucket of `deadline` inside the ring `level`.
#[inline]
pub(super) fn slot_of(level: usize, deadline: u64) -> usize {
    (deadline >> (level as u32 * RING_BITS)) as usize % RING_BUCKETS
}

/// The first tick of bucket `slot` of ring `level`, in the revolution that contains `base`.
#[inline]
pub(super) fn start_of(base: u64, level: usize, slot: usize) -> u64 {
    let shift = level as u32 * RING_BITS;
    // Clearing the digit after the shift keeps the top ring, whose digit is cut short, in range.
    ((((base >> shift) >> RING_BITS) << RING_BITS) | slot as u64) << shift
}

/// The earlier of two ticks that may be there.
#[inline]
pub(super) fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}

/// The lowest set bit of `word` at position `from` or above.
#[inline]
pub(super) fn next_set(word: u64, from: usize) -> Option<usize> {
    if from >= u64::BITS as usize {
        return None;
    }
    let rest = word & (u64::MAX << from);
    (rest != 0).then(|| rest.trailing_zeros() as usize)
}

/// A set of small numbers. Its memory is one bit per number up to the largest ever inserted.
#[derive(Default)]
pub(super) struct BitSet {
    words: Vec<u64>,
    /// Every word below this one is 0, so that `first` need not look there again.
    low: usize,
}

impl BitSet {
    /// Makes room for `number`; `None` if there is no memory for it.
    pub(super) fn try_reserve(&mut self, number: usize) -> Option<()> {
        let words = number / 64 + 1;
        let more = words.saturating_sub(self.words.len());
        self.words.try_reserve(more).ok()?;
        self.words.resize(self.words.len() + more, 0);
        Some(())
    }

    /// There must be [room](Self::try_reserve) for it.
    pub(super) fn insert(&mut self, number: usize) {
        let word = number / 64;
        self.words[word] |= 1 << (number % 64);
        self.low = self.low.min(word);
    }

    pub(super) fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// The smallest member.
    pub(super) fn first(&mut self) -> Option<usize> {
        while let Some(&word) = self.words.get(self.low) {
            if word != 0 {
                return Some(self.low * 64 + word.trailing_zeros() as usize);
            }
            self.low += 1;
        }
        None
    }

    /// The largest member.
    pub(super) fn last(&self) -> Option<usize> {
        let word = self.words.iter().rposition(|&word| word != 0)?;
        Some(word * 64 + self.words[word].ilog2() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_is_the_highest_differing_digit() {
        assert_eq!(level_of(0, 0), 0);
        assert_eq!(level_of(0, 1), 0);
        assert_eq!(level_of(0, 63), 0);
        assert_eq!(level_of(0, 64), 1);
        assert_eq!(level_of(63, 64), 1);
        assert_eq!(level_of(64, 65), 0);
        assert_eq!(level_of(4095, 4096), 2);
        assert_eq!(level_of(0, u64::MAX), LEVELS - 1);
        assert_eq!(level_of(u64::MAX - 1, u64::MAX), 0);
    }

    #[test]
    fn slot_and_start_are_inverse_for_every_level() {
        for level in 0..LEVELS {
            for &tick in &[1, 63, 64, 4095, 4096, 1 << 42, (1 << 60) + 17, u64::MAX - 1, u64::MAX] {
                let slot = slot_of(level, tick);
                let start = start_of(tick, level, slot);
                assert!(start <= tick);
                let shift = level as u32 * RING_BITS;
                assert_eq!(start >> shift, tick >> shift, "level {level}, tick {tick}");
            }
        }
    }

    #[test]
    fn next_set_looks_at_and_above() {
        assert_eq!(next_set(0b1010, 0), Some(1));
        assert_eq!(next_set(0b1010, 2), Some(3));
        assert_eq!(next_set(0b1010, 4), None);
        assert_eq!(next_set(1 << 63, 63), Some(63));
        assert_eq!(next_set(u64::MAX, 64), None);
    }
}
