//! Random numbers that keep the keys of different timers apart.

use crate::types::GENERATION_BITS;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Returns a number of `GENERATION_BITS` random bits, to begin a table's generations with.
///
/// It need not be secret, only different from table to table: a key that is shown to another table then meets a
/// generation that it does not name.
pub fn generation_seed() -> u64 {
    // Models must do the same in every run.
    if cfg!(tickwheel_loom) {
        0
    } else {
        random() & ((1 << GENERATION_BITS) - 1)
    }
}

/// Returns a count, well mixed, from a place that the operating system chooses where there is one, and from what tells
/// this process from others: a fork copies the count and keeps the place.
fn random() -> u64 {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    // The step and the mixing are those of SplitMix64 (Steele, Lea and Flood, 2014).
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let place = core::ptr::from_ref(&COUNT).addr() as u64;
    let count = count_up(&COUNT) as u64;
    let mut mixed = count.wrapping_mul(STEP).wrapping_add(place ^ of_process());
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Counts one more, and returns the new count.
#[cfg(target_has_atomic = "ptr")]
fn count_up(count: &AtomicUsize) -> usize {
    // ORDERING: Relaxed: each table gets a number of its own, and that is all.
    count.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// Counts one more, and returns the new count. On a processor without compare-and-swap a table that is built by an
/// interrupt amid this call may get the same number.
#[cfg(not(target_has_atomic = "ptr"))]
fn count_up(count: &AtomicUsize) -> usize {
    // ORDERING: Relaxed: one word that stands for itself.
    let next = count.load(Ordering::Relaxed).wrapping_add(1);
    // ORDERING: Relaxed: as above.
    count.store(next, Ordering::Relaxed);
    next
}

/// Returns what no other process has, nor this one after another start: its number, and the time.
#[cfg(all(any(unix, windows), feature = "std"))]
fn of_process() -> u64 {
    use std::time::SystemTime;
    let time = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |time| time.as_nanos() as u64);
    time ^ u64::from(std::process::id()) << 32
}

/// Nothing tells one process from another here.
#[cfg(not(all(any(unix, windows), feature = "std")))]
const fn of_process() -> u64 {
    0
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn seeds_differ_in_all_their_bits() {
        let seeds: HashSet<u64> = (0..1000).map(|_| generation_seed()).collect();
        assert_eq!(seeds.len(), 1000);
        let (any, all) = seeds
            .iter()
            .fold((0, u64::MAX), |(any, all), s| (any | s, all & s));
        assert_eq!((any, all), ((1 << GENERATION_BITS) - 1, 0));
    }
}
