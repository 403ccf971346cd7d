//! The buckets of the hashed wheel, in pages that exist only where entries lie.
//!
//! A ring may have 2^30 buckets. It is cut into pages of 64; a page comes into being with its first
//! entry and is put aside for reuse with its last one. A [`MinTree`] over the pages knows the
//! earliest deadline of all, so that empty buckets and empty pages cost nothing.
//!
//! Rules: a page that is present has an occupied bucket; the tree's key of a page is the minimum of
//! its buckets' `min`. Whoever removes entries of a bucket calls [`Pages::update_occupancy`] afterwards.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

use super::Entry;
use super::bits::{RING_BITS, RING_BUCKETS, next_set};
use super::chunks::{Bucket, Chunks};
use super::min_tree::MinTree;
use super::ring::Ring;
use crate::sync::boxed::Place;

/// Empty pages that are kept for the next use, over and above the number of pages in use.
const RESERVE_PAGES: usize = 64;

/// A power-of-two number of buckets.
pub(super) struct Pages {
    /// The bucket of a deadline is the deadline under this mask.
    mask: u64,
    pages: Vec<Option<Box<Ring>>>,
    in_use: usize,
    #[expect(clippy::vec_box, reason = "boxes change places with those of `pages`")]
    spare: Vec<Box<Ring>>,
    tree: MinTree,
}

impl Pages {
    /// `buckets` is a power of two.
    pub(super) fn new(buckets: usize) -> Self {
        debug_assert!(buckets.is_power_of_two());
        let pages = buckets.div_ceil(RING_BUCKETS);
        Self {
            mask: buckets as u64 - 1,
            pages: vec![None; pages],
            in_use: 0,
            spare: Vec::new(),
            tree: MinTree::new(pages),
        }
    }

    /// The number of buckets less one.
    pub(super) fn mask(&self) -> u64 {
        self.mask
    }

    /// The bucket that `deadline` belongs to.
    #[inline]
    pub(super) fn bucket_of(&self, deadline: u64) -> usize {
        (deadline & self.mask) as usize
    }

    /// The earliest deadline of all buckets, or earlier while a bucket's `min` is. O(1).
    #[inline]
    pub(super) fn earliest(&self) -> Option<u64> {
        self.tree.earliest()
    }

    /// Appends an entry, due before `u64::MAX`, to its bucket; false if there is no memory for it.
    #[inline]
    #[must_use]
    pub(super) fn try_push<const N: usize>(
        &mut self,
        chunks: &mut Chunks<N>,
        entry: Entry,
    ) -> bool {
        let bucket = self.bucket_of(entry.deadline);
        let (number, slot) = (bucket >> RING_BITS, bucket % RING_BUCKETS);
        let Some(page) = &mut self.pages[number] else {
            return self.push_in_new_page(chunks, entry);
        };
        let lower = entry.deadline < page.buckets[slot].min;
        let filed = page.try_push(slot, chunks, entry);
        if filed && lower {
            self.tree.lower(number, entry.deadline);
        }
        filed
    }

    #[cold]
    #[inline(never)]
    fn push_in_new_page<const N: usize>(&mut self, chunks: &mut Chunks<N>, entry: Entry) -> bool {
        let bucket = self.bucket_of(entry.deadline);
        let number = bucket >> RING_BITS;
        let spare = self.spare.pop().or_else(|| Some(Place::new()?.put(Ring::EMPTY)));
        let Some(mut page) = spare else { return false };
        let filed = page.try_push(bucket % RING_BUCKETS, chunks, entry);
        if filed {
            self.pages[number] = Some(page);
            self.in_use += 1;
            self.tree.lower(number, entry.deadline);
        }
        filed
    }

    /// A bucket, `None` when it and its whole page hold nothing.
    pub(super) fn bucket_mut(&mut self, bucket: usize) -> Option<&mut Bucket> {
        let page = self.pages[bucket >> RING_BITS].as_mut()?;
        Some(&mut page.buckets[bucket % RING_BUCKETS])
    }

    /// Brings occupancy and earliest deadlines in line after entries of a bucket were removed.
    pub(super) fn update_occupancy(&mut self, bucket: usize) {
        let number = bucket >> RING_BITS;
        let Some(page) = &mut self.pages[number] else {
            return;
        };
        page.update_occupancy(bucket % RING_BUCKETS);
        let earliest = page.earliest();
        self.tree.set(number, earliest);
        if earliest.is_none() {
            let page = self.pages[number].take();
            self.in_use -= 1;
            if self.spare.len() < self.in_use + RESERVE_PAGES {
                self.spare.extend(page);
            }
        }
    }

    /// The first bucket at or after `bucket` that holds entries.
    pub(super) fn occupied_from(&self, bucket: usize) -> Option<usize> {
        if bucket as u64 > self.mask {
            return None;
        }
        let within = |number: usize, slot: usize| {
            let page = self.pages[number].as_ref()?;
            Some((number << RING_BITS) + next_set(page.occupied, slot)?)
        };
        let number = bucket >> RING_BITS;
        within(number, bucket % RING_BUCKETS)
            .or_else(|| within(self.tree.occupied_from(number + 1)?, 0))
    }

    pub(super) fn held_bytes(&self) -> usize {
        (self.in_use + self.spare.len()) * size_of::<Ring>()
            + self.pages.capacity() * size_of::<Option<Box<Ring>>>()
            + self.tree.held_bytes()
    }
}
