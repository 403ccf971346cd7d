//! The bound on zombies: entries of ended and moved timers are swept out, a piece at a time.

use super::TimerStore;
use super::driver::{Drivable, Driver};
use crate::wheel::{Entry, Fifo};

/// Zombies that are always tolerated; beyond it at most as many as there are live timers.
#[cfg(not(tickwheel_loom))]
pub(super) const ZOMBIE_FLOOR: u64 = 16 * 1024;
#[cfg(tickwheel_loom)]
pub(super) const ZOMBIE_FLOOR: u64 = 2;

/// Whether `entries` in the wheel are more than the zombie bound allows for this many pending timers.
pub(crate) fn too_many(entries: u64, pending: impl FnOnce() -> u64) -> bool {
    entries > ZOMBIE_FLOOR && entries > pending().saturating_mul(2).saturating_add(ZOMBIE_FLOOR)
}

/// Which of these entries are dead, as a [mask](crate::wheel::DeadMask).
#[inline]
fn dead<S: TimerStore>(store: &S, entries: &[Entry]) -> u64 {
    entries.iter().for_each(|entry| store.prefetch(entry));
    let dead = |(place, entry): (usize, &Entry)| u64::from(!store.is_live(entry)) << place;
    entries.iter().enumerate().map(dead).fold(0, |mask, bit| mask | bit)
}

impl<W: Drivable> Driver<W> {
    /// Sweeps a piece if there are too many zombies; whether the sweep goes on.
    ///
    /// The number of pending timers is asked only when the wheel has grown since the last look, or when
    /// `turn_requested`, because somebody has seen many cancels.
    pub(crate) fn keep_bounded<S: TimerStore>(
        &mut self,
        store: &S,
        turn_requested: bool,
        budget: usize,
    ) -> bool {
        let entries = self.filed();
        if !self.sweeping {
            if !turn_requested && entries < self.look_at {
                return false;
            }
            if !too_many(entries, || store.pending()) {
                // Look again when a quarter more has gathered; cancels alone call the owner themselves.
                self.look_at = entries + entries / 4 + ZOMBIE_FLOOR;
                return false;
            }
            self.sweeping = true;
            // The sweep goes round the wheel; the staging buffer is small enough to be gone through at once.
            self.evict_dead(store);
        }
        let sweep = self.wheel.sweep_batches(budget, &mut |entries| dead(store, entries));
        self.swept += sweep.removed as u64;
        if sweep.cycle_done {
            // Cancels behind the sweep's back may have been the last ones: nobody else will look again.
            self.sweeping = too_many(self.filed(), || store.pending());
            self.look_at = self.filed() + ZOMBIE_FLOOR;
        }
        self.sweeping
    }
}

impl Driver<Fifo> {
    /// The entry at the front of the wheel, if it is this timer's, is dead: brings a live one to the front.
    #[inline]
    pub(crate) fn trim_after<S: TimerStore>(&mut self, store: &S, index: u32) {
        if self.wheel.front().is_some_and(|front| front.index == index) {
            self.trim(store);
        }
    }

    /// Brings a live entry to the front of the wheel.
    pub(crate) fn trim<S: TimerStore>(&mut self, store: &S) {
        self.wheel.trim(|entry| store.is_live(entry));
    }
}
