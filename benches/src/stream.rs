//! The random numbers of the workloads: the same stream for every peer.

use crate::random::Random;
use std::ops::Range;
use std::time::Duration;

/// One step of a workload: whom it hits, and for how long the new timer runs.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Which of the resident timers.
    pub victim: u32,
    /// The delay of its successor.
    pub delay: Duration,
}

/// Steps per block: 96 KiB, so that the generator takes neither time nor cache from what is measured.
pub const BLOCK: usize = 4096;

/// Steps, drawn in blocks while the stopwatch stands.
pub struct Stream {
    rng: Random,
    residents: u64,
    /// Whole milliseconds.
    delays: Range<u64>,
    block: Vec<Step>,
}

impl Stream {
    /// Makes a stream over `residents` timers, with delays in whole milliseconds.
    pub fn new(residents: usize, delays: Range<u64>) -> Self {
        let block = Vec::with_capacity(BLOCK);
        Self {
            rng: Random::new(0),
            residents: residents as u64,
            delays,
            block,
        }
    }

    /// Draws a delay by itself, for the first timers.
    #[inline]
    pub fn delay(&mut self) -> Duration {
        let delays = &self.delays;
        Duration::from_millis(delays.start + self.rng.below(delays.end - delays.start))
    }

    /// Draws the next steps, at most `most` and at most [`BLOCK`].
    pub fn block(&mut self, most: usize) -> &[Step] {
        self.block.clear();
        for _ in 0..most.min(BLOCK) {
            // The workloads have at most ten million timers.
            let victim = self.rng.below(self.residents) as u32;
            let delay = self.delay();
            self.block.push(Step { victim, delay });
        }
        &self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_every_time_and_stays_in_its_ranges() {
        let [mut one, mut other] = [(); 2].map(|()| Stream::new(1000, 1000..60_000));
        for _ in 0..3 {
            let steps = one.block(BLOCK);
            for (step, twin) in steps.iter().zip(other.block(usize::MAX)) {
                assert_eq!((step.victim, step.delay), (twin.victim, twin.delay));
                assert!(step.victim < 1000);
                assert!((1000..60_000).contains(&step.delay.as_millis()));
            }
        }
        assert_eq!(one.block(7).len(), 7);
    }
}
