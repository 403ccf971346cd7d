//! The packed name of a timer.

use core::fmt;
use core::num::NonZeroU32;

/// Bits of a key's generation.
pub(crate) const GENERATION_BITS: u32 = 48;
/// Bits of a key's shard number.
const SHARD_BITS: u32 = 16;
const _: () = assert!(GENERATION_BITS + SHARD_BITS == u64::BITS);

/// Names one timer of one engine, for ever.
///
/// A key is 12 bytes of plain data, an `Option` of one as well: copy it, store it, send it anywhere. It does not keep anything
/// alive. Once its timer has ended the key is *stale*: every operation on it answers "gone" and never
/// touches the timer that uses the same memory next, because the memory's generation (48 bits) is part
/// of the key.
///
/// A key means something only to the engine that handed it out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Generation and shard, split in two so that a key needs only four-byte alignment.
    high: u32,
    low: u32,
    /// The node's index, inverted: the highest index is never used, so that `Option<Key>` is no larger.
    inverted: NonZeroU32,
}

impl Key {
    #[inline]
    pub(crate) const fn new(shard: u16, index: u32, generation: u64) -> Self {
        debug_assert!(generation < 1 << GENERATION_BITS && index < u32::MAX);
        let packed = generation << SHARD_BITS | shard as u64;
        let inverted = match NonZeroU32::new(!index) {
            Some(inverted) => inverted,
            None => NonZeroU32::MIN,
        };
        Self { high: (packed >> 32) as u32, low: packed as u32, inverted }
    }

    #[inline]
    const fn packed(self) -> u64 {
        (self.high as u64) << 32 | self.low as u64
    }

    /// The shard that owns the timer, counted from 0.
    #[inline]
    #[must_use]
    pub const fn shard(self) -> usize {
        (self.packed() & ((1 << SHARD_BITS) - 1)) as usize
    }

    #[inline]
    pub(crate) const fn index(self) -> u32 {
        !self.inverted.get()
    }

    #[inline]
    pub(crate) const fn generation(self) -> u64 {
        self.packed() >> SHARD_BITS
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}:{}#{})", self.shard(), self.index(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_every_part() {
        for (shard, index, generation) in
            [(0, 0, 0), (u16::MAX, u32::MAX - 1, (1 << GENERATION_BITS) - 1), (7, 1 << 31, 1 << 47)]
        {
            let key = Key::new(shard, index, generation);
            assert_eq!(
                (key.shard(), key.index(), key.generation()),
                (usize::from(shard), index, generation)
            );
        }
        assert_eq!((size_of::<Key>(), size_of::<Option<Key>>()), (12, 12));
        assert_eq!(format!("{:?}", Key::new(3, 17, 5)), "Key(3:17#5)");
    }
}
