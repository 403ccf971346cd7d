//! The pass: how the dead leave a bucket while the rest keeps its order.
//!
//! A pass goes through a bucket one chunk at a time and keeps its place, so that a long bucket is gone through within
//! many turns.

use super::chunks::{Bucket, CHUNK_ENTRIES, Chunks, NIL};
use super::{DeadMask, Sweep};

/// A pass through one bucket that removes the dead and packs the rest, a chunk at a time.
///
/// Between two steps the chain is whole and may grow at its tail; code that removes entries in another
/// way has to start the pass anew, because `packed` may then name a chunk of another bucket.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    /// The last chunk already gone through; `NIL` at the start of the bucket.
    packed: u32,
    /// The earliest deadline among the entries kept so far.
    min: u64,
}

impl Pass {
    pub(super) const START: Self = Self {
        packed: NIL,
        min: u64::MAX,
    };

    /// Returns whether the chunk is the one that the pass fills at the moment.
    pub(super) const fn stands_on(&self, chunk: u32) -> bool {
        self.packed == chunk
    }

    /// Goes through one chunk. The cycle is done when the whole bucket has been gone through; its `min` is exact then.
    ///
    /// Where timers are cancelled in the order in which they were scheduled, most chunks are all dead or all
    /// alive; neither kind is copied. A full chunk that loses nothing stays as it is even if the one before has
    /// room, so at least every other chunk of a bucket is full after a pass.
    pub(super) fn step(
        &mut self,
        chunks: &mut Chunks,
        bucket: &mut Bucket,
        is_dead: DeadMask<'_>,
    ) -> Sweep {
        let current = if self.packed == NIL {
            bucket.head
        } else {
            chunks.chunk(self.packed).next
        };
        if current == NIL {
            return Sweep {
                examined: 0,
                removed: 0,
                cycle_done: self.finish(bucket),
            };
        }
        let chunk = chunks.chunk(current);
        let mask = is_dead(chunk.entries());
        let (examined, next) = (chunk.len as usize, chunk.next);
        let all = u64::MAX >> (u64::BITS - chunk.len);
        let kept = if mask == all {
            self.unlink(chunks, bucket, current);
            0
        } else if mask == 0 && examined == CHUNK_ENTRIES {
            let earliest = chunk.entries().iter().map(|entry| entry.deadline).min();
            self.min = self.min.min(earliest.unwrap_or(u64::MAX));
            self.packed = current;
            examined
        } else {
            self.pack(chunks, bucket, current, mask)
        };
        let cycle_done = next == NIL && self.finish(bucket);
        Sweep {
            examined,
            removed: examined - kept,
            cycle_done,
        }
    }

    /// Removes what `mask` says from a chunk, fills the packed chunk up with what is left, and leaves the rest in
    /// place; how many entries are left.
    fn pack(&mut self, chunks: &mut Chunks, bucket: &mut Bucket, current: u32, mask: u64) -> usize {
        let mut chunk = *chunks.chunk(current);
        let mut kept = 0;
        for place in 0..chunk.len as usize {
            let entry = chunk.entries[place];
            chunk.entries[kept] = entry;
            if mask >> place & 1 == 0 {
                kept += 1;
                self.min = self.min.min(entry.deadline);
            }
        }
        chunk.len = kept as u32;
        let moved = match self.packed {
            NIL => 0,
            packed => chunks.chunk_mut(packed).append(chunk.entries()),
        };
        let rest = &chunk.entries()[moved..];
        if rest.is_empty() {
            self.unlink(chunks, bucket, current);
        } else {
            let chunk = chunks.chunk_mut(current);
            chunk.len = 0;
            chunk.append(rest);
            self.packed = current;
        }
        kept
    }

    /// Takes a chunk of which nothing is left out of the chain.
    fn unlink(&self, chunks: &mut Chunks, bucket: &mut Bucket, current: u32) {
        let next = chunks.release(current);
        match self.packed {
            NIL => bucket.head = next,
            packed => chunks.chunk_mut(packed).next = next,
        }
        if next == NIL {
            // `packed` is `NIL` here when nothing of the bucket was kept, which makes it empty.
            bucket.tail = self.packed;
        }
    }

    /// Sets the bucket's `min` anew; nothing was kept when the bucket is empty.
    fn finish(self, bucket: &mut Bucket) -> bool {
        bucket.min = self.min;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::Entry;
    use crate::wheel::chunks::tests::{all, entry};

    /// Chunks that lose nothing are not moved, and yet half of the room is used at least.
    #[test]
    fn full_chunks_stay_and_others_are_packed_together() {
        const FULL: u64 = CHUNK_ENTRIES as u64;
        // Of four chunks, how many of the first entries of each are dead.
        for (dead, chunks_left) in [
            ([FULL - 1, 0, FULL - 1, 0], 4),
            ([FULL - 1; 4], 1),
            ([FULL / 2; 4], 3),
            ([FULL, 0, FULL, 0], 2),
        ] {
            let (mut chunks, mut bucket) = (Chunks::default(), Bucket::EMPTY);
            (0..4 * FULL).for_each(|n| chunks.push(&mut bucket, entry(n)));
            let is_dead = |n: u64| n % FULL < dead[(n / FULL) as usize];
            let mask = &mut |entries: &[Entry]| {
                let bit =
                    |(place, entry): (usize, &Entry)| u64::from(is_dead(entry.deadline)) << place;
                entries.iter().enumerate().map(bit).sum()
            };
            let mut pass = Pass::START;
            while !pass.step(&mut chunks, &mut bucket, mask).cycle_done {}
            let kept: Vec<u64> = (0..4 * FULL).filter(|n| !is_dead(*n)).collect();
            assert_eq!(chunks.used, chunks_left, "{dead:?}");
            assert_eq!(bucket.earliest(), kept.first().copied());
            chunks.push(&mut bucket, entry(4 * FULL));
            assert!(
                all(&mut chunks, &mut bucket)
                    .into_iter()
                    .eq(kept.into_iter().chain([4 * FULL]))
            );
        }
    }
}
