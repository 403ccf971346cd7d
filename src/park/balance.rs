//! Who pays for the handshake of pushes and drains.
//!
//! A drain that fences for all threads waits until each processor that runs one has answered: a microsecond on a
//! machine of one's own, fifteen on a virtual one, milliseconds where the host has taken a virtual processor away.
//! A producer's own fence costs about eight nanoseconds per message. So it depends on what the one takes here and on
//! how many messages a drain finds: a shard that drains in large pieces fences for all, one that drains a few messages
//! many times a second, or that would wait for processors which do not run, lets producers do it.

use super::WakeState;
use crate::sync::fence;
use std::time::Instant;

/// Drains from one look to the next, at most.
const DRAINS: u64 = 32;
/// Nanoseconds of fences for all after which the next look does not wait for so many drains.
const DEAR: u64 = 200_000;
/// What a producer's own fence costs per message, in nanoseconds.
const OWN_FENCE: u64 = 8;
/// What a fence for all costs at the very least, in nanoseconds.
const CHEAPEST: u64 = 1000;

/// The owner's books. See the module.
#[derive(Debug)]
pub(crate) struct Balance {
    /// Since the last look: drains, messages, and nanoseconds of fences for all.
    drains: u64,
    messages: u64,
    fencing: u64,
    /// Nanoseconds per fence for all: as measured last, and less from look to look while there is none to measure, so
    /// that it is tried again.
    price: u64,
    /// Producers fence.
    full: bool,
}

impl Balance {
    pub(crate) fn new() -> Self {
        Self { drains: 0, messages: 0, fencing: 0, price: CHEAPEST, full: !fence::is_asymmetric() }
    }

    /// Begins a drain: see [`WakeState::begin_drain`].
    #[inline]
    pub(crate) fn begin_drain(&mut self, signal: &WakeState) {
        if self.full {
            return signal.begin_drain();
        }
        let start = Instant::now();
        signal.begin_drain();
        self.fencing += start.elapsed().as_nanos() as u64; // of 585 years at most
    }

    /// The drain has taken so many messages.
    #[inline]
    pub(crate) fn drained(&mut self, signal: &WakeState, messages: usize) {
        self.drains += 1;
        self.messages += messages as u64;
        if self.drains >= DRAINS || self.fencing >= DEAR {
            self.look(signal);
        }
    }

    #[cold]
    fn look(&mut self, signal: &WakeState) {
        let own_fences = self.messages * OWN_FENCE / self.drains;
        let mut full = self.full;
        if full {
            self.price = (self.price - self.price / 8).max(CHEAPEST);
            // Twice as dear: between the two it stays as it is.
            full = own_fences < 2 * self.price;
        } else {
            self.price = (self.fencing / self.drains).max(CHEAPEST);
            full = own_fences < self.price;
        }
        if full != self.full {
            full = signal.set_full_fences(full);
        }
        *self = Self { price: self.price, full, ..Self::new() };
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    /// A shard's balance, told what fences for all take instead of taking them.
    struct Told {
        signal: WakeState,
        balance: Balance,
    }

    impl Told {
        fn new() -> Self {
            Self { signal: WakeState::new(), balance: Balance::new() }
        }

        /// So many drains of so many messages; whether producers fence after it.
        fn drain(&mut self, times: u64, messages: usize, price: u64) -> bool {
            for _ in 0..times {
                if !self.balance.full {
                    self.balance.fencing += price;
                }
                self.balance.drained(&self.signal, messages);
                // Or neither of the two would fence, and a message be slept through.
                assert_eq!(self.balance.full, self.signal.has_full_fences());
            }
            self.balance.full
        }
    }

    #[test]
    fn few_messages_per_drain_are_the_producers_business() {
        if !fence::is_asymmetric() {
            return;
        }
        let mut told = Told::new();
        let steps = [1000, 130, 120, 130, 240, 260, 130, 0];
        let full = steps.map(|messages| told.drain(DRAINS, messages, 1000));
        assert_eq!(full, [false, false, true, true, true, false, false, true]);
    }

    #[test]
    fn fences_for_all_that_wait_for_a_processor_are_given_up_at_once_and_tried_again_later() {
        if !fence::is_asymmetric() {
            return;
        }
        let mut told = Told::new();
        assert!(!told.drain(DRAINS, 10_000, 13_000));
        assert!(told.drain(1, 10_000, 4_000_000), "one such drain is enough");
        let looks =
            (1..1000).find(|_| !told.drain(DRAINS, 10_000, 13_000)).expect("it is tried again");
        assert!((10..100).contains(&looks), "{looks}");
        assert!(!told.drain(100 * DRAINS, 10_000, 13_000), "and kept, now that it is cheap");
    }

    #[test]
    fn what_the_fences_take_is_measured() {
        let (signal, mut balance) = (WakeState::new(), Balance::new());
        assert_eq!((balance.full, signal.has_full_fences()), [!fence::is_asymmetric(); 2].into());
        if !balance.full {
            balance.begin_drain(&signal);
            assert_ne!(balance.fencing, 0);
        }
    }
}
