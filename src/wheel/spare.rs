//! Memory that the wheel holds and does not use.
//!
//! Log and rings use memory by turns: the entries of a burst fill the log first, and the rings when they come due. So
//! what is spare is decided for both together.

use super::Wheel;
use super::block::BLOCK;
use super::chunks::{CHUNK_ENTRIES, SEGMENT_CHUNKS};

/// Chunks that have the size of a block.
const CHUNKS_PER_BLOCK: usize = BLOCK.div_ceil(CHUNK_ENTRIES + 1);

/// Blocks that stay with the log in any case: as many as the zombies that are always tolerated take.
const FREE_BLOCKS: usize = 32;

/// Free memory that is kept for any population, in chunks, so that small wheels never give any back.
const FREE_CHUNKS: usize = 9 * SEGMENT_CHUNKS + FREE_BLOCKS * CHUNKS_PER_BLOCK;

/// Pieces that one turn gives back: each is a call of the system.
const PIECES: usize = 16;

impl Wheel {
    /// Returns whether it holds spare memory: more than twice what its entries take, and [`FREE_CHUNKS`] besides. A wheel
    /// whose population swings by a factor of two keeps what it has.
    #[inline]
    pub(crate) fn has_spare(&self) -> bool {
        let (chunks, log) = (&self.chunks, &self.log);
        let used = chunks.used + log.blocks.len() * CHUNKS_PER_BLOCK;
        let free = chunks.free + log.pool.0.len() * CHUNKS_PER_BLOCK;
        free > used + FREE_CHUNKS && (chunks.empty > 0 || log.pool.0.len() > FREE_BLOCKS)
    }

    /// Gives some of the spare memory back to the system.
    pub(crate) fn give_back(&mut self) {
        for _ in 0..PIECES {
            if !self.has_spare() {
                return;
            }
            if self.log.pool.0.len() > FREE_BLOCKS {
                drop(self.log.pool.0.pop());
            } else {
                self.chunks.give_segment_back();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, Records};
    use super::*;

    /// Timers of which nothing is known but that they live.
    struct Unknown;

    impl Records for Unknown {
        fn is_live(&self, _: &Entry) -> bool {
            true
        }

        fn prefetch(&self, _: &Entry) {}

        fn pending(&self) -> u64 {
            0
        }
    }

    /// A burst fills the log, and then the rings: what the one does not use any more is not spare.
    #[test]
    fn memory_is_spare_when_log_and_rings_together_use_less_than_half_of_it() {
        const BURST: u32 = 200_000;
        let mut wheel = Wheel::new();
        for _ in 0..2 {
            for index in 0..BURST {
                let entry = Entry {
                    deadline: wheel.hand() + 1000 + u64::from(index) % 100,
                    index,
                    mark: 1,
                };
                while !wheel.log.push(entry) {
                    wheel.make_room(&Unknown);
                }
            }
            assert!(!wheel.has_spare(), "a burst is in the log");
            wheel.insert_all();
            assert!(!wheel.has_spare(), "a burst is in the rings");
            let (end, mut due) = (wheel.hand() + 2000, Vec::new());
            while wheel.advance(end, 4096, &mut due) {
                due.clear();
            }
            while wheel.has_backlog() {
                wheel.take_backlog(4096, &mut due);
                due.clear();
            }
            assert!(wheel.is_empty() && wheel.has_spare());
        }
        let (full, mut pieces) = (wheel.held_bytes(), 0);
        while wheel.has_spare() {
            wheel.give_back();
            pieces += 1;
        }
        let left = wheel.held_bytes();
        assert!(pieces > 10 && left < full / 4, "{left} of {full}");
    }
}
