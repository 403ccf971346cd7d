//! The pass: how some entries leave a bucket while the rest keeps its order.
//!
//! Sweeping the dead and picking the due out of a hashed bucket are the same work: look at every
//! entry, remove some, pack the rest. A pass does it one chunk at a time and keeps its place, so that
//! a long bucket is gone through within many turns.

use super::Sweep;
use super::chunks::{Bucket, Chunks, NIL};

/// A pass through one bucket that removes some entries and packs the rest, a chunk at a time.
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
    /// `remove` is told its number and returns a mask whose bit `n` removes entry `n`;
    /// it may push to other buckets of the pool meanwhile.
    ///
    /// Where timers are cancelled in the order in which they were scheduled, most chunks are all dead or all
    /// alive; neither kind is copied. A full chunk that loses nothing stays as it is even if the one before has
    /// room, so at least every other chunk of a bucket is full after a pass.
    pub(super) fn step<const N: usize>(
        &mut self,
        chunks: &mut Chunks<N>,
        bucket: &mut Bucket,
        remove: impl FnOnce(&mut Chunks<N>, u32) -> u64,
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
        let mask = remove(chunks, current);
        let chunk = chunks.chunk(current);
        let (examined, next) = (chunk.len as usize, chunk.next);
        let all = u64::MAX >> (u64::BITS - chunk.len);
        let kept = if mask == all {
            self.unlink(chunks, bucket, current);
            0
        } else if mask == 0 && examined == N {
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
    fn pack<const N: usize>(
        &mut self,
        chunks: &mut Chunks<N>,
        bucket: &mut Bucket,
        current: u32,
        mask: u64,
    ) -> usize {
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
    fn unlink<const N: usize>(&self, chunks: &mut Chunks<N>, bucket: &mut Bucket, current: u32) {
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
    use crate::wheel::chunks::tests::{Small, all, entry};

    /// Chunks that lose nothing are not moved, and yet half of the room is used at least.
    #[test]
    fn full_chunks_stay_and_others_are_packed_together() {
        for (dead, chunks_left) in [
            (0b000_011_000_011_u64, 4),
            (0b011_011_011_011, 2),
            (0b111_000_111_000, 2),
        ] {
            let (mut chunks, mut bucket) = (Small::default(), Bucket::EMPTY);
            (0..12).for_each(|n| chunks.push(&mut bucket, entry(n)));
            let mut pass = Pass::START;
            let mask = |entries: &[Entry]| {
                let bit = |(place, entry): (usize, &Entry)| (dead >> entry.deadline & 1) << place;
                entries.iter().enumerate().map(bit).sum()
            };
            while !pass
                .step(&mut chunks, &mut bucket, |chunks, id| {
                    mask(chunks.chunk(id).entries())
                })
                .cycle_done
            {}
            let kept: Vec<u64> = (0..12).filter(|n| dead >> n & 1 == 0).collect();
            assert_eq!(chunks.used(), chunks_left, "{dead:b}");
            assert_eq!(bucket.earliest(), kept.first().copied());
            chunks.push(&mut bucket, entry(12));
            assert!(
                all(&mut chunks, &mut bucket)
                    .into_iter()
                    .eq(kept.into_iter().chain([12]))
            );
        }
    }
}
