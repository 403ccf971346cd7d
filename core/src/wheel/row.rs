//! The row of the buckets of all rings, the lowest ring first, with a bit for each that is occupied.
//!
//! ```text
//! bucket   0        64                  576                 704             768       ... 1216
//!          | recent | ring 0: one tick  | ring 1: 512 ticks | ring 2: 2^16  | ring 3: 2^22 ...
//! word     0        1                   9                   11              12            19
//! ```
//!
//! So the earliest entry lies in the first bucket that is occupied, and two searches for a bit find it.
//!
//! The two lowest rings together reach past a minute at ticks of a millisecond, so an entry that is due within it
//! moves once. Most of their bits are the lower one's: what is inserted goes to the upper one's buckets at random,
//! and many ends of chains to write at do not fit into the first-level cache. All other rings have 64 buckets,
//! because what lies there seldom moves, and a wheel is to stay small.

use super::Entry;
use super::chunks::{Bucket, Chunks};
use alloc::vec::Vec;
use core::mem::size_of;
use core::num::NonZero;

/// Buckets that one word has the occupancy bits of.
const WORD_BUCKETS: usize = u64::BITS as usize;

/// Buckets of the recent entries, each of one tick.
pub(super) const RECENT_BUCKETS: usize = WORD_BUCKETS;

/// Bits of a deadline that each ring resolves, the lowest ring first: all 64 of them together.
const WIDTHS: [u32; 10] = [9, 7, 6, 6, 6, 6, 6, 6, 6, 6];

/// The first bucket of the lowest ring.
const FIRST: usize = RECENT_BUCKETS;

/// All buckets.
pub(super) const BUCKETS: usize = {
    let (mut buckets, mut bits, mut ring) = (FIRST, 0, 0);
    while ring < WIDTHS.len() {
        assert!(WIDTHS[ring] >= 6, "a word belongs to one ring");
        buckets += 1 << WIDTHS[ring];
        bits += WIDTHS[ring];
        ring += 1;
    }
    assert!(bits == u64::BITS);
    buckets
};
const WORDS: usize = BUCKETS / WORD_BUCKETS;
const _: () = assert!(WORDS <= u64::BITS as usize);

/// A deadline's place in a ring.
#[derive(Clone, Copy)]
struct Ring {
    /// Its first bucket.
    first: u16,
    /// Its buckets less one.
    mask: u16,
    /// The logarithm of the ticks of a bucket.
    shift: u8,
}

impl Ring {
    /// Returns the ring that resolves bit `bit` of a deadline.
    const fn of_bit(bit: u32) -> Self {
        let (mut first, mut shift, mut ring) = (FIRST, 0, 0);
        while bit >= shift + WIDTHS[ring] {
            first += 1 << WIDTHS[ring];
            shift += WIDTHS[ring];
            ring += 1;
        }
        Self {
            first: first as u16,
            mask: (1 << WIDTHS[ring]) - 1,
            shift: shift as u8,
        }
    }
}

/// The ring by the highest bit in which a deadline differs from the anchor.
static RING_OF_BIT: [Ring; u64::BITS as usize] = {
    let mut rings = [Ring::of_bit(0); u64::BITS as usize];
    let mut bit = 0;
    while bit < u64::BITS {
        rings[bit as usize] = Ring::of_bit(bit);
        bit += 1;
    }
    rings
};

/// Returns the bucket in which `deadline` is inserted when the rings are anchored at `base`: in the ring of the
/// highest digit in which the two differ. Equal ticks belong to the lowest ring.
#[inline(always)]
pub(super) fn bucket_of(base: u64, deadline: u64) -> usize {
    // The lowest bit never changes the answer unless the ticks are equal, whose digit is the lowest.
    let ring = RING_OF_BIT[((base ^ deadline) | 1).ilog2() as usize];
    usize::from(ring.first) + ((deadline >> ring.shift) as usize & usize::from(ring.mask))
}

/// Returns the bucket of a recent entry.
#[inline(always)]
pub(super) const fn recent_bucket_of(deadline: u64) -> usize {
    deadline as usize % RECENT_BUCKETS
}

/// The ring by the word of a bucket beyond those of the recent entries.
static RING_OF_WORD: [Ring; WORDS] = {
    let mut rings = [Ring::of_bit(0); WORDS];
    let mut bit = 0;
    while bit < u64::BITS {
        let ring = Ring::of_bit(bit);
        let mut bucket = ring.first as usize;
        while bucket <= ring.first as usize + ring.mask as usize {
            rings[bucket / WORD_BUCKETS] = ring;
            bucket += WORD_BUCKETS;
        }
        bit += 1;
    }
    rings
};

/// Returns whether all entries of a bucket are of one tick.
#[inline]
pub(super) const fn is_tick(bucket: usize) -> bool {
    bucket < FIRST + (1 << WIDTHS[0])
}

/// Returns the first tick of a bucket beyond those of the recent entries, in the revolution that contains `base`.
#[inline]
fn start_of(base: u64, bucket: usize) -> u64 {
    let ring = RING_OF_WORD[bucket / WORD_BUCKETS];
    let digits = (base >> ring.shift) & !u64::from(ring.mask);
    (digits | (bucket - ring.first as usize) as u64) << ring.shift
}

/// A bucket of a ring, and the first tick of its range.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) bucket: usize,
    pub(super) start: u64,
}

/// See the module. Bit `n` of the row of `occupied` is set exactly when bucket `n` is not empty, and bit `n` of `words`
/// exactly when word `n` of it is not zero.
pub(super) struct Row {
    words: u64,
    /// The first word is that of the recent entries.
    pub(super) occupied: [u64; WORDS],
    /// Those up to the last one that was ever occupied, and a few more. There is memory for all, but a wheel does not
    /// touch that of rings beyond its deadlines.
    pub(super) buckets: Vec<Bucket>,
}

impl Row {
    pub(super) fn new() -> Self {
        Self {
            words: 0,
            occupied: [0; WORDS],
            buckets: Vec::with_capacity(BUCKETS),
        }
    }

    /// Returns the bytes of the buckets, used or not.
    pub(super) fn held_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    #[inline(always)]
    fn occupy(&mut self, bucket: usize) {
        self.occupied[bucket / WORD_BUCKETS] |= 1 << (bucket % WORD_BUCKETS);
        self.words |= 1 << (bucket / WORD_BUCKETS);
    }

    /// Appends `entry` to a bucket; false if there is no memory for it.
    #[inline(always)]
    #[must_use]
    pub(super) fn try_push(&mut self, bucket: usize, chunks: &mut Chunks, entry: Entry) -> bool {
        self.occupy(bucket);
        let Some(place) = self.buckets.get_mut(bucket) else {
            return self.push_beyond(bucket, chunks, entry);
        };
        let inserted = chunks.try_push(place, entry);
        if !inserted {
            self.update_occupancy(bucket);
        }
        inserted
    }

    /// Like [`try_push`](Self::try_push), for a bucket that is not there yet.
    #[cold]
    #[inline(never)]
    fn push_beyond(&mut self, bucket: usize, chunks: &mut Chunks, entry: Entry) -> bool {
        self.reach(bucket);
        self.try_push(bucket, chunks, entry)
    }

    /// Makes sure that a bucket is there, with all before it and those that share its word.
    fn reach(&mut self, bucket: usize) {
        let end = (bucket + 1).next_multiple_of(WORD_BUCKETS);
        if end > self.buckets.len() {
            // Within the capacity.
            self.buckets.resize(end, Bucket::EMPTY);
        }
    }

    /// Appends all of `from` to a bucket. O(1).
    pub(super) fn append(&mut self, bucket: usize, chunks: &mut Chunks, from: &mut Bucket) {
        self.occupy(bucket);
        self.reach(bucket);
        chunks.append(&mut self.buckets[bucket], from);
    }

    /// Brings the bits in line after entries of a bucket were removed.
    #[inline]
    pub(super) fn update_occupancy(&mut self, bucket: usize) {
        if self.buckets[bucket].is_empty() {
            self.vacate(bucket);
        }
    }

    /// Clears the bit of a bucket, which has become empty.
    #[inline]
    pub(super) fn vacate(&mut self, bucket: usize) {
        let word = &mut self.occupied[bucket / WORD_BUCKETS];
        *word &= !(1 << (bucket % WORD_BUCKETS));
        if *word == 0 {
            self.words &= !(1 << (bucket / WORD_BUCKETS));
        }
    }

    /// Returns the first occupied bucket of the rings, which are anchored at `base`. It has the earliest entry, as long
    /// as no cascade is unfinished.
    #[inline]
    pub(super) fn first(&self, base: u64) -> Option<Place> {
        let words = NonZero::new(self.words & u64::MAX << (FIRST / WORD_BUCKETS))?;
        let word = words.trailing_zeros() as usize;
        let bucket = word * WORD_BUCKETS + self.occupied[word].trailing_zeros() as usize;
        Some(Place {
            bucket,
            start: start_of(base, bucket),
        })
    }

    /// Returns the last occupied bucket at or before `bucket`, those of the recent entries included.
    pub(super) fn last_to(&self, bucket: usize) -> Option<usize> {
        let word = bucket / WORD_BUCKETS;
        let within = self.occupied[word] & u64::MAX >> (WORD_BUCKETS - 1 - bucket % WORD_BUCKETS);
        if within != 0 {
            return Some(word * WORD_BUCKETS + within.ilog2() as usize);
        }
        let below = self.words & ((1 << word) - 1);
        let word = below.checked_ilog2()? as usize;
        Some(word * WORD_BUCKETS + self.occupied[word].checked_ilog2()? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place that was never there was never touched, and takes no memory of the machine.
    #[test]
    fn buckets_are_there_up_to_the_last_one_that_was_used() {
        let (mut row, mut chunks) = (Row::new(), Chunks::default());
        let capacity = row.buckets.capacity();
        for (bucket, there) in [
            (3, 64),
            (63, 64),
            (64, 128),
            (700, 704),
            (9, 704),
            (BUCKETS - 1, BUCKETS),
        ] {
            let entry = Entry {
                deadline: 7,
                index: 1,
                mark: 1,
            };
            assert!(row.try_push(bucket, &mut chunks, entry));
            assert_eq!(row.buckets.len(), there);
            assert_eq!(row.buckets[bucket].earliest(), Some(7));
        }
        assert_eq!(row.buckets.capacity(), capacity, "nothing was allocated");
    }

    #[test]
    fn a_bucket_begins_at_or_before_its_deadlines_and_ends_after_them() {
        let bases = [
            0,
            1,
            511,
            512,
            65_535,
            1 << 22,
            (1 << 42) + 77,
            (1 << 63) + 17,
            u64::MAX - 9,
        ];
        for base in bases {
            let ahead = |bit: u32| [base | 1_u64 << bit | 5, base.saturating_add(1 << bit)];
            for deadline in (0..u64::BITS).flat_map(ahead) {
                let bucket = bucket_of(base, deadline);
                let shift = RING_OF_WORD[bucket / WORD_BUCKETS].shift;
                let start = start_of(base, bucket);
                assert!(start <= deadline, "{base}, {deadline}");
                assert_eq!(start >> shift, deadline >> shift, "{base}, {deadline}");
                assert_eq!(start, start >> shift << shift, "{base}, {deadline}");
                assert_eq!(is_tick(bucket), shift == 0);
            }
        }
    }
}
