//! Random numbers that keep the keys of different timers apart.

use super::GENERATION_BITS;

/// A number of 48 random bits, to begin a table's generations with.
///
/// It need not be secret, only different from table to table: a key that is shown to another table then meets a
/// generation that it does not name.
pub(crate) fn salt() -> u64 {
    random() & ((1 << GENERATION_BITS) - 1)
}

/// The standard library seeds its hash maps with random keys, and no two alike.
#[cfg(not(tickwheel_loom))]
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Models must do the same in every run.
#[cfg(tickwheel_loom)]
fn random() -> u64 {
    0
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn salts_differ_in_all_their_bits() {
        let salts: HashSet<u64> = (0..1000).map(|_| salt()).collect();
        assert_eq!(salts.len(), 1000);
        let (any, all) = salts.iter().fold((0, u64::MAX), |(any, all), s| (any | s, all & s));
        assert_eq!((any, all), ((1 << GENERATION_BITS) - 1, 0));
    }
}
