//! Memory that the wheel holds and does not use: it is kept in case a burst repeats, and then goes back.
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

/// Decides when spare memory goes back: the wheel's, and that of its owner's nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spare {
    /// There was none at the end of the last turn.
    No,
    /// It is kept in case a burst repeats, and goes back from this tick on.
    KeptUntil(u64),
    /// It goes back as soon as a sweep is over, which may make more of it.
    GoesBack,
}

/// Says whether the memory of an owner's nodes is spare.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NodeMemory {
    /// None of it is spare.
    InUse,
    /// Some is spare, but most of what was spare the last time is in use again.
    UsedAgain,
    /// Some is spare.
    Spare,
}

/// The answer of [`Wheel::settle_spare`].
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Nothing is to be done now.
    Kept,
    /// The next turn goes on.
    Resumes,
    /// The wheel has no spare memory any more; the nodes' memory may go back now.
    Returned,
}

impl Wheel {
    /// Decides about spare memory at the end of a turn: it is kept for a while in case a burst repeats, and then goes
    /// back a piece at a time. `is_busy`: the turn leaves something to do that comes first. `nodes`: whether those
    /// of the owner have spare memory.
    #[inline]
    pub fn settle_spare(&mut self, is_busy: bool, nodes: NodeMemory) -> Settled {
        match (nodes, self.spare) {
            (NodeMemory::Spare, _) | (_, Spare::GoesBack) => {}
            _ if self.has_spare() => {}
            // A burst repeats, or there was none.
            (NodeMemory::UsedAgain, _) => self.spare = Spare::No,
            (NodeMemory::InUse, _) => {
                self.spare = Spare::No;
                return Settled::Kept;
            }
        }
        if is_busy {
            return Settled::Kept;
        }
        self.keep_or_give_back()
    }

    #[cold]
    #[inline(never)]
    fn keep_or_give_back(&mut self) -> Settled {
        match self.spare {
            Spare::No => {
                let until = self.latest.saturating_add(self.keep);
                self.spare = Spare::KeptUntil(until);
                self.idle_until = self.idle_until.min(until);
                Settled::Kept
            }
            Spare::KeptUntil(until) if self.latest < until => {
                self.idle_until = self.idle_until.min(until);
                Settled::Kept
            }
            Spare::KeptUntil(_) => {
                self.begin_thorough_round();
                self.spare = Spare::GoesBack;
                self.be_busy();
                Settled::Resumes
            }
            Spare::GoesBack if self.has_spare() => {
                self.give_some_back();
                self.be_busy();
                Settled::Resumes
            }
            Spare::GoesBack => {
                self.spare = Spare::No;
                Settled::Returned
            }
        }
    }

    /// Returns the tick at which spare memory begins to go back; `u64::MAX` if there is none, or it goes back already.
    #[inline]
    pub fn gives_back_at(&self) -> u64 {
        match self.spare {
            Spare::KeptUntil(until) => until,
            Spare::No | Spare::GoesBack => u64::MAX,
        }
    }

    /// Returns whether spare memory goes back, a piece at the end of each turn.
    #[inline]
    pub(super) fn is_giving_back(&self) -> bool {
        self.spare == Spare::GoesBack
    }

    /// Gives the spare memory back at once.
    pub fn give_back(&mut self) {
        while self.has_spare() {
            self.give_some_back();
        }
    }

    /// Returns whether it holds spare memory: more than twice what its entries take, and [`FREE_CHUNKS`] besides. A wheel
    /// whose population swings by a factor of two keeps what it has.
    #[inline]
    fn has_spare(&self) -> bool {
        let (chunks, log) = (&self.rings.chunks, &self.log);
        let used = chunks.used + log.blocks.len() * CHUNKS_PER_BLOCK;
        let free = chunks.free + log.pool.0.len() * CHUNKS_PER_BLOCK;
        free > used + FREE_CHUNKS && (chunks.empty > 0 || log.pool.0.len() > FREE_BLOCKS)
    }

    /// Gives some of the spare memory back to the system.
    fn give_some_back(&mut self) {
        for _ in 0..PIECES {
            if !self.has_spare() {
                return;
            }
            if self.log.pool.0.len() > FREE_BLOCKS {
                drop(self.log.pool.0.pop());
            } else {
                self.rings.chunks.give_segment_back();
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
        let mut wheel = Wheel::default();
        for _ in 0..2 {
            for index in 0..BURST {
                let entry = Entry {
                    deadline: wheel.rings.hand() + 1000 + u64::from(index) % 100,
                    index,
                    mark: 1,
                };
                while !wheel.log.push(entry) {
                    wheel.begin_block(&Unknown);
                }
            }
            assert!(!wheel.has_spare(), "a burst is in the log");
            wheel.insert_all();
            assert!(!wheel.has_spare(), "a burst is in the rings");
            let (end, mut due) = (wheel.rings.hand() + 2000, Vec::new());
            while wheel.rings.advance(end, 4096, &mut due).is_none() {
                due.clear();
            }
            while wheel.rings.has_backlog() {
                wheel.rings.take_backlog(4096, &mut due);
                due.clear();
            }
            assert!(wheel.len() == 0 && wheel.has_spare());
        }
        let (full, mut pieces) = (wheel.held_bytes(), 0);
        while wheel.has_spare() {
            wheel.give_some_back();
            pieces += 1;
        }
        let left = wheel.held_bytes();
        assert!(pieces > 10 && left < full / 4, "{left} of {full}");
    }
}
