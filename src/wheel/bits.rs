//! Bit arithmetic of the wheels: searches for bits, sets of numbers.

use alloc::vec::Vec;

/// Returns the earlier of two ticks that may be there.
#[inline]
pub(super) fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}

/// Returns the lowest set bit of `word` at position `from` or above.
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

    /// Inserts a number, for which there must be [room](Self::try_reserve).
    pub(super) fn insert(&mut self, number: usize) {
        let word = number / 64;
        self.words[word] |= 1 << (number % 64);
        self.low = self.low.min(word);
    }

    pub(super) fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// Returns the smallest member.
    pub(super) fn first(&mut self) -> Option<usize> {
        while let Some(&word) = self.words.get(self.low) {
            if word != 0 {
                return Some(self.low * 64 + word.trailing_zeros() as usize);
            }
            self.low += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_set_looks_at_and_above() {
        assert_eq!(next_set(0b1010, 0), Some(1));
        assert_eq!(next_set(0b1010, 2), Some(3));
        assert_eq!(next_set(0b1010, 4), None);
        assert_eq!(next_set(1 << 63, 63), Some(63));
        assert_eq!(next_set(u64::MAX, 64), None);
    }
}
