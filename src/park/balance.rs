//! Who pays for the handshake of pushes and drains.
//!
//! A drain that fences for all threads costs about a microsecond, and interrupts those that run; a producer's own
//! fence costs about eight nanoseconds per message. So it depends on how many messages a drain finds: a shard that
//! drains in large pieces fences for all, one that drains a few messages many times a second lets producers do it.
//! That needs no clock, and keeps a busy owner with short ticks from interrupting its producers 20 000 times a second.

use super::WakeState;

/// Drains from one look to the next.
const DRAINS: u32 = 32;
/// Messages per drain below which producers fence, and above which the owner does. The costs are equal at about
/// 120; between the two it stays as it is.
const FEW: u64 = 64;
const MANY: u64 = 256;

/// The owner's books. See the module.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    drains: u32,
    messages: u64,
    full: bool,
}

impl Balance {
    /// A drain has taken so many messages.
    #[inline]
    pub(crate) fn drained(&mut self, signal: &WakeState, messages: usize) {
        self.drains += 1;
        self.messages += messages as u64;
        if self.drains == DRAINS {
            self.look(signal);
        }
    }

    #[cold]
    fn look(&mut self, signal: &WakeState) {
        let per_drain = self.messages / u64::from(DRAINS);
        let full = if self.full { per_drain < MANY } else { per_drain < FEW };
        if full != self.full {
            signal.set_full_fences(full);
        }
        *self = Self { full, ..Self::default() };
    }
}

#[cfg(all(test, not(tickwheel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn few_messages_per_drain_are_the_producers_business() {
        let (signal, mut balance) = (WakeState::new(), Balance::default());
        let mut full_after = |messages: usize| {
            (0..DRAINS).for_each(|_| balance.drained(&signal, messages));
            balance.full
        };
        let steps = [1000, 100, 63, 100, 255, 256, 100, 0];
        let full = steps.map(&mut full_after);
        assert_eq!(full, [false, false, true, true, true, false, false, true]);
    }
}
