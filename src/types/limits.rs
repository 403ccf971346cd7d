//! The limits of what a user may ask a builder for, and the reasons for them.

use core::time::Duration;

/// The finest tick. A clock read and a wake-up cost more than this, so a finer tick could not be
/// kept.
pub(crate) const MIN_TICK: Duration = Duration::from_micros(1);
/// The coarsest tick. A timer may be late by a whole tick, so a longer one is a mistaken unit.
pub(crate) const MAX_TICK: Duration = Duration::from_secs(3600);
/// The most shards: more than any machine has cores for, and far inside the 16 bits of a key.
pub(crate) const MAX_SHARDS: usize = 1024;
/// The most buckets of a hashed wheel: 1 MiB of them.
pub(crate) const MAX_BUCKETS: usize = 1 << 16;
