//! The packed name of a timer.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::num::NonZeroU32;

/// Bits of a key's generation.
pub(crate) const GENERATION_BITS: u32 = 46;
/// Bits of a key's shard number.
const SHARD_BITS: u32 = 18;
const _: () = assert!(GENERATION_BITS + SHARD_BITS == u64::BITS);

/// Names one timer with a payload of type `T`, for ever.
///
/// A key is 12 bytes of plain data, an `Option` of one as well, for any `T`: copy it, store it, send it
/// anywhere. It keeps nothing alive. Once its timer has ended the key is *stale*: every operation on it answers
/// "gone" and never touches the timer that uses the same memory next, because the memory's generation is part of
/// the key. It has 46 bits: a key matches again only after exactly 2^46 (or a multiple of it) later timers in the same
/// memory. At a million of them per second that takes 2.2 years, and 40 days at 20 million per second, which is more
/// than one thread reaches.
///
/// A key means something only to the timer that handed it out. Shown to another one, it does not compile if the
/// payloads differ in type. Otherwise it is stale there, because each timer counts its generations from a random number
/// of its own. Two of these meet with a probability of 2^-46. Without the feature `std`, or on a system that is neither
/// Unix nor Windows, this holds only among the timers of one process. Another process, or a device that starts again,
/// may begin with the same numbers. After a fork the copies of a timer are one timer still: their next keys are the
/// same.
///
/// Keys can be compared, ordered and hashed; the order means nothing. [`to_raw`](Self::to_raw) forgets the type,
/// for logs, for maps of keys of several types, for a trip through foreign code.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{Key, LocalTimer, RawKey, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// let key: Key<&str> = timer.schedule(Time::ZERO, Duration::from_secs(1), "payload")?;
///
/// let number: u128 = key.to_raw().to_bits();
/// let again = RawKey::from_bits(number).map(Key::from_raw);
/// assert_eq!(again, Some(key));
/// assert_eq!(key.shard(), 0); // a `LocalTimer` has no other
/// # Ok(()) }
/// ```
pub struct Key<T> {
    raw: RawKey,
    /// Neither owns nor borrows a `T`: a key is `Send`, `Sync` and `Copy` for each of them.
    payload: PhantomData<fn() -> T>,
}

/// A [`Key`] without the type of its payload.
///
/// Plain data of 12 bytes, an `Option` of one as well. It says nothing by itself; [`Key::from_raw`] makes it a
/// key again.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, RawKey, Time};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// let key = timer.schedule(Time::ZERO, Duration::from_secs(1), "payload")?;
/// let raw = key.to_raw();
/// println!("armed {raw} on shard {}", raw.shard());
/// assert_eq!(RawKey::from_bits(raw.to_bits()), Some(raw));
/// assert_eq!(RawKey::from_bits(u128::MAX), None);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C, packed(4))] // twelve bytes, of which the word is written and read in one piece
pub struct RawKey {
    /// Generation and shard.
    packed: u64,
    /// The node's index, inverted: the highest index is never used, so that `Option<Key>` is no larger.
    inverted: NonZeroU32,
}

impl RawKey {
    /// Returns the shard that the timer lies on, as [`Key::shard`] does.
    #[inline]
    #[must_use]
    pub const fn shard(self) -> usize {
        (self.packed & ((1 << SHARD_BITS) - 1)) as usize
    }

    #[inline]
    const fn index(self) -> u32 {
        !self.inverted.get()
    }

    #[inline]
    const fn generation(self) -> u64 {
        self.packed >> SHARD_BITS
    }

    /// Returns the key as a number below 2^96.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u128 {
        (self.packed as u128) << 32 | self.index() as u128
    }

    /// Returns the key that [`to_bits`](Self::to_bits) turned into this number; `None` if it cannot have been one.
    /// A number that was altered or made up may name any timer.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u128) -> Option<Self> {
        let inverted = NonZeroU32::new(!(bits as u32));
        match inverted {
            Some(inverted) if bits >> 96 == 0 => Some(Self {
                packed: (bits >> 32) as u64,
                inverted,
            }),
            _ => None,
        }
    }
}

/// Returns the index that no table has: apart, so that asking for it is a branch that is never taken.
#[cold]
const fn never_used() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// A table's shard and seed, placed as in a key: `key = generation << 18 ^ mask`.
#[derive(Clone, Copy)]
pub struct KeyMask(u64);

impl KeyMask {
    pub const fn new(shard: u16, seed: u64) -> Self {
        Self(seed << SHARD_BITS | shard as u64)
    }

    /// Returns the name of one of the table's timers.
    #[inline]
    pub const fn key<T>(self, index: u32, generation: u64) -> Key<T> {
        Key::of_word(generation << SHARD_BITS ^ self.0, index)
    }

    /// Returns the generation that a key names.
    #[inline]
    pub const fn generation<T>(self, key: Key<T>) -> u64 {
        (key.raw.packed ^ self.0) >> SHARD_BITS
    }
}

impl<T> Key<T> {
    #[inline]
    pub(crate) const fn new(shard: u16, index: u32, generation: u64) -> Self {
        debug_assert!(generation < 1 << GENERATION_BITS);
        Self::of_word(generation << SHARD_BITS | shard as u64, index)
    }

    #[inline]
    const fn of_word(packed: u64, index: u32) -> Self {
        debug_assert!(index < u32::MAX);
        let inverted = match NonZeroU32::new(!index) {
            Some(inverted) => inverted,
            None => never_used(),
        };
        Self {
            raw: RawKey { packed, inverted },
            payload: PhantomData,
        }
    }

    /// Returns the key without its payload's type.
    #[inline]
    #[must_use]
    pub const fn to_raw(self) -> RawKey {
        self.raw
    }

    /// Returns the key that [`to_raw`](Self::to_raw) was called on. If that was a key of another timer, of any type,
    /// this one is stale.
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: RawKey) -> Self {
        Self {
            raw,
            payload: PhantomData,
        }
    }

    /// Returns the shard that the timer lies on, counted from 0. Of an event loop: 0 for the loop's own timers, 1 for what
    /// its remotes have scheduled.
    #[inline]
    #[must_use]
    pub const fn shard(self) -> usize {
        self.raw.shard()
    }

    #[inline]
    #[doc(hidden)]
    pub const fn index(self) -> u32 {
        self.raw.index()
    }

    #[inline]
    pub(crate) const fn generation(self) -> u64 {
        self.raw.generation()
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<T> Eq for Key<T> {}

impl<T> PartialOrd for Key<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Key<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.raw.cmp(&other.raw)
    }
}

impl<T> Hash for Key<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

/// `shard:index#generation`, the last one in hexadecimal.
impl fmt::Display for RawKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}#{:x}",
            self.shard(),
            self.index(),
            self.generation()
        )
    }
}

impl fmt::Debug for RawKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawKey({self})")
    }
}

/// As the [`RawKey`].
impl<T> fmt::Display for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = (1 << GENERATION_BITS) - 1;

    #[test]
    fn packs_every_part() {
        let keys = [
            (0, 0, 0),
            (u16::MAX, u32::MAX - 1, TOP),
            (7, 1 << 31, 1 << 45),
        ];
        for (shard, index, generation) in keys {
            let key: Key<String> = Key::new(shard, index, generation);
            let parts = (key.shard() as u16, key.index(), key.generation());
            assert_eq!(parts, (shard, index, generation));
            assert_eq!(
                RawKey::from_bits(key.to_raw().to_bits()).map(Key::from_raw),
                Some(key)
            );
        }
        assert_eq!(
            (size_of::<Key<String>>(), size_of::<Option<Key<String>>>()),
            (12, 12)
        );
    }

    #[test]
    fn a_number_that_is_no_key_is_refused() {
        let most = Key::<()>::new(u16::MAX, u32::MAX - 1, TOP)
            .to_raw()
            .to_bits();
        assert_eq!(RawKey::from_bits(most).map(RawKey::to_bits), Some(most));
        for other in [most + 1, u128::from(u32::MAX), 1 << 96, u128::MAX] {
            assert_eq!(RawKey::from_bits(other), None, "{other:x}");
        }
    }

    #[test]
    fn it_is_shown_with_its_parts() {
        let key: Key<u8> = Key::new(3, 17, 0xa5);
        assert_eq!(format!("{key} {key:?}"), "3:17#a5 Key(3:17#a5)");
        assert_eq!(
            format!("{} {:?}", key.to_raw(), key.to_raw()),
            "3:17#a5 RawKey(3:17#a5)"
        );
    }
}
