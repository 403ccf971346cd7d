//! Chunks: the pooled memory in which every bucket keeps its entries.
//!
//! A bucket is a chain of fixed-size chunks, and a chunk is an array of plain entries. Inserting an
//! entry appends to the chain's last chunk; reading a bucket walks arrays in order. Any chunk of a
//! chain may be partly filled, but none is empty, so a chain is consistent between any two calls.
//!
//! The pool hands out chunks by index from segments that never move, always from the lowest segment
//! with room, so that the used part stays small and high segments fall empty. Those go back to the
//! system when the wheel's owner says so (see `spare`).
//!
//! One owner, no sharing: everything takes `&mut self`.

use super::Entry;
use crate::sync::piece::Room;
use alloc::vec::Vec;
use core::mem::size_of;

/// Entries of one chunk. There are few buckets and each holds much, so chunks are long. In sweeps and cascades of a
/// million timers, 31 beat 15 by a fifth and 7 by a half. 63 gain a little more there, but double what a small wheel
/// touches. At most 63, because a pass speaks of them by the bits of a word.
pub(super) const CHUNK_ENTRIES: usize = 31;

/// Chunks of one segment, the step by which a wheel's memory grows and shrinks: 64 KiB.
pub(super) const SEGMENT_CHUNKS: usize = 1 << SEGMENT_BITS;
const SEGMENT_BITS: u32 = 7;

/// No chunk. Its segment number is past every segment that can exist, see `Chunks::grow`.
pub(super) const NIL: u32 = u32::MAX;

/// An array of entries.
///
/// The header comes first, so that a chunk with few entries touches one cache line. Header and entries fill whole
/// lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Chunk {
    /// The next chunk of the chain, or of the segment's free list.
    pub(super) next: u32,
    pub(super) len: u32,
    pub(super) entries: [Entry; CHUNK_ENTRIES],
}

impl Chunk {
    const EMPTY: Self = {
        assert!(CHUNK_ENTRIES < 64 && (CHUNK_ENTRIES + 1).is_power_of_two());
        assert!(size_of::<Self>() == (CHUNK_ENTRIES + 1) * size_of::<Entry>());
        Self {
            next: NIL,
            len: 0,
            entries: [Entry {
                deadline: 0,
                index: 0,
                mark: 0,
            }; CHUNK_ENTRIES],
        }
    };

    /// Returns the filled part.
    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..self.len as usize]
    }

    /// Appends as many of `more` as fit and says how many that were.
    pub(super) fn append(&mut self, more: &[Entry]) -> usize {
        let len = self.len as usize;
        let fitting = more.len().min(CHUNK_ENTRIES - len);
        self.entries[len..len + fitting].copy_from_slice(&more[..fitting]);
        self.len += fitting as u32;
        fitting
    }
}

/// The chain of one bucket, with a lower bound of its deadlines.
///
/// `min` is exact as long as nothing but whole passes removed entries: a removal never raises it, a
/// finished pass sets it anew. It is `u64::MAX` in an empty bucket.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub(super) min: u64,
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Bucket {
    pub(super) const EMPTY: Self = Self {
        min: u64::MAX,
        head: NIL,
        tail: NIL,
    };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Returns the lower bound of its deadlines, `None` when it holds nothing.
    #[inline]
    pub(super) fn earliest(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min)
    }
}

/// One segment of the pool.
struct Segment {
    /// Without places once the segment went back to the system; its number is reused later.
    ///
    /// Those that have never served are not there: a wheel touches no more of its memory than it has used at once.
    chunks: Room<Chunk>,
    /// First free chunk of those that have served, as an index inside the segment; `NIL` for none.
    free_head: u32,
    free: u32,
}

impl Segment {
    /// Frees a chunk that has never served.
    #[cold]
    #[inline(never)]
    fn add_chunk(&mut self) {
        self.free_head = self.chunks.push(Chunk::EMPTY) as u32;
    }
}

/// The pool of chunks that all buckets of a wheel share.
#[derive(Default)]
pub(super) struct Chunks {
    segments: Vec<Segment>,
    /// Segments with a free chunk.
    with_room: BitSet,
    pub(super) used: usize,
    pub(super) free: usize,
    /// Segments of which no chunk is used.
    pub(super) empty: usize,
    /// Segments that there is memory for, if that is bounded.
    #[cfg(test)]
    pub(super) most_segments: Option<usize>,
}

impl Chunks {
    /// Returns the bytes that the pool holds, used or not.
    pub(super) fn held_bytes(&self) -> usize {
        (self.used + self.free) * size_of::<Chunk>()
            + self.segments.capacity() * size_of::<Segment>()
    }

    /// Appends `entry` to `bucket`; false if there is no memory for it. O(1); allocates only when the pool has no free
    /// chunk.
    #[inline(always)]
    #[must_use]
    pub(super) fn try_push(&mut self, bucket: &mut Bucket, entry: Entry) -> bool {
        // An empty bucket's tail is `NIL`, which no segment contains: one test answers both questions.
        if let Some(segment) = self
            .segments
            .get_mut((bucket.tail >> SEGMENT_BITS) as usize)
        {
            let place = bucket.tail as usize % SEGMENT_CHUNKS;
            if let Some(tail) = segment.chunks.get_mut(place) {
                if let Some(place) = tail.entries.get_mut(tail.len as usize) {
                    *place = entry;
                    tail.len += 1;
                    bucket.min = bucket.min.min(entry.deadline);
                    return true;
                }
            }
        }
        self.push_in_new_chunk(bucket, entry)
    }

    #[cold]
    #[inline(never)]
    fn push_in_new_chunk(&mut self, bucket: &mut Bucket, entry: Entry) -> bool {
        let Some(id) = self.allocate(entry) else {
            return false;
        };
        if bucket.is_empty() {
            bucket.head = id;
        } else {
            self.chunk_mut(bucket.tail).next = id;
        }
        bucket.tail = id;
        bucket.min = bucket.min.min(entry.deadline);
        true
    }

    /// Appends all of `from`, chunk by chunk as it is, to `bucket`. A single chunk whose entries fit into the last one
    /// is released: entries that come one by one share chunks. O(1).
    pub(super) fn append(&mut self, bucket: &mut Bucket, from: &mut Bucket) {
        if from.is_empty() {
            return;
        }
        if bucket.is_empty() {
            *bucket = *from;
        } else {
            bucket.min = bucket.min.min(from.min);
            if from.head == from.tail && self.has_room(bucket.tail, self.chunk(from.head).len) {
                let single = *self.chunk(from.head);
                self.chunk_mut(bucket.tail).append(single.entries());
                self.release(from.head);
            } else {
                self.chunk_mut(bucket.tail).next = from.head;
                bucket.tail = from.tail;
            }
        }
        *from = Bucket::EMPTY;
    }

    /// Takes the memory of the first segment: with a chunk for each of a hundred entries, they find room in any
    /// buckets. False if there is no memory.
    pub(super) fn reserve_first(&mut self) -> bool {
        const { assert!(SEGMENT_CHUNKS > 100) };
        self.grow().is_some()
    }

    fn has_room(&self, id: u32, entries: u32) -> bool {
        (self.chunk(id).len + entries) as usize <= CHUNK_ENTRIES
    }

    /// Takes the first chunk out as it is, as a bucket of its own, if it is full and all of its entries are due at the
    /// same tick, which comes with it.
    pub(super) fn pop_uniform(&mut self, bucket: &mut Bucket) -> Option<(u64, Bucket)> {
        if bucket.is_empty() {
            return None;
        }
        let head = bucket.head;
        let chunk = self.chunk_mut(head);
        let tick = chunk.entries[0].deadline;
        if chunk.entries().len() < CHUNK_ENTRIES
            || chunk.entries.iter().any(|entry| entry.deadline != tick)
        {
            return None;
        }
        bucket.head = core::mem::replace(&mut chunk.next, NIL);
        if bucket.is_empty() {
            *bucket = Bucket::EMPTY;
        }
        Some((
            tick,
            Bucket {
                min: tick,
                head,
                tail: head,
            },
        ))
    }

    /// Removes the first chunk of `bucket` and returns a copy of it.
    ///
    /// The bucket's `min` stays as it is until the bucket is empty.
    pub(super) fn pop(&mut self, bucket: &mut Bucket) -> Option<Chunk> {
        if bucket.is_empty() {
            return None;
        }
        let chunk = *self.chunk(bucket.head);
        self.release_head(bucket);
        Some(chunk)
    }

    /// Moves up to `limit` entries from the front of `bucket` to `out`, tells `released` of each chunk that leaves the
    /// chain, and says how many entries it has moved.
    pub(super) fn take(
        &mut self,
        bucket: &mut Bucket,
        limit: usize,
        out: &mut Vec<Entry>,
        mut released: impl FnMut(u32),
    ) -> usize {
        let mut left = limit;
        while !bucket.is_empty() && left > 0 {
            let head = self.chunk_mut(bucket.head);
            let len = head.len as usize;
            if len > left {
                out.extend_from_slice(&head.entries[..left]);
                head.entries.copy_within(left..len, 0);
                head.len -= left as u32;
                return limit;
            }
            out.extend_from_slice(head.entries());
            left -= len;
            released(bucket.head);
            self.release_head(bucket);
        }
        limit - left
    }

    /// Releases the first chunk of a bucket that is not empty, with its entries.
    pub(super) fn release_head(&mut self, bucket: &mut Bucket) {
        bucket.head = self.release(bucket.head);
        if bucket.is_empty() {
            *bucket = Bucket::EMPTY;
        }
    }

    pub(super) fn chunk(&self, id: u32) -> &Chunk {
        let segment = &self.segments[(id >> SEGMENT_BITS) as usize];
        &segment.chunks[id as usize % SEGMENT_CHUNKS]
    }

    pub(super) fn chunk_mut(&mut self, id: u32) -> &mut Chunk {
        let segment = &mut self.segments[(id >> SEGMENT_BITS) as usize];
        &mut segment.chunks[id as usize % SEGMENT_CHUNKS]
    }

    /// Returns a chunk with one entry, from the lowest segment that has a free one; `None` if there is no memory.
    fn allocate(&mut self, entry: Entry) -> Option<u32> {
        let number = self.with_room.first().or_else(|| self.grow())?;
        let segment = &mut self.segments[number];
        if segment.free_head == NIL {
            segment.add_chunk();
        }
        let place = segment.free_head;
        let chunk = &mut segment.chunks[place as usize];
        segment.free_head = core::mem::replace(&mut chunk.next, NIL);
        chunk.len = 1;
        chunk.entries[0] = entry;
        self.empty -= usize::from(segment.free as usize == SEGMENT_CHUNKS);
        segment.free -= 1;
        if segment.free == 0 {
            self.with_room.remove(number);
        }
        self.free -= 1;
        self.used += 1;
        Some(((number as u32) << SEGMENT_BITS) | place)
    }

    /// Gives a chunk that no chain names any more back to its segment; returns the one that followed it.
    pub(super) fn release(&mut self, id: u32) -> u32 {
        let number = (id >> SEGMENT_BITS) as usize;
        let segment = &mut self.segments[number];
        let link = &mut segment.chunks[id as usize % SEGMENT_CHUNKS].next;
        let next = core::mem::replace(link, segment.free_head);
        segment.free_head = id % SEGMENT_CHUNKS as u32;
        segment.free += 1;
        if segment.free == 1 {
            self.with_room.insert(number);
        }
        self.empty += usize::from(segment.free as usize == SEGMENT_CHUNKS);
        self.used -= 1;
        self.free += 1;
        next
    }

    /// Adds the memory of one segment and returns its number; `None` if there is none.
    #[cold]
    fn grow(&mut self) -> Option<usize> {
        let is_vacant = |segment: &Segment| segment.chunks.capacity() == 0;
        let vacant = self.segments.iter().position(is_vacant);
        let number = vacant.unwrap_or(self.segments.len());
        #[cfg(test)]
        if self.most_segments.is_some_and(|most| number >= most) {
            return None;
        }
        // 2^32 chunks are half a tebibyte at least; the last segment number stays unused because `NIL` names it.
        if number >= (NIL >> SEGMENT_BITS) as usize {
            return None;
        }
        let chunks = Room::with_capacity(SEGMENT_CHUNKS)?;
        // The first one makes places for a quarter of a million entries.
        self.segments
            .try_reserve(if number == 0 { 64 } else { 1 })
            .ok()?;
        self.with_room.try_reserve(number)?;
        if vacant.is_none() {
            self.segments.push(Segment {
                chunks: Room::default(),
                free_head: NIL,
                free: 0,
            });
        }
        let segment = &mut self.segments[number];
        segment.chunks = chunks;
        segment.free_head = NIL;
        segment.free = SEGMENT_CHUNKS as u32;
        self.with_room.insert(number);
        self.free += SEGMENT_CHUNKS;
        self.empty += 1;
        Some(number)
    }

    /// Gives the highest empty segment back to the system, if there is one.
    pub(super) fn give_segment_back(&mut self) {
        let is_empty = |segment: &Segment| segment.free as usize == SEGMENT_CHUNKS;
        let Some(number) = self.segments.iter().rposition(is_empty) else {
            return;
        };
        let segment = &mut self.segments[number];
        (segment.free, segment.chunks) = (0, Room::default());
        self.with_room.remove(number);
        self.free -= SEGMENT_CHUNKS;
        self.empty -= 1;
        while self
            .segments
            .last()
            .is_some_and(|segment| segment.chunks.capacity() == 0)
        {
            self.segments.pop();
        }
    }
}

/// A set of small numbers. Its memory is one bit per number up to the largest ever inserted.
#[derive(Default)]
struct BitSet {
    words: Vec<u64>,
    /// Every word below this one is 0, so that `first` need not look there again.
    low: usize,
}

impl BitSet {
    /// Makes room for `number`; `None` if there is no memory for it.
    fn try_reserve(&mut self, number: usize) -> Option<()> {
        let words = number / 64 + 1;
        let more = words.saturating_sub(self.words.len());
        self.words.try_reserve(more).ok()?;
        self.words.resize(self.words.len() + more, 0);
        Some(())
    }

    /// Inserts a number, for which there must be [room](Self::try_reserve).
    fn insert(&mut self, number: usize) {
        let word = number / 64;
        self.words[word] |= 1 << (number % 64);
        self.low = self.low.min(word);
    }

    fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// Returns the smallest member.
    fn first(&mut self) -> Option<usize> {
        while let Some(&word) = self.words.get(self.low) {
            if word != 0 {
                return Some(self.low * 64 + word.trailing_zeros() as usize);
            }
            self.low += 1;
        }
        None
    }
}

#[cfg(test)]
pub(super) mod tests;
