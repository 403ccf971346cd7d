//! The pool and its chains.

use super::*;

pub(in crate::wheel) fn entry(n: u64) -> Entry {
    Entry {
        deadline: n,
        index: n as u32,
        mark: 7,
    }
}

impl Chunks {
    pub(in crate::wheel) fn push(&mut self, bucket: &mut Bucket, entry: Entry) {
        assert!(self.try_push(bucket, entry));
    }
}

/// Empties a bucket; the deadlines of what was in it.
pub(in crate::wheel) fn all(chunks: &mut Chunks, bucket: &mut Bucket) -> Vec<u64> {
    let mut out = Vec::new();
    while let Some(chunk) = chunks.pop(bucket) {
        out.extend(chunk.entries().iter().map(|entry| entry.deadline));
    }
    out
}

#[test]
fn memory_follows_the_population_and_low_segments_fill_first() {
    let mut chunks = Chunks::default();
    let mut buckets = vec![Bucket::EMPTY; 50];
    chunks.push(&mut buckets[0], entry(0));
    let of_list = chunks.held_bytes() - SEGMENT_CHUNKS * size_of::<Chunk>();
    assert!(
        (size_of::<Segment>()..4096).contains(&of_list),
        "{of_list} bytes"
    );
    all(&mut chunks, &mut buckets[0]);
    let entries = (40 * SEGMENT_CHUNKS * CHUNK_ENTRIES) as u64;
    (0..entries).for_each(|n| chunks.push(&mut buckets[n as usize % 50], entry(n)));
    let peak = chunks.held_bytes();
    assert!(chunks.free < SEGMENT_CHUNKS * 2);
    for bucket in &mut buckets {
        all(&mut chunks, bucket);
    }
    assert_eq!(chunks.held_bytes(), peak, "it goes when the owner says so");
    while chunks.empty > 10 {
        chunks.give_segment_back();
    }
    assert!(chunks.held_bytes() < peak / 3);
    chunks.push(&mut buckets[0], entry(1));
    let lowest = chunks
        .segments
        .iter()
        .position(|segment| segment.chunks.capacity() > 0);
    let serving = (buckets[0].head >> SEGMENT_BITS) as usize;
    assert_eq!(lowest, Some(serving), "the lowest segment serves first");
    (0..entries).for_each(|n| chunks.push(&mut buckets[n as usize % 50], entry(n)));
    assert!(
        chunks.held_bytes() <= peak * 11 / 10,
        "numbers of returned segments are reused"
    );
}

/// A place that was never there was never touched, and takes no memory of the machine.
#[test]
fn a_segment_has_as_many_chunks_as_were_used_at_once() {
    let mut chunks = Chunks::default();
    assert!(chunks.reserve_first());
    let there = |chunks: &Chunks| chunks.segments[0].chunks.len();
    assert_eq!(there(&chunks), 0);
    for most in [1, 1, 3, 2] {
        let mut buckets = vec![Bucket::EMPTY; most];
        for n in 0..10 {
            for bucket in &mut buckets {
                chunks.push(bucket, entry(n));
            }
            for bucket in &mut buckets {
                assert_eq!(all(&mut chunks, bucket), [n]);
            }
        }
    }
    assert_eq!(there(&chunks), 3);
}

/// Numbers of entries in chains of up to three chunks.
fn lengths() -> impl Iterator<Item = u64> {
    (0..=2).flat_map(|full| [0, 1, 2, 15, 30].map(|more| full * CHUNK_ENTRIES as u64 + more))
}

#[test]
fn a_chain_is_appended_whether_its_chunk_fits_into_the_last_one_or_not() {
    for (before, more) in lengths().flat_map(|before| lengths().map(move |more| (before, more))) {
        let mut chunks = Chunks::default();
        let (mut bucket, mut from) = (Bucket::EMPTY, Bucket::EMPTY);
        (0..before).for_each(|n| chunks.push(&mut bucket, entry(n)));
        (before..before + more).for_each(|n| chunks.push(&mut from, entry(n)));
        chunks.append(&mut bucket, &mut from);
        assert!(from.is_empty());
        assert_eq!(bucket.earliest(), (before + more > 0).then_some(0));
        assert!(
            all(&mut chunks, &mut bucket)
                .into_iter()
                .eq(0..before + more)
        );
    }
}

#[test]
fn a_set_has_room_for_numbers_of_any_size() {
    let mut set = BitSet::default();
    for number in [100_000, 4096, 64, 63, 0] {
        set.try_reserve(number).unwrap();
        set.insert(number);
        assert_eq!(set.first(), Some(number));
    }
    for number in [0, 63, 64, 4096, 100_000] {
        assert_eq!(set.first(), Some(number));
        set.remove(number);
    }
    assert_eq!(set.first(), None);
}
