//! A round of the sweep: what it counts.

use crate::sync::bounded;

/// Zombies that are always tolerated; beyond it at most as many as there are live timers.
pub(super) const ZOMBIE_FLOOR: u64 = bounded(16 * 1024, 2);

/// Whether `entries` in the wheel are more than the zombie bound allows for this many pending timers.
pub(crate) fn too_many(entries: u64, pending: impl FnOnce() -> u64) -> bool {
    entries > ZOMBIE_FLOOR && entries > pending().saturating_mul(2).saturating_add(ZOMBIE_FLOOR)
}

/// One round of the sweep.
#[derive(Default)]
pub(super) struct Round {
    /// Entries removed.
    pub(super) removed: usize,
    /// Somebody has seen many cancels since it began, perhaps of entries that it had looked at before.
    pub(super) requested: bool,
    /// It has been through the sealed log and goes round the wheel.
    pub(super) past_log: bool,
    /// It ends when all has been looked at, not before.
    pub(super) thorough: bool,
}
