//! The random numbers of the workloads: the same stream for every peer.

use std::time::Duration;

/// Marsaglia's xorshift64 with the shifts 13, 7, 17 ("Xorshift RNGs", 2003).
#[derive(Clone, Debug)]
pub struct XorShift(u64);

impl Default for XorShift {
    fn default() -> Self {
        Self(88_172_645_463_325_252)
    }
}

impl XorShift {
    /// The next number, never 0.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // The product is below `bound << 64`.
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }
}

/// A range of delays in whole milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// The shortest.
    pub from_ms: u64,
    /// One more than the longest.
    pub to_ms: u64,
}

impl Delays {
    /// Draws one.
    #[inline]
    pub fn draw(self, rng: &mut XorShift) -> Duration {
        Duration::from_millis(self.from_ms + rng.below(self.to_ms - self.from_ms))
    }
}

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
    rng: XorShift,
    residents: u32,
    delays: Delays,
    block: Vec<Step>,
}

impl Stream {
    /// A stream over `residents` timers.
    pub fn new(residents: usize, delays: Delays) -> Self {
        let residents = u32::try_from(residents).expect("fewer than 2^32 residents");
        Self { rng: XorShift::default(), residents, delays, block: Vec::with_capacity(BLOCK) }
    }

    /// A delay by itself, for the first timers.
    pub fn delay(&mut self) -> Duration {
        self.delays.draw(&mut self.rng)
    }

    /// The next steps, at most `most` and at most [`BLOCK`].
    pub fn block(&mut self, most: usize) -> &[Step] {
        self.block.clear();
        for _ in 0..most.min(BLOCK) {
            // Below `residents`, which is a `u32`.
            let victim = self.rng.below(u64::from(self.residents)) as u32;
            self.block.push(Step { victim, delay: self.delays.draw(&mut self.rng) });
        }
        &self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_every_time_and_stays_in_its_ranges() {
        let delays = Delays { from_ms: 1000, to_ms: 60_000 };
        let (mut one, mut other) = (Stream::new(1000, delays), Stream::new(1000, delays));
        for _ in 0..3 {
            let steps = one.block(BLOCK).to_vec();
            for (step, twin) in steps.iter().zip(other.block(usize::MAX)) {
                assert_eq!((step.victim, step.delay), (twin.victim, twin.delay));
                assert!(step.victim < 1000);
                assert!((1000..60_000).contains(&step.delay.as_millis()));
            }
        }
        assert_eq!(one.block(7).len(), 7);
    }
}
