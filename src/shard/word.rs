//! An entry in one word: as the inbox carries it, and as the owner names it to threads that wait.

/// Returns an entry's name and mark in the 63 bits of a message. The mark's lowest bit is always set: the timer lives.
#[inline]
pub(super) fn pack(index: u32, mark: u32) -> u64 {
    u64::from(mark >> 1) << 32 | u64::from(index)
}

/// Returns the index and mark in a message's word.
#[inline]
pub(super) fn unpack(word: u64) -> (u32, u32) {
    (word as u32, ((word >> 31) | 1) as u32)
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_any_node_and_any_living_mark() {
        for (index, mark) in [(0, u32::MAX), (1, 3), (1 << 31, 1), (u32::MAX, 5)] {
            assert_eq!(unpack(pack(index, mark)), (index, mark));
        }
    }
}
